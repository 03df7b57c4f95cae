/** C12: published definitions draw, and what they give as examples and defaults comes out as it went in. */

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { jsonParts } from '../../src/forms/places';
import { Shapes } from '../../src/forms/schema';
import { formValue, initialState, stateOf } from '../../src/forms/state';
import { type Exact, type ExactObject, isObject, readJson, sameJson } from '../../src/json/exact';

const CONSOLE = process.cwd();
const FOLDERS = [
  join(CONSOLE, '../tests/corpora'),
  process.env.TOOLHALL_CORPORA ?? join(CONSOLE, '../../shared/accept/corpora'),
];
const files = FOLDERS.filter(existsSync).flatMap((folder) =>
  readdirSync(folder)
    .filter((name) => name.endsWith('.jsonl'))
    .map((name) => join(folder, name)),
);
const vectors = [
  'mcp/everything.json',
  'mcp/get_weather.json',
  'oxp/calculator_add.json',
  'oxp/gmail_getemails.json',
  'oxp/sms_send.json',
  'machine/calculator.json',
  'hub/example_tool.json',
];

/** Every input schema in a document, whatever dialect it is written in. */
function* inputSchemas(value: Exact): Generator<ExactObject> {
  if (Array.isArray(value)) for (const each of value) yield* inputSchemas(each);
  if (!isObject(value)) return;
  for (const [key, each] of Object.entries(value)) {
    if (['inputSchema', 'input_schema', 'parameters'].includes(key) && isObject(each)) yield each;
    else yield* inputSchemas(each);
  }
}

function check(schema: ExactObject): number {
  const shape = new Shapes(schema).top;
  formValue(initialState(shape, true));
  for (const each of Array.isArray(schema.examples) ? schema.examples : [])
    expect(sameJson(formValue(stateOf(shape, each)), each)).toBe(true);
  for (const member of shape.members) {
    const { default: preset, examples } = member.shape.keywords;
    for (const each of [preset, ...(Array.isArray(examples) ? examples : [])]) {
      if (each !== undefined) expect(sameJson(formValue(stateOf(member.shape, each)), each)).toBe(true);
    }
  }
  // What cannot be read is listed; definitions that people published have none of it but for what says nothing.
  const parts = jsonParts(shape, 6);
  expect(parts.filter(({ reason }) => !['anything', 'reference', 'unknown_type'].includes(reason))).toEqual([]);
  return parts.length;
}

describe('corpora', () => {
  it.each(files)('%s draws', (file) => {
    const lines = readFileSync(file, 'utf8')
      .split('\n')
      .filter((line) => line.trim() !== '');
    let schemas = 0;
    for (const line of lines) {
      for (const schema of inputSchemas(readJson(line).value)) {
        check(schema);
        schemas += 1;
      }
    }
    expect(schemas).toBeGreaterThan(0);
  });

  it.each(vectors)('tests/vectors/%s draws', (name) => {
    const schemas = [...inputSchemas(readJson(readFileSync(join(CONSOLE, '../tests/vectors', name), 'utf8')).value)];
    for (const schema of schemas) check(schema);
  });
});
