/** The toolkit that the tests call. */

import { audio, badArguments, embedded, image, link, reply, ToolError, text, tool, toolkit } from '@toolhall/sdk';
import { z } from 'zod';

const nothing = { type: 'object' } as const;

/** What a test can wait for. */
export class Gate {
  open: () => void = () => {};
  readonly opened = new Promise<void>((resolve) => {
    this.open = resolve;
  });
}

export const seen = { started: new Gate(), aborted: new Gate(), ended: '' };

export const add = tool({
  name: 'add',
  description: 'Add two numbers.',
  input: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } }, required: ['a', 'b'] },
  output: { type: 'number' },
  effect: 'reads',
  run: ({ a, b }) => a + b,
});

export const create = tool({
  name: 'create',
  input: z.object({ title: z.string(), guests: z.number().int().default(1) }),
  output: z.object({ title: z.string(), guests: z.number() }),
  effect: 'writes',
  level: 5,
  timeout: 3,
  tags: ['time'],
  run: async ({ title, guests }) => ({ title, guests }),
});

const wait = tool({
  name: 'wait',
  input: nothing,
  run: async (_, ctx) => {
    seen.started.open();
    await new Promise<void>((resolve) => ctx.signal.addEventListener('abort', () => resolve()));
    seen.ended = ctx.cancelled ? 'aborted' : 'not';
    seen.aborted.open();
  },
});

const tells = tool({
  name: 'tells',
  input: nothing,
  run: (_, ctx) => {
    ctx.progress(1, 3, 'one of three');
    ctx.log('notice', { rows: [1, null] });
    ctx.debug('d');
    ctx.info('i');
    ctx.warning('w');
    ctx.error('e');
    ctx.progress(3);
    return 'done';
  },
});

const asks = tool({
  name: 'asks',
  input: nothing,
  run: async (_, ctx) => {
    const given = await ctx.ask('Who are you?', z.object({ name: z.string() }));
    return given.action === 'accept' ? `Hello ${given.value.name}` : given.action;
  },
});

const asksAll = tool({
  name: 'asksAll',
  input: nothing,
  run: async (_, ctx) => {
    const agreed = await ctx.visit('Please sign', 'https://sign.example/1', 'sign-1');
    const said = await ctx.sample('Say hello', { maxTokens: 10 });
    const roots = await ctx.roots();
    await ctx.detach(250);
    return { agreed, said: said.content, roots: roots.map((each) => each.uri) };
  },
});

const asksTooMuch = tool({
  name: 'asksTooMuch',
  input: nothing,
  run: async (_, ctx) => {
    await Promise.all(Array.from({ length: 33 }, () => ctx.roots()));
  },
});

const asksForSecret = tool({
  name: 'asksForSecret',
  input: nothing,
  run: async (_, ctx) => {
    await ctx.ask('Your PIN?', { type: 'object', properties: { user_pin: { type: 'string' } } });
  },
});

const supplied = tool({
  name: 'supplied',
  input: nothing,
  requires: { secrets: ['API_KEY'], accounts: ['google:calendar.events contacts'], userId: true },
  run: (_, ctx) => {
    const { token, scopes } = ctx.account();
    return { secret: ctx.secret('API_KEY'), token, scopes: [...scopes], user: ctx.userId, caller: ctx.caller?.id };
  },
});

const takesMore = tool({
  name: 'takesMore',
  input: { type: 'object', properties: { what: { enum: ['secret', 'account'] } }, required: ['what'] },
  run: ({ what }, ctx) => (what === 'secret' ? ctx.secret('API_KEY') : ctx.account('google').token),
});

const fails = tool({
  name: 'fails',
  input: nothing,
  run: () => {
    throw new ToolError('no such day', {
      code: 'NO_DAY',
      prompt: 'use a date',
      retryAfter: 2,
      details: { day: 31, started: false },
    });
  },
});

const crashes = tool({
  name: 'crashes',
  input: nothing,
  run: () => {
    throw new Error('the password is hunter2');
  },
});

const leaks = tool({
  name: 'leaks',
  input: { type: 'object', properties: { how: { enum: ['error', 'crash', 'says'] }, said: {} }, required: ['how'] },
  requires: { secrets: ['API_KEY'] },
  run: ({ how, said }, ctx) => {
    if (how === 'says') throw new ToolError(String(said));
    const key = ctx.secret('API_KEY');
    const quoted = `GET /?key=${encodeURIComponent(key)} ${key}`;
    if (how === 'error') {
      const details = { [key]: [key, Number(key)], prompt: key, ...badArguments([{ path: '', reason: key }]).details };
      throw new ToolError(quoted, { code: `NO_${key}`, details });
    }
    const headers = { authorization: `Basic ${Buffer.from(`me:${key}`).toString('base64')}`, body: { key } };
    throw Object.assign(new Error(quoted, { cause: new Error(key) }), { headers, bytes: Buffer.from(key), [key]: 1 });
  },
});

const unsayable = tool({
  name: 'unsayable',
  input: nothing,
  run: () => {
    throw new ToolError('it is full', { details: { n: 1n as unknown as number } });
  },
});

const forbids = tool({
  name: 'forbids',
  input: nothing,
  run: () => {
    throw new ToolError('the calendar is read-only', { code: 'FORBIDDEN' });
  },
});

const refuses = tool({
  name: 'refuses',
  input: nothing,
  run: () => {
    throw badArguments([{ path: '/at', reason: 'write a day to come' }]);
  },
});

const returns = tool({
  name: 'returns',
  input: { type: 'object', properties: { what: { type: 'string' } }, required: ['what'] },
  run: ({ what }): unknown => {
    const bytes = new Uint8Array([0, 1, 2]);
    const kinds: Record<string, unknown> = {
      nothing: undefined,
      null: null,
      list: [1, 'a'],
      date: new Date(0),
      text: text('hello', { annotations: { audience: ['user'] }, meta: { color: 'red' } }),
      blocks: [
        image(bytes),
        audio(bytes),
        link('file:///a', 'a', { size: 3 }),
        embedded('file:///a', 'abc'),
        embedded('file:///b', bytes, 'x/y'),
      ],
      lookalike: { type: 'text', text: 'hello' },
      reply: reply({ content: [text('seven')], value: 7, meta: { trace: 't' } }),
      sorry: reply({ content: [text('sorry')], isError: true }),
      function: () => 1,
      bigint: { n: 1n },
      large: 'x'.repeat(5 * 1024 * 1024),
    };
    return kinds[what];
  },
});

const silent = tool({ name: 'silent', input: nothing, output: null, run: () => {} });

export const kit = toolkit({
  name: 'Kit',
  version: '1.2.0',
  description: 'What the tests call.',
  level: 3,
  tools: [
    add,
    create,
    wait,
    tells,
    asks,
    asksAll,
    asksTooMuch,
    asksForSecret,
    supplied,
    takesMore,
    fails,
    crashes,
    leaks,
    unsayable,
    forbids,
    refuses,
    returns,
    silent,
  ],
});
