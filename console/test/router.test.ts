/** Addresses of screens: what is written is read again. */

import { expect, test } from 'vitest';
import { href, parse } from '../src/app/router';
import { niceTop } from '../src/ui/charts';
import { readTerm } from '../src/ui/filter-line';
import { checkJson } from '../src/ui/json';

test.each([
  [['tools', 'Mail.send@1.0.0', 'try'], { dialect: 'mcp' }, '#/tools/Mail.send@1.0.0/try?dialect=mcp'],
  [['calls'], { tool: 'Mail.*', outcome: '' }, '#/calls?tool=Mail.*'],
  [[], {}, '#/'],
  [['tools', 'a/b?c#d%', 'x'], {}, '#/tools/a%2Fb%3Fc%23d%25/x'],
] as const)('%j', (path, query, address) => {
  expect(href([...path], query)).toBe(address);
  const route = parse(address);
  expect([route.screen, ...route.path].filter(Boolean)).toEqual(path);
});

test('an address that is no address is shown as it is', () => {
  expect(parse('#/tools/%E0%A4%A').path).toEqual(['%E0%A4%A']);
});

test('terms of a filter', () => {
  const names = ['tool', 'caller'];
  expect(readTerm('tool:Mail.*', names)).toEqual(['tool', 'Mail.*']);
  expect(readTerm('tool:', names)).toBeNull();
  expect(readTerm('other:x', names)).toBeNull();
  expect(readTerm('other:x', names, 'query')).toEqual(['query', 'other:x']);
});

test('axes end at round numbers', () => {
  expect([0, 2, 3, 17, 61, 200, 201].map(niceTop)).toEqual([2, 2, 4, 20, 80, 200, 400]);
});

test('what is wrong with JSON has a line and a column', () => {
  expect(checkJson('{"a": 1}')).toEqual({ value: { a: 1 } });
  expect(checkJson('{\n  "a": x\n}').problem).toContain('Line 2, column 8');
});
