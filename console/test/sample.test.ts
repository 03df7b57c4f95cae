/** The tool and the values of the first run. */

import { expect, test } from 'vitest';
import type { JsonObject, ToolSummary } from '../src/api/types';
import { clientForms } from '../src/screens/overview/clients';
import { candidates, isShort, readField, sampleFields } from '../src/screens/overview/sample';

const tool = (id: string, more: Partial<ToolSummary>): ToolSummary =>
  ({
    id,
    toolkit: id.split('.')[0],
    tool: id.split('.')[1],
    served: true,
    newest: true,
    requirements: [],
    effectiveLevel: 1,
    effect: null,
    ...more,
  }) as ToolSummary;

test('tools that only read come first; what needs something or destroys is left out', () => {
  const tools = [
    tool('House.Burn', { effect: 'destroys', effectiveLevel: 1 }),
    tool('Calculator.Add', {}),
    tool('Mail.list', { effect: 'reads', requirements: [{ kind: 'account', name: 'google' }] }),
    tool('Weather.get', { effect: 'reads' }),
    tool('Old.get', { effect: 'reads', newest: false }),
    tool('High.write', { effect: 'writes', effectiveLevel: 6 }),
  ];
  expect(candidates(tools).map((each) => each.id)).toEqual(['Weather.get', 'Calculator.Add']);
});

test('values come from the example, else from the schema', () => {
  const inputSchema: JsonObject = {
    type: 'object',
    properties: {
      place: { type: 'string', examples: ['Oslo'] },
      days: { type: 'integer', minimum: 1, maximum: 7 },
      unit: { enum: ['C', 'F'] },
      deep: { type: 'object' },
    },
    required: ['place', 'days', 'unit'],
  };
  expect(isShort({ inputSchema })).toBe(true);
  expect(isShort({ inputSchema: { ...inputSchema, required: ['deep'] } })).toBe(false);
  expect(sampleFields({ inputSchema, examples: [] }).map((each) => each.value)).toEqual(['Oslo', 2, 'C']);
  const example = { arguments: { place: 'Rome', days: 3 } };
  expect(sampleFields({ inputSchema, examples: [example] }).map((each) => each.value)).toEqual(['Rome', 3, 'C']);
});

test('fields give values of their type', () => {
  const field = (type: 'number' | 'string' | 'boolean') => ({ type, choices: [] });
  expect(readField(field('number'), '40')).toBe(40);
  expect(readField(field('number'), '')).toBeUndefined();
  expect(readField(field('number'), 'forty')).toBe('forty');
  expect(readField(field('string'), '')).toBe('');
  expect(readField(field('boolean'), 'true')).toBe(true);
  expect(readField({ type: 'choice', choices: [1, 'a'] }, '"a"')).toBe('a');
});

test('configurations of clients name the variable of the key, never a key', () => {
  const open = clientForms({ mcp: 'http://h/mcp', base: 'http://h', keyVariable: null, call: null });
  const call = { toolkit: 'Kit', tool: 'say', arguments: { text: "it's" } };
  const keyed = clientForms({ mcp: 'http://h/mcp', base: 'http://h', keyVariable: 'TOOLHALL_KEY', call });
  for (const form of open) expect(form.text).not.toContain('Authorization');
  for (const form of keyed) expect(form.text).toContain('TOOLHALL_KEY');
  expect(open.at(-1)?.text).toBe('curl -s http://h/tools');
  expect(keyed.at(-1)?.text).toContain(`/tools/Kit/say -H "Authorization: Bearer $TOOLHALL_KEY"`);
  expect(keyed.at(-1)?.text).toContain(`-d '{"text":"it'\\''s"}'`);
  for (const form of keyed.slice(0, 3)) expect(JSON.parse(form.text)).toBeTruthy();
});
