/** The tools that every runner runs, in TypeScript; `kit.py` holds the same ones in Python. */

import { createHash } from 'node:crypto';
import { appendFileSync } from 'node:fs';
import { setTimeout as later } from 'node:timers/promises';
import {
  audio,
  type Context,
  embedded,
  image,
  join,
  link,
  Message,
  prompt,
  reply,
  resource,
  ToolError,
  text,
  tool,
  toolkit,
} from '@toolhall/sdk';

type Person = { name: string; age?: number; friends?: Person[] };

const NOTHING = { type: 'object', additionalProperties: false } as const;
const STRING = { type: 'string' } as const;
const ANYTHING = { ...NOTHING, properties: { value: {} }, required: ['value'] } as const;
const FILE = { ...NOTHING, properties: { file: STRING }, required: ['file'] } as const;
const FORM = { type: 'object', properties: { name: STRING }, required: ['name'] } as const;
const PERSON = {
  type: 'object',
  properties: { name: STRING, age: { type: 'integer' }, friends: { type: 'array', items: { $ref: '#/$defs/Person' } } },
  required: ['name'],
} as const;
const PEOPLE = { $defs: { Person: PERSON } } as const;
const SOMEBODY = { $ref: '#/$defs/Person' } as const;

const write = (file: string, line: string): void => appendFileSync(file, `${line}\n`);
const digest = (secret: string): string => createHash('sha256').update(secret).digest('hex');

/** Write down who runs, wait, and write down what came. */
async function untilStopped(ctx: Context, file: string): Promise<void> {
  write(file, `began ${process.pid}`);
  ctx.progress(1);
  await new Promise((resolve) => ctx.signal.addEventListener('abort', resolve));
  write(file, 'stopped');
  ctx.signal.throwIfAborted();
}

/** Whether this cannot be had. */
function refused(take: () => unknown): boolean {
  try {
    take();
    return false;
  } catch {
    return true;
  }
}

const values = [
  tool({ name: 'echo', input: ANYTHING, output: {}, run: ({ value }) => value }),
  tool({ name: 'free', input: ANYTHING, run: ({ value }) => value }),
  tool({ name: 'nothing', input: NOTHING, output: null, run: () => {} }),
  tool({
    name: 'greet',
    input: {
      ...NOTHING,
      properties: {
        name: STRING,
        greeting: { type: 'string', default: 'Hello' },
        times: { type: 'integer', minimum: 1, default: 2 },
      },
      required: ['name'],
    },
    output: STRING,
    run: ({ name, greeting = 'Hello', times = 2 }) => Array(times).fill(`${greeting}, ${name}!`).join(' '),
  }),
  tool({
    name: 'befriend',
    input: { ...NOTHING, ...PEOPLE, properties: { person: SOMEBODY, friend: STRING }, required: ['person', 'friend'] },
    output: { ...PEOPLE, ...SOMEBODY },
    run({ person, friend }) {
      const { name, age, friends = [] } = person as Person;
      return { name, ...(age && { age }), friends: [...friends, { name: friend }] };
    },
  }),
  tool({ name: 'misprint', input: NOTHING, output: { type: 'integer' }, run: () => 'no number' as unknown as number }),
  tool({
    name: 'scribble',
    input: NOTHING,
    output: {},
    run() {
      const circle: { self?: unknown } = {};
      circle.self = circle;
      return circle;
    },
  }),
  tool({
    name: 'large',
    input: { ...NOTHING, properties: { size: { type: 'integer' } }, required: ['size'] },
    output: STRING,
    run: ({ size }) => 'x'.repeat(size),
  }),
];

const blocks = [
  tool({
    name: 'blocks',
    input: NOTHING,
    run: () => [
      text('Grüße 🎈', {
        annotations: { audience: ['user'], priority: 0.5, lastModified: '2026-01-02T03:04:05Z' },
        meta: { 'example.com/kind': 'greeting' },
      }),
      image(
        Uint8Array.from({ length: 256 }, (_, index) => index),
        'image/png',
      ),
      audio(Buffer.from('RIFF\0\0'), 'audio/wav'),
      embedded('memo://1', 'a memo', 'text/plain'),
      embedded('memo://2', Uint8Array.of(0, 255), 'application/octet-stream'),
      link('https://example.com/3', 'three', { title: 'Three', description: 'The third', size: 3 }),
    ],
  }),
  tool({
    name: 'reply',
    input: { ...NOTHING, properties: { is_error: { type: 'boolean', default: false } } },
    output: { type: 'object', additionalProperties: { type: 'integer' } },
    run: ({ is_error = false }) =>
      reply({
        content: [text('two of them')],
        value: { count: 2 },
        meta: { 'example.com/shelf': [1, { row: 'b' }] },
        isError: is_error,
      }),
  }),
];

