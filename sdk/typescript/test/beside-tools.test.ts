/** Resources, prompts and completions: declared, read, said and refused. */

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import {
  BaseTool,
  embedded,
  image,
  type JsonObject,
  Message,
  prompt,
  resource,
  type Serving,
  serve,
  type ToolResponse,
  text,
  tool,
  toolkit,
  wire,
} from '@toolhall/sdk';
import { shop } from './examples/shop.js';
import { call, post } from './talking.js';

const NOTHING = { type: 'object', properties: {} } as const;
const URI = { type: 'object', properties: { uri: { type: 'string' } }, required: ['uri'] } as const;

/** The class form: what is read and said may use what the tool holds. */
class Diary extends BaseTool {
  readonly #pages = ['dear diary'];
  override readonly resources = [
    resource(
      'diary://pages/{page}',
      { name: 'page', complete: { page: () => this.#pages.map((_, i) => `${i}`) } },
      (at) => this.#pages.at(Number(at.page)),
    ),
  ];
  override readonly prompts = [prompt('continue', {}, () => this.#pages.join('\n'))];

  constructor() {
    super('Diary', '1.0.0');
  }

  async handleRequest({ params }: { params: Record<string, unknown> }): Promise<ToolResponse> {
    return await this.handleWrite(params);
  }

  async handleWrite({ line }: Record<string, unknown>): Promise<ToolResponse> {
    return { result: { pages: this.#pages.push(String(line)) } };
  }
}

const kit = toolkit({
  name: 'Kit',
  version: '1.0.0',
  level: 3,
  tools: [
    tool({ name: 'touch', input: URI, run: ({ uri }, ctx) => ctx.changed(uri) }),
    tool({
      name: 'flood',
      input: NOTHING,
      run: (_, ctx) => {
        for (let number = 0; number < 1_500; number++) ctx.changed(`kit://${number}`);
      },
    }),
  ],
  resources: [
    resource('kit://bytes', { name: 'bytes' }, () => Uint8Array.of(0, 255)),
    resource('kit://none', { name: 'none' }, () => undefined),
    resource('kit://empty', { name: 'empty' }, () => []),
    resource('kit://list', { name: 'list' }, () => [1, 2]),
    resource('kit://several', { name: 'several', level: 5 }, () => [
      embedded('kit://a', 'a'),
      embedded('kit://b', 'b'),
    ]),
    resource('kit://wrong', { name: 'wrong' }, () => text('no resource')),
    resource('kit://files{/path*}', { name: 'file' }, ({ path }) => path.join('|')),
    resource('kit://secret', { name: 'secret', requires: { secrets: ['KEY'] } }, (_, ctx) => ctx.secret('KEY').length),
    resource('kit://typed/{of}', { name: 'typed', complete: { of: (typed) => [typed, 'any'] } }, ({ of }) => of),
    resource('kit://odd/{of}', { name: 'odd', complete: { of: (() => 'text') as never } }, ({ of }) => of),
    { name: 'told', description: 'only listed' },
  ],
  prompts: [
    prompt('one', {}, () => 'Hello.'),
    prompt('many', { description: 'Several.' }, () => [Message.assistant(image(Uint8Array.of(1))), 'Hm.', text('Ha.')]),
    prompt('silent', {}, () => []),
    prompt('strange', {}, () => ({ role: 'system' }) as never),
  ],
});

let server: Serving;
before(async () => {
  server = await serve([kit, shop, new Diary()]);
});
after(() => server.close());

async function asked(name: string, params: JsonObject, more: JsonObject): Promise<JsonObject> {
  const { messages } = await post(server.url, { ...call(name, params), ...more });
  assert.equal(messages.length, 1);
  return messages[0] ?? {};
}

const read = (name: string, uri: string, params: JsonObject = {}, tool = 'Kit'): Promise<JsonObject> =>
  asked(name, params, { tool, kind: 'resource', uri });
const got = (name: string, params: JsonObject = {}, tool = 'Kit'): Promise<JsonObject> =>
  asked(name, params, { tool, kind: 'prompt' });

async function completed(tool: string, name: string, complete: string, typed: string): Promise<unknown> {
  const end = wire.readEnding(await asked(name, { typed, given: {} }, { tool, complete }));
  return end.kind === 'end' ? end.value : end.code;
}

function contents(message: JsonObject): unknown[] {
  const end = wire.readEnding(message);
  assert.equal(end.kind, 'end');
  return end.kind === 'end'
    ? (end.content ?? []).map((block) => (block.type === 'resource' ? block.resource : block))
    : [];
}

const code = (message: JsonObject): string => {
  const end = wire.readEnding(message);
  return end.kind === 'failure' ? end.code : 'none';
};

test('text, bytes, values and several contents are read', async () => {
  assert.deepEqual(contents(await read('policy', 'shop://policy', {}, 'Shop')), [
    { uri: 'shop://policy', mimeType: 'text/markdown', text: '# Refunds' },
  ]);
  assert.deepEqual(contents(await read('order', 'shop://orders/17?lang=de', { number: '17', lang: 'de' }, 'Shop')), [
    { uri: 'shop://orders/17?lang=de', mimeType: 'application/json', text: '{"number":"17","lang":"de","total":20}' },
  ]);
  assert.deepEqual(contents(await read('bytes', 'kit://bytes')), [
    { uri: 'kit://bytes', mimeType: 'application/octet-stream', blob: 'AP8=' },
  ]);
  assert.deepEqual(contents(await read('list', 'kit://list')), [
    { uri: 'kit://list', mimeType: 'application/json', text: '[1,2]' },
  ]);
  assert.deepEqual(contents(await read('several', 'kit://several')), [
    { uri: 'kit://a', text: 'a' },
    { uri: 'kit://b', text: 'b' },
  ]);
  assert.deepEqual(contents(await read('file', 'kit://files/a/b', { path: ['a', 'b'] })), [
    { uri: 'kit://files/a/b', mimeType: 'text/plain', text: 'a|b' },
  ]);
  assert.deepEqual(contents(await read('page', 'diary://pages/0', { page: '0' }, 'Diary')), [
    { uri: 'diary://pages/0', mimeType: 'text/plain', text: 'dear diary' },
  ]);
});

test('what is not there is nothing, and what is no content is refused', async () => {
  for (const name of ['none', 'empty']) assert.equal((await read(name, `kit://${name}`)).nothing, true);
  assert.equal((await read('order', 'shop://orders/18', { number: '18' }, 'Shop')).nothing, true);
  assert.equal(code(await read('wrong', 'kit://wrong')), 'BAD_OUTPUT');
  assert.equal(code(await got('silent')), 'BAD_OUTPUT');
  assert.equal(code(await got('strange')), 'BAD_OUTPUT');
});

test('prompts say messages', async () => {
  const one = await got('one');
  assert.deepEqual([one.content, one.roles], [[{ type: 'text', text: 'Hello.' }], ['user']]);
  const several = await got('many');
  assert.deepEqual(several.roles, ['assistant', 'user', 'user']);
  assert.deepEqual(
    (several.content as JsonObject[]).map(({ type }) => type),
    ['image', 'text', 'text'],
  );
  const refund = await got('refund', { number: 17 }, 'Shop');
  assert.deepEqual(
    (refund.content as JsonObject[]).map(({ text }) => text),
    ['Order 17.', 'Write a kind letter.'],
  );
  assert.equal((await got('continue', {}, 'Diary')).roles?.toString(), 'user');
});

test('arguments are completed, by a function that takes what was typed, by one that does not, and by a list', async () => {
  assert.deepEqual(await completed('Shop', 'order', 'number', '1'), ['17']);
  assert.deepEqual(await completed('Shop', 'order', 'number', '2'), []);
  assert.deepEqual(await completed('Shop', 'order', 'lang', 'D'), ['de']);
  assert.deepEqual(await completed('Shop', 'refund', 'number', '7'), ['17']);
  assert.deepEqual(await completed('Kit', 'typed', 'of', 'x'), ['x', 'any']);
  assert.deepEqual(await completed('Diary', 'page', 'page', ''), ['0']);
  assert.equal(await completed('Kit', 'typed', 'toString', ''), 'METHOD_NOT_FOUND');
  assert.equal(await completed('Kit', 'several', 'x', ''), 'METHOD_NOT_FOUND');
  assert.equal(await completed('Kit', 'odd', 'of', ''), 'INTERNAL_ERROR');
  assert.equal(code(await asked('typed', { typed: 1 }, { tool: 'Kit', complete: 'of' })), 'INVALID_PARAMS');
});

test('what is asked for as something else is not there', async () => {
  assert.equal(code(await got('policy', {}, 'Shop')), 'METHOD_NOT_FOUND');
  assert.equal(code(await read('refund', 'shop://refund', { number: 1 }, 'Shop')), 'METHOD_NOT_FOUND');
});

test('a hall that knows tools only calls them as tools', async () => {
  const order = await asked('order', { number: '17' }, { tool: 'Shop' });
  assert.deepEqual(contents(order), [
    { uri: 'shop://orders/17', mimeType: 'application/json', text: '{"number":"17","lang":"en","total":20}' },
  ]);
  const file = await asked('file', { path: ['a b', 'c'] }, { tool: 'Kit' });
  assert.match(JSON.stringify(file), /kit:\/\/files\/a%20b\/c/);
});

test('a secret that is required is lent to a read, too', async () => {
  const more = { tool: 'Kit', kind: 'resource', uri: 'kit://secret', context: { secrets: { KEY: 'k3y' } } };
  assert.match(JSON.stringify(await asked('secret', {}, more)), /"text":"3"/);
});

test('changes are told to a hall that reads them, and not without end', async () => {
  const context = { reports: ['tool_changed'] };
  const { messages } = await post(server.url, { ...call('touch', { uri: 'kit://bytes' }), context });
  assert.deepEqual(messages[0], { type: 'tool_changed', id: '17', uri: 'kit://bytes' });
  assert.equal((await post(server.url, call('touch', { uri: 'kit://bytes' }))).messages.length, 1);
  assert.equal((await post(server.url, { ...call('flood', {}), context })).messages.length, 1_001);
});

test('a mistake is refused where it is made, with what to change', () => {
  const read = () => 'text';
  const refused = (make: () => unknown, fix: RegExp) => assert.throws(make, { name: 'TypeError', message: fix });
  refused(() => resource('policy', { name: 'policy' }, read), /resource "policy": .*begins with a scheme of your own/);
  refused(() => resource('shop://{a', { name: 'x' }, read), /close every \{/);
  refused(() => resource('shop://{}', { name: 'x' }, read), /\{\} is not understood; write \{name\}/);
  refused(() => resource('shop://{a}/{a}', { name: 'x' }, read), /the variable a is there twice/);
  refused(() => resource('shop://a', { name: 'a b' }, read), /name of letters, digits/);
  refused(() => resource('shop://a', { name: 'a' }, 'text' as never), /give a function last/);
  refused(() => resource('shop://a', { name: 'a', mimeType: 'text' }, read), /text is no MIME type/);
  refused(() => resource('shop://a', { name: 'a', fresh: -1 }, read), /fresh is a number from 0/);
  refused(
    () => resource('shop://a', { name: 'a', input: URI }, read),
    /parameter uri is no variable .*write it into the URI: \{\?uri\}/,
  );
  refused(() => resource('shop://{b}', { name: 'a', input: NOTHING }, read), /has the variable b; add a parameter/);
  refused(
    () => resource('shop://a{?uri}', { name: 'a', input: URI }, read),
    /uri is in the query, which may be missing/,
  );
  refused(
    () => resource('shop://{a}', { name: 'a', complete: { b: [] } as never }, read),
    /no argument b to complete; there are a/,
  );
  refused(
    () => resource('shop://{a}', { name: 'a', complete: { a: 'b' as never } }, read),
    /completion of a is a list/,
  );
  refused(
    () => prompt('p', { complete: { a: [] } as never }, read),
    /prompt "p": .*no argument a to complete; there is none/,
  );
});

test('one name is one thing', () => {
  const twice = [resource('kit://a', { name: 'a' }, () => ''), resource('kit://b', { name: 'a' }, () => '')];
  return assert.rejects(
    () => serve(toolkit({ name: 'Kit', version: '1.0.0', tools: [], resources: twice })),
    /two methods have the same name/,
  );
});
