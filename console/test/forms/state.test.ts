/** Schema to form, form to JSON and back: nothing is lost, and every part is drawn or listed. */

import { describe, expect, it } from 'vitest';
import { drawnFields, jsonParts, placeProblems } from '../../src/forms/places';
import { type Shape, Shapes } from '../../src/forms/schema';
import {
  chosen,
  formValue,
  initialState,
  listItem,
  memberOf,
  type State,
  stateOf,
  type Unfinished,
  withMember,
} from '../../src/forms/state';
import { type Exact, readJson, sameJson, writeJson } from '../../src/json/exact';
import { Random, randomJson, randomSchema } from './random';

const top = (schema: Exact): Shape => new Shapes(schema).top;
const kinds = (schema: Exact) => top(schema).members.map(({ name, shape }) => [name, shape.kind]);
const object = (properties: Exact, more: Record<string, Exact> = {}): Exact => ({
  type: 'object',
  properties,
  ...more,
});

describe('shapes', () => {
  it('follow references, also to themselves', () => {
    const tree = {
      $ref: '#/$defs/node',
      $defs: {
        node: object({ name: { type: 'string' }, children: { type: 'array', items: { $ref: '#/$defs/node' } } }),
      },
    };
    const children = top(tree).members[1]?.shape.item(0)?.members[1]?.shape.item(0);
    expect(children?.members.map(({ name }) => name)).toEqual(['name', 'children']);
    expect(top({ $ref: '#' }).reason).toBe('too_deep');
    expect(top({ $ref: 'https://example.org/schema.json' }).reason).toBe('reference');
    expect(top({ $ref: '#there', $defs: { a: { $anchor: 'there', type: 'integer' } } }).kind).toBe('integer');
    expect(
      top({ $ref: 'urn:x#/$defs/b', $defs: { a: { $id: 'urn:x', $defs: { b: { type: 'boolean' } } } } }).kind,
    ).toBe('boolean');
  });

  it('keep the words of the place where a definition is used', () => {
    const shape = top(
      object(
        { city: { $ref: '#/$defs/city', description: 'Where to' } },
        { $defs: { city: { type: 'string', description: 'A city', minLength: 2 } } },
      ),
    );
    expect(shape.members[0]?.shape.keywords).toEqual({ type: 'string', description: 'Where to', minLength: 2 });
  });

  it('merge allOf', () => {
    const parts = [
      object({ a: { type: 'number', minimum: 1 } }, { required: ['a'] }),
      object({ a: { type: 'integer', maximum: 9, minimum: 3 }, b: { type: 'string' } }),
    ];
    const [a, b] = top({ allOf: parts }).members;
    expect([a?.required, b?.required]).toEqual([true, false]);
    expect(a?.shape.keywords).toEqual({ type: 'integer', minimum: 3, maximum: 9 });
    expect(top({ allOf: [{ type: 'string' }, { type: 'integer' }] }).reason).toBe('contradiction');
    expect(top({ allOf: [{ enum: [1, 2, 3] }, { enum: [2, 3, 4] }] }).options.map(({ value }) => value)).toEqual([
      2, 3,
    ]);
  });

  it('tell null from a choice', () => {
    expect(
      [top({ type: ['string', 'null'] }), top({ anyOf: [{ type: 'string' }, { type: 'null' }] })].map(
        ({ kind, nullable }) => [kind, nullable],
      ),
    ).toEqual([
      ['string', true],
      ['string', true],
    ]);
    expect(top({ enum: ['a', null] })).toMatchObject({ kind: 'enum', nullable: true });
    expect(top({ type: ['string', 'integer', 'null'] })).toMatchObject({ kind: 'choice', nullable: true });
    expect(top({ type: ['integer', 'number'] }).kind).toBe('number');
  });

  it('name alternatives', () => {
    const reminder = {
      oneOf: [object({ kind: { const: 'popup' } }), { title: 'By letter', type: 'object' }, { $ref: '#/$defs/sms' }],
      $defs: { sms: { type: 'object' } },
    };
    expect(top(reminder).alternatives.map(({ label }) => label)).toEqual(['kind: popup', 'By letter', 'sms']);
    expect(top({ oneOf: [{ const: 'a', title: 'First' }, { const: 'b' }] }).options).toEqual([
      { value: 'a', label: 'First' },
      { value: 'b', label: null },
    ]);
  });

  it('give each alternative what holds beside it', () => {
    const shape = top(
      object({ a: { type: 'string' }, b: { type: 'string' } }, { oneOf: [{ required: ['a'] }, { required: ['b'] }] }),
    );
    expect(shape.alternatives.map((each) => each.shape.members.map(({ required }) => required))).toEqual([
      [true, false],
      [false, true],
    ]);
  });

  it('draw tuples, maps and what has no type', () => {
    const tuple = top({ type: 'array', prefixItems: [{ type: 'string' }, { type: 'integer' }], items: false });
    expect([tuple.item(0)?.kind, tuple.item(1)?.kind, tuple.item(2)]).toEqual(['string', 'integer', null]);
    const map = top({ type: 'object', additionalProperties: { type: 'integer' } });
    expect([map.offersMore, map.rest()?.kind]).toEqual([true, 'integer']);
    expect(kinds({ properties: { a: { minLength: 1 }, b: { items: {} }, c: {}, d: { const: 1 } } })).toEqual([
      ['a', 'string'],
      ['b', 'array'],
      ['c', 'any'],
      ['d', 'enum'],
    ]);
  });
});