const running = [
  tool({
    name: 'enter',
    input: {
      ...NOTHING,
      properties: { file: STRING, count: { type: 'integer', minimum: 1 }, word: { type: 'string', default: 'in' } },
      required: ['file', 'count'],
    },
    output: null,
    run: ({ file, count, word = 'in' }) => write(file, `${word} ${count}`),
  }),
  tool({
    name: 'steps',
    input: NOTHING,
    output: STRING,
    run(_, ctx) {
      ctx.progress(1, 3, 'one');
      ctx.info({ step: 1, of: ['a', null] });
      ctx.progress(2, 3);
      ctx.warning('almost');
      ctx.progress(3);
      return 'done';
    },
  }),
  tool({
    name: 'ask',
    input: NOTHING,
    output: { type: 'object', additionalProperties: STRING },
    async run(_, ctx) {
      const { action, value } = await ctx.ask('Your name?', FORM);
      return { action, ...(value && { name: value.name }) };
    },
  }),
  tool({
    name: 'ask_twice',
    input: NOTHING,
    output: { type: 'array', items: STRING },
    async run(_, ctx) {
      const names: string[] = [];
      for (const number of [1, 2]) {
        const { value } = await ctx.ask(`Name ${number}?`, FORM);
        ctx.info(`got ${number}`);
        names.push(value?.name ?? '');
      }
      return names;
    },
  }),
  tool({
    name: 'ask_patiently',
    input: NOTHING,
    output: STRING,
    timeout: 1.5,
    run: async (_, ctx) => (await ctx.ask('Your name?', FORM)).value?.name ?? '',
  }),
  tool({
    name: 'visit',
    input: NOTHING,
    output: { type: 'boolean' },
    run: (_, ctx) => ctx.visit('Please look', 'https://example.com/look', 'look'),
  }),
  tool({ name: 'linger', input: FILE, output: null, timeout: 30, run: ({ file }, ctx) => untilStopped(ctx, file) }),
  tool({ name: 'dawdle', input: FILE, output: null, timeout: 1, run: ({ file }, ctx) => untilStopped(ctx, file) }),
  tool({
    name: 'meet',
    input: { ...NOTHING, properties: { number: { type: 'integer' } }, required: ['number'] },
    output: { type: 'integer' },
    run: ({ number }) => later(50, number),
  }),
];

const failing = [
  tool({
    name: 'fail',
    input: { ...NOTHING, properties: { how: STRING }, required: ['how'] },
    output: null,
    run({ how }) {
      if (how === 'for good') throw new ToolError('the shelf is empty');
      if (how === 'for a while') {
        throw new ToolError('the shelf is being filled', { retryAfter: 2.5, prompt: 'Ask for the other shelf.' });
      }
      throw new ToolError('the shelf is out of sight', { canRetry: true });
    },
  }),
  tool({
    name: 'refuse',
    input: { ...NOTHING, properties: { name: STRING }, required: ['name'] },
    output: null,
    run() {
      const problems = [
        { path: '/name', reason: 'is taken; choose another' },
        { path: '', reason: 'is all wrong' },
      ];
      throw new ToolError('no', { code: 'INVALID_PARAMS', details: { problems } });
    },
  }),
  tool({
    name: 'crash',
    input: { ...NOTHING, properties: { text: STRING }, required: ['text'] },
    output: null,
    run({ text }) {
      throw new RangeError(text);
    },
  }),
];

const supplied = [
  tool({
    name: 'who',
    input: NOTHING,
    output: { type: 'object' },
    run(_, { caller }) {
      if (caller === null) throw new ToolError('nobody calls');
      const { id, person, proof, acting_for, scopes } = caller;
      return { id, person, proof, acting_for, scopes: [...scopes].sort() };
    },
  }),
  tool({
    name: 'equipped',
    input: NOTHING,
    output: { type: 'object' },
    requires: { secrets: ['KIT_KEY'], accounts: ['acme:mail.read mail.send'], userId: true },
    run(_, ctx) {
      const { token, scopes } = ctx.account();
      return {
        secret: digest(ctx.secret('KIT_KEY')),
        token: digest(token),
        scopes: [...scopes],
        user: ctx.userId,
        other: refused(() => ctx.secret('KIT_PIN')),
      };
    },
  }),
  tool({
    name: 'half_equipped',
    input: NOTHING,
    output: { type: 'object' },
    requires: { secrets: ['KIT_PIN'] },
    run: (_, ctx) => ({
      other: refused(() => ctx.secret('KIT_KEY')),
      account: refused(() => ctx.account('acme')),
      own: !refused(() => ctx.secret('KIT_PIN')),
    }),
  }),
  tool({
    name: 'bare',
    input: NOTHING,
    output: { type: 'object' },
    run: (_, ctx) => ({
      other: refused(() => ctx.secret('KIT_KEY')),
      account: refused(() => ctx.account('acme')),
    }),
  }),
  tool({
    name: 'leak',
    input: { ...NOTHING, properties: { how: STRING }, required: ['how'] },
    requires: { secrets: ['KIT_WORD'] },
    run({ how }, ctx) {
      const secret = ctx.secret('KIT_WORD');
      if (how === 'fail') throw new ToolError(`the word ${secret} is wrong`, { prompt: `not ${secret}` });
      if (how === 'crash') throw new RangeError(secret);
      ctx.progress(1, 1, `using ${secret}`);
      ctx.info({ word: [secret] });
      const content = [text(`it is ${secret}`), image(Buffer.from(secret))];
      return reply({ content, value: [secret], meta: { 'example.com/word': secret } });
    },
  }),
];

