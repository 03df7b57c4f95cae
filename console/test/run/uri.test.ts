/** URIs from templates: the examples of RFC 6570 that the hall serves, and texts that no URI may hold as they are. */

import { expect, test } from 'vitest';
import type { Exact } from '../../src/json/exact';
import { mcpRequest, type Target } from '../../src/run/target';
import { expandUri } from '../../src/run/uri';

const VALUES: Exact = {
  var: 'value',
  hello: 'Hello World!',
  path: '/foo/bar',
  empty: '',
  half: '50%',
  x: 1024,
  y: 768,
  list: ['red', 'green', 'blue'],
  none: [],
};

test.each([
  ['{var}', 'value'],
  ['{hello}', 'Hello%20World%21'],
  ['{half}', '50%25'],
  ['O{empty}X', 'OX'],
  ['O{undef}X', 'OX'],
  ['{x,y}', '1024,768'],
  ['{+hello}', 'Hello%20World!'],
  ['{+path}/here', '/foo/bar/here'],
  ['up{+path}{var}/here', 'up/foo/barvalue/here'],
  ['{#path}', '#/foo/bar'],
  ['X{.x,y}', 'X.1024.768'],
  ['{/var,x}/here', '/value/1024/here'],
  ['{;x,empty}', ';x=1024;empty'],
  ['{?x,empty,undef}', '?x=1024&empty='],
  ['?fixed=yes{&x}', '?fixed=yes&x=1024'],
  ['{list}', 'red,green,blue'],
  ['{/list*}', '/red/green/blue'],
  ['{/none*}end', 'end'],
  ['a:/é/{var}', 'a:/%C3%A9/value'],
])('%s', (template, uri) => {
  expect(expandUri(template, VALUES)).toBe(uri);
});

test('what is encoded stays so where reserved characters may stand, and is encoded again elsewhere', () => {
  expect(expandUri('a:{+x}', { x: '%41[%' })).toBe('a:%41[%25');
  expect(expandUri('a:{x}', { x: '%41/../\ud800' })).toBe('a:%2541%2F..%2F%EF%BF%BD');
});

const target: Target = {
  kind: 'prompt',
  hall: '',
  toolkit: 'Kit',
  tool: 'review',
  version: null,
  published: 'review',
  uri: null,
};

test('a prompt gets its arguments as texts, a resource is only a URI', () => {
  const args: Exact = { code: 'x', lines: 3, strict: true };
  expect(mcpRequest(target, args)).toEqual({
    method: 'prompts/get',
    name: 'review',
    params: { name: 'review', arguments: { code: 'x', lines: '3', strict: 'true' } },
  });
  const read: Target = { ...target, kind: 'resource', uri: 'kit://{code}{?lines}' };
  expect(mcpRequest(read, args)).toEqual({
    method: 'resources/read',
    name: 'kit://x?lines=3',
    params: { uri: 'kit://x?lines=3' },
  });
});
