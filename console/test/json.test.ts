/** JSON that loses nothing. */

import { describe, expect, it } from 'vitest';
import {
  ExactNumber,
  JsonError,
  quoteJson,
  readJson,
  sameJson,
  tryJson,
  typedNumber,
  writeJson,
} from '../src/json/exact';

describe('reading', () => {
  it('keeps numbers as they were written', () => {
    for (const text of ['12345678901234567890', '1e400', '1.0', '-0', '0.1', '1e-7', '-5'])
      expect(writeJson(readJson(text).value)).toBe(text);
    expect(readJson('5').value).toBe(5);
    expect(readJson('5.0').value).toEqual(new ExactNumber('5.0'));
  });

  it('knows the place of each value', () => {
    const text = '{"a/b": [1, {"c": "x"}]}';
    const { places } = readJson(text);
    expect(text.slice(...(places.get('/a~1b/1/c') ?? [0, 0]))).toBe('"x"');
    expect(text.slice(...(places.get('/a~1b') ?? [0, 0]))).toBe('[1, {"c": "x"}]');
  });

  it.each([
    ['', 'end', 1, 1],
    ['{', 'end', 1, 2],
    ['{"a" 1}', 'colon', 1, 6],
    ['[1,\n2', 'end', 2, 2],
    ['[1 2]', 'comma', 1, 4],
    ['{a: 1}', 'key', 1, 2],
    ['"\\x"', 'escape', 1, 2],
    ['"a\nb"', 'string', 1, 3],
    ['01', 'number', 1, 2],
    ['1 2', 'more', 1, 3],
    ['{"a": 1, "a": 2}', 'duplicate', 1, 10],
    ['nul', 'value', 1, 1],
    ['-', 'number', 1, 1],
    ['[1,]', 'value', 1, 4],
    [`${'['.repeat(300)}`, 'deep', 1, 202],
  ])('%j is refused', (text, reason, line, column) => {
    expect(tryJson(text)).toBeUndefined();
    try {
      readJson(text);
    } catch (error) {
      expect(error).toMatchObject({ reason, line, column });
      expect(error).toBeInstanceOf(JsonError);
    }
  });
});

it('writing escapes what cannot be seen', () => {
  expect(quoteJson('a\u200bb\u202e\u{e0001}é\u{1f600}')).toBe('"a\\u200bb\\u202e\\udb40\\udc01é\u{1f600}"');
  expect(writeJson({ a: [1, {}], b: [] }, 2)).toBe('{\n  "a": [\n    1,\n    {}\n  ],\n  "b": []\n}');
});

it('numbers that people type are numbers of JSON', () => {
  expect([' 5 ', '1e3', '0x10', '', '1,5', '+1', '.5', 'Infinity'].map(typedNumber)).toEqual([
    5,
    new ExactNumber('1e3'),
    undefined,
    undefined,
    undefined,
    undefined,
    undefined,
    undefined,
  ]);
});

it('the order of members does not count', () => {
  expect(sameJson({ a: 1, b: [null] }, { b: [null], a: 1 })).toBe(true);
  expect(sameJson({ a: undefined as unknown as null }, {})).toBe(false);
  expect(sameJson(new ExactNumber('1.0'), 1)).toBe(false);
  expect(sameJson({ length: 1 }, [1])).toBe(false);
});