describe('state', () => {
  const shape = top(
    object({
      text: { type: ['string', 'null'] },
      list: { type: 'array', items: { type: 'integer' } },
      map: { type: 'object' },
    }),
  );

  it('tells absent, null and empty apart', () => {
    for (const value of [
      {},
      { text: null },
      { text: '' },
      { list: [] },
      { map: {} },
      { text: '', list: [], map: {} },
    ]) {
      expect(formValue(stateOf(shape, value))).toEqual(value);
    }
    expect(formValue(withMember(stateOf(shape, { text: null }), 'text', { is: 'absent' }))).toEqual({});
  });

  it('begins with what is required', () => {
    const order = object(
      {
        kind: { const: 'order' },
        size: { type: 'string', default: 'm' },
        to: object({ city: { type: 'string' } }, { required: ['city'] }),
        note: { type: 'string' },
        tags: { type: 'array' },
      },
      { required: ['kind', 'size', 'to', 'tags'] },
    );
    expect(formValue(initialState(top(order), true))).toEqual({ kind: 'order', size: 'm', to: {}, tags: [] });
    const endless = object({ again: { $ref: '#' } }, { required: ['again'] });
    expect(writeJson(formValue(initialState(top(endless), true)) ?? null).length).toBeLessThan(200);
  });

  it('says what is not finished, and where', () => {
    const unfinished: Unfinished[] = [];
    const list: State = {
      is: 'list',
      items: [listItem({ is: 'typed', text: '1e' }), listItem({ is: 'json', text: '{"a":\n 1,}' })],
    };
    formValue(withMember(initialState(shape, true), 'list', list), unfinished);
    expect(unfinished).toEqual([
      { path: '/list/0', reason: 'number', line: 1, column: 1 },
      { path: '/list/1', reason: 'key', line: 2, column: 4 },
    ]);
  });

  it('chooses the alternative that fits a value', () => {
    const choice = top({
      oneOf: [
        object({ kind: { const: 'a' } }, { required: ['kind'] }),
        object({ kind: { const: 'b' }, n: { type: 'integer' } }, { required: ['kind'] }),
      ],
    });
    expect(stateOf(choice, { kind: 'b', n: 1 })).toMatchObject({ is: 'choice', option: 1 });
    expect(stateOf(choice, 'neither')).toMatchObject({ is: 'json' });
    expect(formValue(chosen(choice, 1))).toEqual({ kind: 'b' });
  });

  it('keeps a member that the prototype has, too', () => {
    const value = readJson('{"__proto__": {"a": 1}, "constructor": "x"}').value;
    const state = stateOf(top({ type: 'object' }), value);
    expect(writeJson(formValue(state) ?? null)).toBe('{"__proto__":{"a":1},"constructor":"x"}');
    expect(memberOf(stateOf(top({ type: 'object' }), {}), 'constructor')).toEqual({ is: 'absent' });
  });
});

describe('properties', () => {
  it('any value in any form comes out as it went in', () => {
    for (let seed = 0; seed < 3000; seed++) {
      const random = new Random(seed);
      const shape = top(randomSchema(random));
      const value = randomJson(random);
      const state = stateOf(shape, value);
      const said = formValue(state);
      expect(
        sameJson(said, value),
        `seed ${seed}: ${writeJson(value)} became ${said === undefined ? said : writeJson(said)}`,
      ).toBe(true);
      expect(sameJson(readJson(writeJson(value, 2)).value, value)).toBe(true);
    }
  });

  it('any schema has a first state that can be read again, and draws or lists every part', () => {
    for (let seed = 0; seed < 3000; seed++) {
      const shape = top(randomSchema(new Random(seed)));
      const first = formValue(initialState(shape, true));
      if (first !== undefined) expect(sameJson(formValue(stateOf(shape, first)), first), `seed ${seed}`).toBe(true);
      for (const part of jsonParts(shape, 3))
        expect(part.reason).toMatch(/anything|reference|contradiction|unknown_type|too_deep/);
    }
  });

  it('every problem of the hall has a field', () => {
    for (let seed = 0; seed < 1000; seed++) {
      const random = new Random(seed);
      const shape = top(randomSchema(random));
      const fields = drawnFields(shape, stateOf(shape, randomJson(random)));
      const problems = ['', '/a', '/a~1b/0', '/x/y/z', '/__proto__'].map((path) => ({ path }));
      const placed = placeProblems(problems, fields);
      expect([...placed.values()].flat()).toHaveLength(problems.length);
      for (const path of placed.keys()) expect(fields.has(path)).toBe(true);
    }
  });
});

describe('problems', () => {
  it('stand at their field, or at the nearest around it', () => {
    const shape = top(
      object({ to: object({ city: { type: 'string' } }), list: { type: 'array', items: { type: 'integer' } } }),
    );
    const fields = drawnFields(shape, stateOf(shape, { list: [1], to: {} }));
    const placed = placeProblems(
      [{ path: '/to/city' }, { path: '/list/0' }, { path: '/list/7/x' }, { path: '/other' }],
      fields,
    );
    expect([...placed.keys()]).toEqual(['/to/city', '/list/0', '/list', '']);
  });
});
