/** The typed client, against a hall that answers as the hub does. */

import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import { connect, HallAway, HallError, type JsonObject, serve, ToolError, tool, toolkit } from '@toolhall/sdk';
import { z } from 'zod';
import { kit } from './kit.js';

const mail = toolkit({
  name: 'Mail',
  version: '1.0.0',
  tools: [
    tool({
      name: 'send',
      input: z.object({ to: z.string(), copies: z.number().default(1) }),
      output: null,
      run: () => {},
    }),
  ],
});

const declared = (name: string) => ({ tool: { name, version: '1.0.0', capabilities: { methods: ['send'] } } });
const asked: JsonObject[] = [];
const server = createServer((request, response) => {
  let body = '';
  request.on('data', (chunk) => {
    body += chunk;
  });
  request.on('end', () => {
    const message = JSON.parse(body) as JsonObject;
    asked.push({ ...message, key: request.headers.authorization ?? '' });
    if (message.method === 'hang') return;
    if (message.method === 'busy') response.statusCode = 503;
    response.end(['garbage', 'busy'].includes(String(message.method)) ? '<html>' : JSON.stringify(answer(message)));
  });
});
let url = '';
before(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
after(() => server.close());

function answer({ id = null, type, method, params }: JsonObject): JsonObject {
  if (type === 'request') {
    const first = (params as JsonObject).cursor === undefined;
    const result = first ? { tools: [declared('A')], nextCursor: '1' } : { tools: [declared('B')] };
    return { type: 'response', id, result, error: null };
  }
  if (method === 'other') return { jsonrpc: '2.0', id };
  if (method === 'refused') {
    const error = { code: 'UNAUTHENTICATED', message: 'a valid credential is required', details: {} };
    return { type: 'response', id, result: null, error };
  }
  if (method === 'add') return { type: 'tool_response', id, result: { result: 3 }, error: null };
  if (method === 'create') return { type: 'tool_response', id, result: { title: 'Lunch', guests: 1 }, error: null };
  if (method === 'send') return { type: 'tool_response', id, result: {}, error: null };
  const error = { type: 'tool_error', code: 'TOOL_ERROR', message: 'no', details: { can_retry: true } };
  return { type: 'tool_response', id, result: null, error };
}

test('calls are typed by the toolkits', async () => {
  const hall = connect<[typeof kit, typeof mail]>({ url, key: 'k' });
  const sum: { result: number } = await hall.call('Kit.add', { a: 1, b: 2 }, { version: '1.2.0' });
  assert.deepEqual(sum, { result: 3 });
  assert.deepEqual(
    { ...asked.at(-1), id: '' },
    {
      type: 'tool_request',
      id: '',
      tool: 'Kit',
      method: 'add',
      params: { a: 1, b: 2 },
      metadata: { version: '1.2.0' },
      key: 'Bearer k',
    },
  );
  const { title, guests }: { title: string; guests: number } = await hall.call('Kit.create', { title: 'Lunch' });
  assert.deepEqual([title, guests], ['Lunch', 1]);
  const sent: Record<string, never> = await hall.call('Mail.send', { to: 'ada' });
  assert.deepEqual(sent, {});
  // @ts-expect-error: there is no such tool
  await assert.rejects(hall.call('Kit.divide', {}), ToolError);
  // @ts-expect-error: a title is missing
  await hall.call('Kit.create', {});
  // @ts-expect-error: b is a number
  await hall.call('Kit.add', { a: 1, b: '2' });
  hall.close();
});

test('a tool server answers as a hall does', async () => {
  const served = await serve([kit, mail]);
  const direct = connect<[typeof kit, typeof mail]>({ url: served.url });
  try {
    const sum: { result: number } = await direct.call('Kit.add', { a: 1, b: 2 });
    assert.deepEqual(sum, { result: 3 });
    assert.deepEqual(await direct.call('Kit.create', { title: 'Lunch' }), { title: 'Lunch', guests: 1 });
    assert.deepEqual(await direct.call('Mail.send', { to: 'ada' }), {});
    assert.deepEqual(await direct.call('Kit.returns', { what: 'null' }), { result: null });
    assert.deepEqual(await direct.call('Kit.returns', { what: 'text' }), {});
  } finally {
    direct.close();
    await served.close();
  }
});

test('a key is sent only where nobody else can read it', () => {
  for (const far of ['http://hall.example', 'http://10.0.0.7:8000/hub', 'http://127.0.0.1.example', 'http://[::2]']) {
    assert.throws(() => connect({ url: far, key: 'k' }), /use https/);
  }
  for (const near of ['https://hall.example', 'http://localhost:1', 'http://127.0.0.9', 'http://[::1]:8000/hub/']) {
    connect({ url: near, key: 'k' }).close();
  }
  for (const odd of ['hall', 'ftp://hall.example', 'ws://127.0.0.1']) {
    assert.throws(() => connect({ url: odd, key: 'k' }), /write it like/);
  }
  for (const told of ['https://ada:hunter2@hall.example', 'https://hall.example?key=hunter2']) {
    assert.throws(() => connect({ url: told }), { message: /^(?!.*hunter2).*must hold no/ });
  }
});

test('one toolkit, or none, may be named', async () => {
  const one = connect<typeof mail>({ url });
  await one.call('Mail.send', { to: 'ada', copies: 2 });
  one.close();
  const any = connect({ url });
  const result: JsonObject = await any.call('Whatever.send', { anything: 1 });
  assert.deepEqual(result, {});
  any.close();
});

test('a failure is a ToolError', async () => {
  const hall = connect({ url });
  await assert.rejects(hall.call('A.fails', {}), {
    name: 'ToolError',
    code: 'TOOL_ERROR',
    details: { can_retry: true },
  });
  await assert.rejects(hall.call('A.refused', {}), new HallError('UNAUTHENTICATED', 'a valid credential is required'));
  await assert.rejects(hall.call('A.garbage', {}), { name: 'HallAway', message: /is it a hall\?/ });
  await assert.rejects(hall.call('A.other', {}), { name: 'HallAway', message: /is it a hall\?/ });
  await assert.rejects(hall.call('A.busy', {}), { name: 'HallError', code: 'UNAVAILABLE', passes: true });
  hall.close();
});

test('a call may be given up', async () => {
  const hall = connect({ url });
  await assert.rejects(hall.call('A.hang', {}, { timeout: 0.0105 }), { name: 'HallAway', message: /in time/ });
  await assert.rejects(hall.call('A.hang', {}, { signal: AbortSignal.abort() }), { name: 'AbortError' });
  const mind = new AbortController();
  const [changed, count] = [new Error('changed my mind'), asked.length];
  const given = hall.call('A.hang', {}, { signal: mind.signal });
  while (asked.length === count) await new Promise((resolve) => setImmediate(resolve));
  mind.abort(changed);
  await assert.rejects(given, (thrown) => thrown === changed);
  const hanging = hall.call('A.hang', {});
  hall.close();
  await assert.rejects(hanging, HallAway);
});

test('a listing has all pages', async () => {
  const hall = connect({ url: `${url}/hub` });
  const names = (await hall.list()).map((each) => each.name);
  assert.deepEqual(names, ['A', 'B']);
  hall.close();
});
