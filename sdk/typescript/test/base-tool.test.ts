/** `BaseTool`, as the specification writes it. */

import assert from 'node:assert/strict';
import { connect as dial } from 'node:net';
import { test } from 'node:test';
import { BaseTool, serve, ToolError, type ToolRequest, type ToolResponse, text, wire } from '@toolhall/sdk';
import { Gate } from './kit.js';
import { call, get, post } from './talking.js';

// Compiled by settings of its own, because it leaves what it catches without a type.
const { ExampleTool } = (await import(new URL('./seed/example-tool.js', import.meta.url).href)) as {
  ExampleTool: new () => BaseTool;
};

class Weather extends BaseTool {
  override readonly capabilities = {
    methods: [
      'sky',
      {
        name: 'wind',
        description: 'How it blows.',
        params: { type: 'object', properties: { at: { type: 'string' } } },
      },
      { name: 'key', 'dev.toolhall/tool': { requirements: { secrets: [{ id: 'KEY' }] } } },
    ],
    resources: ['stations'],
  };
  status = 'healthy';

  constructor() {
    super('weather', '2.0.0');
  }

  async handleRequest({ method, params, context }: ToolRequest): Promise<ToolResponse> {
    context.progress(1);
    if (method === 'sky') return { content: [text('blue')], meta: { source: 'window' } };
    if (method === 'key') return { result: context.secret('KEY').length };
    if (params.at === 'sea') return { error: { code: 'TOO_WET', message: 'no station there', details: { at: 'sea' } } };
    if (params.at === 'moon') return { error: 'no wind there' };
    if (params.at === 'mars') throw new ToolError('none', { code: 'METHOD_NOT_FOUND', details: { started: false } });
    if (params.at === 'sun') return { error: new ToolError('too hot') };
    return {};
  }

  override async healthCheck() {
    if (this.status === 'throws') throw new Error('no');
    return { status: this.status };
  }
}

async function ended(tool: BaseTool, message: Parameters<typeof post>[1]): Promise<wire.End | wire.Failure> {
  const server = await serve(tool);
  try {
    const { messages } = await post(server.url, message);
    return wire.readEnding(messages.at(-1) ?? {});
  } finally {
    await server.close();
  }
}

const asks = (tool: string, method: string, params = {}, more = {}) => ({ ...call(method, params, more), tool });

test("the seed's own example runs", async () => {
  const end = await ended(new ExampleTool(), asks('example-tool', 'method1', { param1: 'x' }));
  assert.deepEqual(end, { kind: 'end', id: '17', value: { status: 'success' } });
  const none = await ended(new ExampleTool(), asks('example-tool', 'method2'));
  assert.equal((none as wire.Failure).code, 'METHOD_NOT_FOUND');
  // handleRequest itself is no method.
  const itself = await ended(new ExampleTool(), asks('example-tool', 'request'));
  assert.equal((itself as wire.Failure).code, 'METHOD_NOT_FOUND');
});

test('what a tool itself does not find has begun, so no other server is asked', async () => {
  const lost = await ended(new Weather(), asks('weather', 'wind', { at: 'mars' }));
  assert.equal((lost as wire.Failure).code, 'METHOD_NOT_FOUND');
  assert.equal((lost as wire.Failure).details.started, true);
});

test('capabilities say which methods there are', async () => {
  const sky = await ended(new Weather(), asks('weather', 'sky'));
  assert.deepEqual(sky, {
    kind: 'end',
    id: '17',
    content: [{ type: 'text', text: 'blue' }],
    meta: { source: 'window' },
  });
  assert.deepEqual(await ended(new Weather(), asks('weather', 'wind')), { kind: 'end', id: '17', nothing: true });
  const key = asks('weather', 'key', {}, { context: { secrets: { KEY: '12345' } } });
  assert.deepEqual(await ended(new Weather(), key), { kind: 'end', id: '17', value: 5 });
});

test('a response may hold an error, in any form', async () => {
  const at = async (at: string) => (await ended(new Weather(), asks('weather', 'wind', { at }))) as wire.Failure;
  const sea = await at('sea');
  assert.deepEqual([sea.code, sea.counts_as, sea.message], ['TOO_WET', 'TOOL_ERROR', 'no station there']);
  assert.equal(sea.details.at, 'sea');
  assert.equal((await at('moon')).message, 'no wind there');
  assert.equal((await at('sun')).message, 'too hot');
});

test('health is as bad as the worst tool', async (t) => {
  t.mock.timers.enable({ apis: ['Date'] });
  const weather = new Weather();
  const server = await serve([weather, new ExampleTool()]);
  try {
    for (const [said, status, http] of [
      ['degraded', 'degraded', 200],
      ['unhealthy', 'unhealthy', 503],
      ['sunny', 'degraded', 200],
      ['throws', 'unhealthy', 503],
    ] as const) {
      weather.status = said;
      t.mock.timers.tick(1_000);
      const heard = await get(`${server.url}/health`);
      const tools = { weather: status, 'example-tool': 'healthy' };
      assert.deepEqual([heard.status, heard.messages[0]], [http, { status, components: { tools } }]);
    }
  } finally {
    await server.close();
  }
});

test('a tool is asked how it is once at a time, and once in a second', async (t) => {
  t.mock.timers.enable({ apis: ['Date'] });
  const asked = new Gate();
  let count = 0;
  class Slow extends Weather {
    override async healthCheck() {
      count += 1;
      await asked.opened;
      return { status: 'degraded' };
    }
  }
  const server = await serve(new Slow());
  const ask = () => get(`${server.url}/health`);
  try {
    // In one piece, so that all have come when the first is being answered.
    const many = dial(Number(new URL(server.url).port), '127.0.0.1');
    const line = 'GET /health HTTP/1.1\r\nhost: x\r\n';
    many.write(`${`${line}\r\n`.repeat(19)}${line}connection: close\r\n\r\n`);
    while (count === 0) await new Promise((resolve) => setImmediate(resolve));
    asked.open();
    let heard = '';
    for await (const chunk of many) heard += String(chunk);
    assert.equal(heard.split('{"status":"degraded"').length - 1, 20);
    t.mock.timers.tick(999);
    await ask();
    assert.equal(count, 1);
    t.mock.timers.tick(1);
    await ask();
    assert.equal(count, 2);
  } finally {
    await server.close();
  }
});

test('mistakes show before anything is called', async () => {
  class Odd extends BaseTool {
    async handleRequest(): Promise<ToolResponse> {
      return {};
    }
  }
  await assert.rejects(serve(new Odd('odd', '1.0.0')), /odd: declare at least one method/);
  await assert.rejects(serve([new ExampleTool(), new ExampleTool()]), /example-tool@1.0.0 is there twice/);
});