const rules = resource(
  'library://rules',
  { name: 'rules', description: 'The rules of the house.', mimeType: 'text/markdown', fresh: 60, shared: true },
  () => '# Be quiet\n',
);
const seal = resource(
  'library://seal',
  { name: 'seal', description: 'The seal, in a few bytes that are no text.', mimeType: 'image/png' },
  () => Uint8Array.of(0, 255, 0x89),
);
const NUMBER = { ...NOTHING, properties: { number: { type: 'integer' } }, required: ['number'] } as const;
const book = resource(
  'library://books/{number}{?lang}',
  {
    name: 'book',
    input: { ...NUMBER, properties: { ...NUMBER.properties, lang: { type: 'string', default: 'en' } } },
    mimeType: 'application/json',
    complete: {
      number: (typed) => Array.from({ length: 300 }, (_, number) => `${number}`).filter((each) => each.includes(typed)),
    },
  },
  ({ number, lang = 'en' }) => (number < 100 ? { number, lang } : null),
);
const shelf = resource('library://shelves/{shelf}', { name: 'shelf', mimeType: 'text/plain' }, ({ shelf }) => [
  embedded(`library://${shelf}/1`, 'one', 'text/plain'),
  embedded(`library://${shelf}/2`, Uint8Array.of(0xfe), undefined, { meta: { 'example.com/page': 2 } }),
]);
const desk = resource(
  'library://desk/{of}',
  {
    name: 'desk',
    input: { ...NOTHING, properties: { of: { enum: ['Ada', 'Eve'] } }, required: ['of'] },
    mimeType: 'text/plain',
  },
  async ({ of }, ctx) => {
    const { value } = await ctx.ask(`Who reads ${of}'s desk?`, FORM);
    return value === undefined ? 'nobody' : `${of}: ${value.name}`;
  },
);
const broken = resource(
  'library://broken',
  { name: 'broken', description: 'Raise what nobody may read.', mimeType: 'text/plain' },
  () => {
    throw new RangeError('w0rd-of-the-library');
  },
);
const reviewed = (typed: string, { tone = 'any' }: Readonly<Record<string, string>>): string[] =>
  [`${tone} 1`, `${tone} 2`, 'other'].filter((each) => each.startsWith(typed.toLowerCase()));
const review = prompt(
  'review',
  {
    input: { ...NUMBER, properties: { ...NUMBER.properties, tone: { enum: ['kind', 'harsh'], default: 'kind' } } },
    complete: { number: reviewed },
  },
  ({ number, tone = 'kind' }, ctx) => {
    ctx.progress(1);
    const said = embedded(`library://books/${number}`, '{}', 'application/json');
    return [Message.user(said), Message.assistant(`A ${tone} review of ${number + 1}?`), 'Yes.'];
  },
);
const greeting = prompt('greeting', {}, () => 'Hello.');
const lend = tool({
  name: 'lend',
  input: { ...NOTHING, properties: { uri: STRING }, required: ['uri'] },
  output: null,
  run: ({ uri }, ctx) => ctx.changed(uri),
});

const [hall, ...options] = process.argv.slice(2);
if (hall === undefined) throw new Error('name the hall to join: node kit.js URL [--socket]');

const which = (answer: string) => tool({ name: 'which', input: NOTHING, output: STRING, run: () => answer });
const toolkits = [
  toolkit({ name: 'Kit', version: '1.2.0', tools: [...values, ...blocks, ...running, ...failing, ...supplied] }),
  toolkit({
    name: 'Library',
    version: '1.0.0',
    resources: [rules, seal, book, shelf, desk, broken],
    prompts: [review, greeting],
    tools: [lend],
  }),
  toolkit({ name: 'Pair', version: '1.0.0', tools: [which('first')] }),
  toolkit({ name: 'Pair', version: '2.0.0', tools: [which('second')] }),
];
const joined = await join(toolkits, { hall, socket: options.includes('--socket') });
console.log(JSON.stringify({ url: joined.url ?? hall, pid: process.pid }));
