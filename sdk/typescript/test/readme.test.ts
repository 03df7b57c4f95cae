/** The examples of the README are files here, and run as processes of their own. */

import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { afterEach, beforeEach, test } from 'node:test';
import { serve, toolkit, wire } from '@toolhall/sdk';
import { cancel } from './examples/meeting.js';
import { Hall, KEY } from './hall.js';
import { call, exchange, post } from './talking.js';

const EXAMPLES = new URL('../test/examples/', import.meta.url);
let hall: Hall;
let child: ChildProcess | undefined;

beforeEach(async () => {
  hall = await new Hall().open();
});
afterEach(async () => {
  child?.kill('SIGKILL');
  await hall.close();
});

function start(name: string): { ended: Promise<[number | null, string, string]> } {
  const env = { ...process.env, HALL_URL: hall.url, TOOLHALL_KEY: KEY };
  const script = new URL(`./examples/${name}.js`, import.meta.url);
  const running = spawn(process.execPath, [script.pathname], { env });
  child = running;
  const said = { out: '', err: '' };
  running.stdout.on('data', (chunk) => {
    said.out += chunk;
  });
  running.stderr.on('data', (chunk) => {
    said.err += chunk;
  });
  return { ended: once(running, 'close').then(([code]) => [code as number | null, said.out, said.err]) };
}

test('the README shows the examples as they are', () => {
  const readme = readFileSync(new URL('../README.md', import.meta.url), 'utf8');
  const shown = [...readme.matchAll(/^```ts\n(.*?)^```$/gms)].map((found) => found[1]);
  const files = readdirSync(EXAMPLES).map((name) => readFileSync(new URL(name, EXAMPLES), 'utf8'));
  assert.deepEqual(shown.sort(), files.sort());
});

for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  test(`a server joins, is called by the client, and leaves on ${signal}`, async () => {
    const server = start('main');
    await hall.until(() => hall.count('heartbeat') >= 1);
    const process = child;
    const { url, token } = hall.requests[0]?.params ?? {};
    const create = { ...call('create', { title: 'Lunch', guests: ['Ada'] }), tool: 'Calendar' };
    const sent = { ...create, context: { secrets: { CALENDAR_KEY: 'k3y' } } };
    const { messages } = await post(String(url), sent, { token: String(token) });
    assert.equal(messages[0]?.message, 'invited Ada');
    assert.deepEqual(wire.readEnding(messages[1] ?? {}), {
      kind: 'end',
      id: '17',
      value: { id: 'event-3', title: 'Lunch' },
    });
    const said = { ...call('say', { a: 1 }), tool: 'Echo' };
    const echoed = await post(String(url), said, { token: String(token) });
    assert.deepEqual(echoed.messages[0]?.result, { said: { a: 1 } });
    assert.deepEqual(await start('client').ended, [0, '3.5\n', '']);
    process?.kill(signal);
    const [code, out, err] = await server.ended;
    assert.deepEqual([code, err], [0, '']);
    assert.match(out, /active/);
    assert.deepEqual(hall.requests.at(-1), { method: 'leave', params: { lease: 'lease-1' } });
  });
}

test('a hall that refuses ends the process with its words', async () => {
  hall.said.join = () => ['FORBIDDEN', 'this key may not serve Calendar'];
  const [code, , err] = await start('main').ended;
  assert.equal(code, 1);
  assert.match(err, /this key may not serve Calendar/);
  assert.doesNotMatch(err, new RegExp(KEY));
});

test('the tool that asks', async () => {
  const server = await serve(toolkit({ name: 'Kit', version: '1.0.0', tools: [cancel] }));
  const running = exchange(server.url, call('cancel', { id: 'e1' }, { context: { can: ['elicitation'] } }));
  await running.next();
  const answers = { form_1: { kind: 'filled', action: 'accept', content: { reason: 'rain' } } };
  await post(server.url, { type: 'tool_answer', id: '17', number: 1, answers });
  const { messages } = await running.whole;
  assert.deepEqual(messages[1]?.data, { id: 'e1', reason: 'rain' });
  assert.deepEqual(messages[2]?.result, { result: 'cancelled: rain' });
  await server.close();
});
