// Takes a TypeScript MCP client through all that accept.py offers, and prints what came of it as one JSON object.
//
// node client.mjs v1|v2 legacy|auto URL, or ... -- COMMAND ARGUMENTS
//   v2: @modelcontextprotocol/client, which speaks both eras; v1: @modelcontextprotocol/sdk, which shakes hands.
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';

const CHECK_MS = 30_000;
const CANCEL_MS = 20_000;
const POLL_MS = 20;
const BULK = 120;

const [library, era, ...target] = process.argv.slice(2);
const offStdio = target[0] === '--' ? { command: target[1], args: target.slice(2), stderr: 'ignore' } : undefined;
const capabilities = { elicitation: { form: {} } };
const who = { name: `toolhall-${library}`, version: '1.0.0' };

let action = 'accept';
let changes = 0;
let waiting = [];
const answer = async () => (action === 'accept' ? { action, content: { name: 'Ada' } } : { action });
const onChange = () => {
  changes += 1;
  for (const wake of waiting.splice(0)) wake();
};

async function connectV2() {
  const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
  const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio');
  const client = new Client(who, { capabilities, versionNegotiation: { mode: era } });
  client.setRequestHandler('elicitation/create', answer);
  client.setNotificationHandler('notifications/tools/list_changed', onChange);
  await client.connect(offStdio ? new StdioClientTransport(offStdio) : new StreamableHTTPClientTransport(new URL(target[0])));
  return {
    client,
    revision: client.getNegotiatedProtocolVersion(),
    call: (name, args = {}, options) => client.callTool({ name, arguments: args }, options),
    page: cursor => client.request({ method: 'tools/list', params: cursor ? { cursor } : {} }),
    listen: () => client.listen({ toolsListChanged: true }),
  };
}

async function connectV1() {
  const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
  const { StdioClientTransport } = await import('@modelcontextprotocol/sdk/client/stdio.js');
  const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
  const { ElicitRequestSchema, ToolListChangedNotificationSchema } = await import('@modelcontextprotocol/sdk/types.js');
  const client = new Client(who, { capabilities });
  client.setRequestHandler(ElicitRequestSchema, answer);
  client.setNotificationHandler(ToolListChangedNotificationSchema, onChange);
  const transport = offStdio ? new StdioClientTransport(offStdio) : new StreamableHTTPClientTransport(new URL(target[0]));
  let revision;
  const pass = transport.setProtocolVersion?.bind(transport);
  transport.setProtocolVersion = version => {
    revision = version;
    pass?.(version);
  };
  await client.connect(transport);
  return {
    client,
    revision,
    call: (name, args = {}, options) => client.callTool({ name, arguments: args }, undefined, options),
    page: cursor => client.listTools(cursor ? { cursor } : {}),
  };
}

const { client, revision, call, page, listen } = await (library === 'v2' ? connectV2() : connectV1());

async function names() {
  const pages = [];
  let cursor;
  do {
    const result = await page(cursor);
    pages.push(result.tools.map(tool => tool.name));
    cursor = result.nextCursor;
  } while (cursor);
  return pages;
}

const cancelled = async () => (await call('accept_cancelled')).structuredContent.count;

const checks = {
  async list() {
    const pages = await names();
    const all = pages.flat();
    assert.ok(pages.length > 1, 'only one page');
    assert.equal(new Set(all).size, all.length);
    assert.equal(all.filter(name => name.startsWith('accept_bulk_')).length, BULK);
    if (library === 'v2') assert.deepEqual((await client.listTools()).tools.map(tool => tool.name), all);
  },
  async structured() {
    const result = await call('accept_add', { a: 2, b: 3 });
    assert.deepEqual(result.structuredContent, { sum: 5 });
    assert.deepEqual(JSON.parse(result.content[0].text), { sum: 5 });
  },
  async bad_arguments() {
    const result = await call('accept_add', { a: 'x' });
    assert.equal(result.isError, true);
    assert.match(result.content[0].text, /\/a/);
  },
  async unknown_tool() {
    await assert.rejects(call('no_such_tool'), error => error.code === -32602);
  },
  async tool_error() {
    const result = await call('accept_fail');
    assert.equal(result.isError, true);
    assert.equal(result.content[0].text, 'accept_fail fails, as it promised');
  },
  async progress() {
    const seen = [];
    const result = await call('accept_slow', { seconds: 0.1 }, { onprogress: ({ progress, total }) => seen.push([progress, total]) });
    assert.equal(result.content[0].text, 'done');
    assert.deepEqual(seen, Array.from({ length: 10 }, (_, step) => [step + 1, 10]));
  },
  async cancel() {
    const before = await cancelled();
    const stop = new AbortController();
    const running = new Promise(resolve => {
      call('accept_slow', { seconds: 60 }, { signal: stop.signal, onprogress: resolve }).catch(() => {});
    });
    await running;
    stop.abort('changed my mind');
    for (let waited = 0; (await cancelled()) === before; waited += POLL_MS) {
      assert.ok(waited < CANCEL_MS, 'the call went on');
      await pause(POLL_MS);
    }
  },
  async list_changed() {
    const listening = revision >= '2026' ? await listen() : undefined;
    const before = changes;
    const told = new Promise(resolve => waiting.push(resolve));
    await call('accept_toggle');
    await told;
    assert.ok(changes > before);
    assert.ok((await names()).flat().includes('accept_dynamic'));
    await call('accept_toggle');
    await listening?.close();
  },
  async elicitation() {
    for (const [chosen, expected] of [['accept', /^Hello, Ada!$/], ['decline', /declined/], ['cancel', /cancel/]]) {
      action = chosen;
      assert.match((await call('accept_ask')).content[0].text, expected);
    }
  },
  async parallel() {
    const numbers = Array.from({ length: 40 }, (_, number) => number);
    const results = await Promise.all(numbers.map(number => call('accept_add', { a: number, b: number })));
    assert.deepEqual(results.map(result => result.structuredContent.sum), numbers.map(number => 2 * number));
  },
};

const outcome = {};
for (const [name, check] of Object.entries(checks)) {
  const stop = new AbortController();
  const late = pause(CHECK_MS, undefined, { signal: stop.signal }).then(() => assert.fail(`no end after ${CHECK_MS} ms`));
  late.catch(() => {});
  outcome[name] = await Promise.race([check(), late]).then(() => null, error => String(error.stack ?? error));
  stop.abort();
}
await client.close();
process.stdout.write(`${JSON.stringify({ revision, checks: outcome })}\n`);
process.exit(0);
