/**
 * JSON that loses nothing: a number that JavaScript would change keeps its text, and every value knows its place.
 *
 * `JSON.parse` rounds 12345678901234567890 and turns 1e400 into Infinity; what a person typed must be what is sent.
 */

import type { Json } from '../api/types';

/** A number that JavaScript cannot hold as it was written. */
export class ExactNumber {
  constructor(readonly text: string) {}

  /** For `JSON.stringify`, which cannot do better. */
  toJSON(): number {
    return Number(this.text);
  }
}

export type Exact = null | boolean | number | string | ExactNumber | Exact[] | ExactObject;
export type ExactObject = { [key: string]: Exact };

/** What is wrong with a text that is not JSON, and where; lines and columns begin with 1. */
export class JsonError extends Error {
  readonly line: number;
  readonly column: number;

  constructor(
    readonly reason:
      | 'value'
      | 'end'
      | 'string'
      | 'escape'
      | 'number'
      | 'comma'
      | 'colon'
      | 'key'
      | 'duplicate'
      | 'deep'
      | 'more',
    text: string,
    readonly offset: number,
  ) {
    super(reason);
    const before = text.slice(0, offset).split('\n');
    this.line = before.length;
    this.column = (before.at(-1) ?? '').length + 1;
  }
}

const MAX_DEPTH = 200;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const WORDS: [string, null | boolean][] = [
  ['null', null],
  ['true', true],
  ['false', false],
];
const SPACE = /[ \t\n\r]*/y;
// biome-ignore lint/suspicious/noControlCharactersInRegex: JSON has no control characters in strings
const PLAIN = /[^"\\\u0000-\u001f]*/y;
const HIDDEN = /[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Cs}\p{Zl}\p{Zp}\u115f\u1160\u3164\uffa0]/gu;

/** Where a value stands in the text: from its first character to the one behind its last. */
export type Place = [start: number, end: number];

/** Read one JSON value; raises JsonError. `places` has every value by its JSON pointer. */
export function readJson(text: string): { value: Exact; places: Map<string, Place> } {
  const reader = new Reader(text);
  const value = reader.value('', 0);
  reader.space();
  if (reader.at < text.length) throw new JsonError('more', text, reader.at);
  return { value, places: reader.places };
}

/** Read one JSON value; undefined if it is none. */
export function tryJson(text: string): Exact | undefined {
  try {
    return readJson(text).value;
  } catch (error) {
    if (error instanceof JsonError) return undefined;
    throw error;
  }
}

class Reader {
  at = 0;
  readonly places = new Map<string, Place>();

  constructor(readonly text: string) {}

  space(): void {
    this.match(SPACE);
  }

  value(pointer: string, depth: number): Exact {
    this.space();
    if (depth > MAX_DEPTH) this.fail('deep');
    const start = this.at;
    const value = this.bare(pointer, depth);
    this.places.set(pointer, [start, this.at]);
    return value;
  }

  private bare(pointer: string, depth: number): Exact {
    const first = this.text[this.at];
    if (first === undefined) this.fail('end');
    if (first === '{') return this.object(pointer, depth);
    if (first === '[') return this.array(pointer, depth);
    if (first === '"') return this.string();
    if (first === '-' || (first >= '0' && first <= '9')) return this.number();
    for (const [word, value] of WORDS) {
      if (this.text.startsWith(word, this.at)) {
        this.at += word.length;
        return value;
      }
    }
    this.fail('value');
  }

  private object(pointer: string, depth: number): Exact {
    const members = new Map<string, Exact>();
    this.at += 1;
    this.space();
    if (this.take('}')) return {};
    do {
      this.space();
      const start = this.at;
      if (this.text[this.at] !== '"') this.fail(this.at < this.text.length ? 'key' : 'end');
      const key = this.string();
      if (members.has(key)) throw new JsonError('duplicate', this.text, start);
      this.space();
      if (!this.take(':')) this.fail('colon');
      members.set(key, this.value(`${pointer}/${escapePointer(key)}`, depth + 1));
      this.space();
    } while (this.take(','));
    if (!this.take('}')) this.fail(this.at < this.text.length ? 'comma' : 'end');
    return Object.fromEntries(members);
  }

  private array(pointer: string, depth: number): Exact {
    const items: Exact[] = [];
    this.at += 1;
    this.space();
    if (this.take(']')) return items;
    do {
      items.push(this.value(`${pointer}/${items.length}`, depth + 1));
      this.space();
    } while (this.take(','));
    if (!this.take(']')) this.fail(this.at < this.text.length ? 'comma' : 'end');
    return items;
  }

