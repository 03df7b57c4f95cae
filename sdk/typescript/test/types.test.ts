/** What authors write, and the types that they get; and schemas of every kind. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  BaseTool,
  type BothSchemas,
  Context,
  prompt,
  resource,
  type StandardSchema,
  serve,
  tool,
  toolkit,
  wire,
} from '@toolhall/sdk';
import { z } from 'zod';
import { call, post } from './talking.js';

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
const holds = <T extends true>(_?: T) => {};

/** A schema of a library that quotes values, and gives no JSON Schema. */
const quoting: StandardSchema<{ n: number }, { n: number }> = {
  '~standard': {
    version: 1,
    vendor: 'quoting',
    validate: async (value) => ({ issues: [{ message: `was ${JSON.stringify(value)}`, path: ['a/b', { key: 0 }] }] }),
  },
};

test('a JSON Schema gives its types', () => {
  tool({
    name: 'typed',
    input: {
      type: 'object',
      properties: {
        title: { type: 'string' },
        at: { enum: ['noon', 'night'] },
        guests: { type: 'array', items: { type: 'integer' } },
        place: { type: 'object', properties: { x: { type: 'number' } }, required: ['x'] },
        free: {},
      },
      required: ['title'],
    },
    run: (args) => {
      type Wanted = {
        title: string;
        at?: 'noon' | 'night';
        guests?: number[];
        place?: { x: number };
        free?: unknown;
      };
      holds<Same<typeof args, Wanted>>();
    },
  });
});

test('a zod schema gives its types', () => {
  const made = tool({
    name: 'typed',
    input: z.object({ n: z.number().default(1) }),
    output: z.object({ n: z.number() }),
    run: (args) => {
      holds<Same<typeof args, { n: number }>>();
      return args;
    },
  });
  type Types = NonNullable<typeof made.types>;
  holds<Same<Types['args'], { n?: number | undefined }>>();
  holds<Same<Types['result'], { n: number }>>();
  tool({
    name: 'wrong',
    input: z.object({}),
    output: z.number(),
    // @ts-expect-error: a text is no number
    run: () => 'text',
  });
});

test('a schema that gives no JSON Schema has one beside it, and its words are not passed on', async () => {
  const both = { schema: quoting, jsonSchema: { type: 'object' } } satisfies BothSchemas;
  const kit = toolkit({
    name: 'Kit',
    version: '1.0.0',
    tools: [tool({ name: 'both', input: both, run: ({ n }) => n })],
  });
  const server = await serve(kit);
  try {
    const { messages } = await post(server.url, call('both', { n: 'hunter2' }));
    const failed = wire.readEnding(messages[0] ?? {}) as wire.Failure;
    const reason = "does not fit; see the tool's input schema";
    assert.deepEqual(failed.details.problems, [{ path: '/a~1b/0', reason }]);
    assert.doesNotMatch(JSON.stringify(failed), /hunter2/);
  } finally {
    await server.close();
  }
});

test('mistakes name the fix', async () => {
  const bare = tool({ name: 'bare', input: quoting as never, run: () => {} });
  await assert.rejects(serve(toolkit({ name: 'Kit', version: '1.0.0', tools: [bare] })), /\{ schema, jsonSchema \}/);
  const fine = tool({ name: 'fine', input: { type: 'object' }, run: () => {} });
  await assert.rejects(serve(toolkit({ name: 'Kit', version: '1.0.0', level: 11, tools: [fine] })), /level must be/);
  await assert.rejects(serve(toolkit({ name: 'Kit', version: '1.0.0', tools: [fine, fine] })), /same name/);
  const list = tool({ name: 'list', input: { type: 'array' }, run: () => {} });
  await assert.rejects(serve(toolkit({ name: 'Kit', version: '1.0.0', tools: [list] })), /type object/);
});

test('a version is semantic, or nothing is made', () => {
  class Old extends BaseTool {
    async handleRequest() {
      return {};
    }
  }
  for (const version of ['1', '1.2', 'v1.2.0', '01.2.0', '1.2.0-', '1.2.0\n', '2026-01-01', '', 'one']) {
    const refused = { name: 'TypeError', message: /^Kit: ".*" is not a semantic version: write three numbers/ };
    assert.throws(() => toolkit({ name: 'Kit', version, tools: [] }), refused);
    assert.throws(() => new Old('Kit', version), refused);
  }
  for (const version of ['0.1.0', '1.2.0-rc.1', '1.2.0-0a.x+build.007']) {
    assert.equal(toolkit({ name: 'Kit', version, tools: [] }).version, version);
    new Old('Kit', version);
  }
});

test('an unconnected context does nothing', async () => {
  const ctx = new Context();
  ctx.progress(1);
  ctx.info('x');
  assert.deepEqual(await ctx.ask('?', { type: 'object' }), { action: 'cancel' });
  assert.equal(ctx.cancelled, false);
  assert.equal(ctx.userId, undefined);
  assert.throws(() => ctx.secret('A'), /declare the secret first/);
  assert.throws(() => ctx.account(), /say which account/);
  assert.throws(() => ctx.info(1n), TypeError);
});

test('the variables of a template have types', () => {
  resource('shop://{a}/{b,c}{/path*}{?d,e}', { name: 'x' }, (values) => {
    holds<Same<typeof values, { a: string; b: string; c: string; path: string[]; d?: string; e?: string }>>();
  });
  resource('shop://{+path}{#part}', { name: 'x', complete: { path: [] } }, (values) => {
    holds<Same<typeof values, { path: string; part: string }>>();
  });
  resource('shop://policy', { name: 'x' }, (values) => {
    holds<Same<keyof typeof values, never>>();
  });
  const input = { type: 'object', properties: { number: { type: 'integer' } }, required: ['number'] } as const;
  resource('shop://{number}', { name: 'x', input }, (values) => {
    holds<Same<typeof values, { number: number }>>();
  });
  // @ts-expect-error there is no such variable
  assert.throws(() => resource('shop://{a}', { name: 'x', complete: { b: [] } }, () => ''));
  prompt('p', { input, complete: { number: ['1'] } }, (args) => {
    holds<Same<typeof args, { number: number }>>();
    return 'said';
  });
});
