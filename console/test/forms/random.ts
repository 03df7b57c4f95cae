/** Random JSON and random schemas from a seed, for properties: the same seed is the same sequence everywhere. */

import type { Exact, ExactObject } from '../../src/json/exact';
import { ExactNumber } from '../../src/json/exact';

export class Random {
  constructor(private state: number) {}

  /** A fraction from 0 up to 1 (mulberry32). */
  next(): number {
    this.state = (this.state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.state ^ (this.state >>> 15), 1 | this.state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  }

  below(count: number): number {
    return Math.floor(this.next() * count);
  }

  pick<T>(from: readonly T[]): T {
    const picked = from[this.below(from.length)];
    if (picked === undefined) throw new Error('nothing to pick from');
    return picked;
  }
}

const TEXTS = [
  '',
  'a',
  'null',
  '0',
  "it's",
  '"',
  '\\',
  '\u0000',
  'line\nline',
  '\u202e',
  '\u{1f469}\u200d\u{1f467}',
  '\ud800',
  '</script>',
  '{',
  '~/~1',
  '\u{e0001}',
];
const NAMES = ['a', 'b', 'c', '', '__proto__', 'constructor', 'toString', 'a/b', '~', '0', 'length'];
const NUMBERS: Exact[] = [
  0,
  1,
  -1,
  0.5,
  1e-7,
  1e21,
  new ExactNumber('12345678901234567890'),
  new ExactNumber('1e400'),
  new ExactNumber('1.0'),
  new ExactNumber('-0'),
];

export function randomJson(random: Random, depth = 3): Exact {
  switch (random.below(depth > 0 ? 8 : 5)) {
    case 0:
      return null;
    case 1:
      return random.next() < 0.5;
    case 2:
      return random.pick(NUMBERS);
    case 3:
    case 4:
      return random.pick(TEXTS);
    case 5:
    case 6:
      return Array.from({ length: random.below(4) }, () => randomJson(random, depth - 1));
    default:
      return Object.fromEntries(
        Array.from({ length: random.below(4) }, () => [random.pick(NAMES), randomJson(random, depth - 1)]),
      );
  }
}

const TYPES = ['object', 'array', 'string', 'integer', 'number', 'boolean', 'null', 'strange'];

/** A schema that may refer to itself, contradict itself, or make no sense at all. */
export function randomSchema(random: Random, depth = 3): Exact {
  if (random.next() < 0.05) return random.next() < 0.7;
  const schema: ExactObject = {};
  const sub = () => (depth > 0 ? randomSchema(random, depth - 1) : true);
  const many = (most: number) => Array.from({ length: random.below(most + 1) }, sub);
  const some = (share: number) => random.next() < share;
  if (some(0.7)) schema.type = some(0.2) ? [random.pick(TYPES), random.pick(TYPES)] : random.pick(TYPES);
  if (some(0.15)) schema.enum = Array.from({ length: 1 + random.below(4) }, () => randomJson(random, 1));
  if (some(0.1)) schema.const = randomJson(random, 1);
  if (some(0.1))
    schema.$ref = random.pick([
      '#',
      '#/$defs/a',
      '#/properties/a',
      '#/$defs/missing',
      'https://example.org/s',
      '#%',
      '#name',
    ]);
  if (some(0.15)) schema.oneOf = many(3);
  if (some(0.15)) schema.anyOf = many(3);
  if (some(0.15)) schema.allOf = many(2);
  if (some(0.1)) schema.prefixItems = many(3);
  if (some(0.3)) schema.items = sub();
  if (some(0.4)) schema.properties = Object.fromEntries(many(4).map((each) => [random.pick(NAMES), each]));
  if (some(0.2)) schema.required = [random.pick(NAMES), random.pick(NAMES)];
  if (some(0.2)) schema.additionalProperties = sub();
  if (some(0.1)) schema.patternProperties = { '(a+)+$': sub() };
  if (some(0.1)) schema.$defs = { a: sub() };
  if (some(0.1)) schema.$anchor = 'name';
  if (some(0.1)) schema.default = randomJson(random, 1);
  if (some(0.1)) schema.minimum = 3;
  if (some(0.1)) schema.format = random.pick(['date-time', 'email', 'strange']);
  return schema;
}