  private string(): string {
    const start = this.at;
    this.at += 1;
    for (;;) {
      this.match(PLAIN);
      const next = this.text[this.at];
      if (next === '\\') {
        const length = this.text[this.at + 1] === 'u' ? 6 : 2;
        const escaped = this.text.slice(this.at, this.at + length);
        if (!/^\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})$/.test(escaped)) this.fail('escape');
        this.at += length;
      } else if (next === '"') {
        this.at += 1;
        return JSON.parse(this.text.slice(start, this.at)) as string;
      } else {
        this.fail(next === undefined ? 'end' : 'string');
      }
    }
  }

  private number(): Exact {
    const text = this.match(NUMBER);
    if (!text || /[\w.+-]/.test(this.text[this.at] ?? ' ')) this.fail('number');
    return numberOf(text);
  }

  private match(pattern: RegExp): string {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text)?.[0] ?? '';
    this.at += found.length;
    return found;
  }

  private take(character: string): boolean {
    const found = this.text[this.at] === character;
    if (found) this.at += 1;
    return found;
  }

  private fail(reason: JsonError['reason']): never {
    throw new JsonError(reason, this.text, this.at);
  }
}

/** The number of a JSON literal: JavaScript's if it is written the same there. */
export function numberOf(text: string): number | ExactNumber {
  const number = Number(text);
  return JSON.stringify(number) === text ? number : new ExactNumber(text);
}

/** The number that a person typed; undefined if JSON has no such number. */
export function typedNumber(text: string): number | ExactNumber | undefined {
  const trimmed = text.trim();
  NUMBER.lastIndex = 0;
  return NUMBER.exec(trimmed)?.[0] === trimmed && trimmed !== '' ? numberOf(trimmed) : undefined;
}

/** Write a value; with an indentation over several lines. Characters that cannot be seen are escaped. */
export function writeJson(value: Exact, indent = 0, margin = ''): string {
  if (value instanceof ExactNumber) return value.text;
  if (typeof value === 'string') return quoteJson(value);
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  const isArray = Array.isArray(value);
  const inner = margin + ' '.repeat(indent);
  const parts = isArray
    ? value.map((each) => writeJson(each, indent, inner))
    : Object.entries(value).map(
        ([key, each]) => `${quoteJson(key)}:${indent ? ' ' : ''}${writeJson(each, indent, inner)}`,
      );
  const [open, close] = isArray ? ['[', ']'] : ['{', '}'];
  if (parts.length === 0) return open + close;
  return indent ? `${open}\n${inner}${parts.join(`,\n${inner}`)}\n${margin}${close}` : open + parts.join(',') + close;
}

/** A string as JSON, with everything that cannot be seen as an escape. */
export function quoteJson(text: string): string {
  return JSON.stringify(text).replace(HIDDEN, (hidden) =>
    Array.from(
      { length: hidden.length },
      (_, index) => `\\u${hidden.charCodeAt(index).toString(16).padStart(4, '0')}`,
    ).join(''),
  );
}

/** Whether two values are the same JSON; the order of members does not count, the text of a number does. */
export function sameJson(one: Exact | undefined, other: Exact | undefined): boolean {
  if (one === other) return true;
  if (one instanceof ExactNumber || other instanceof ExactNumber) {
    return one instanceof ExactNumber && other instanceof ExactNumber && one.text === other.text;
  }
  if (one === null || other === null || typeof one !== 'object' || typeof other !== 'object') {
    return Object.is(one, other);
  }
  if (Array.isArray(one) || Array.isArray(other)) {
    return (
      Array.isArray(one) &&
      Array.isArray(other) &&
      one.length === other.length &&
      one.every((each, index) => sameJson(each, other[index]))
    );
  }
  const keys = Object.keys(one);
  return (
    keys.length === Object.keys(other).length &&
    keys.every((key) => Object.hasOwn(other, key) && sameJson(one[key], other[key]))
  );
}

/** An ordinary value as an exact one: they differ in type only. */
export function exact(value: Json): Exact {
  return value;
}

export function isObject(value: unknown): value is ExactObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof ExactNumber);
}

/** One part of a JSON pointer (RFC 6901). */
export function escapePointer(part: string): string {
  return part.replaceAll('~', '~0').replaceAll('/', '~1');
}

export function unescapePointer(part: string): string {
  return part.replaceAll('~1', '/').replaceAll('~0', '~');
}
