/** A tool server over HTTP: what each message leads to. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { connect as dial } from 'node:net';
import { after, before, beforeEach, test } from 'node:test';
import { type JsonObject, type Serving, serve, toolkit, wire } from '@toolhall/sdk';
import { add, Gate, kit, seen } from './kit.js';
import { call, exchange, get, post } from './talking.js';

let server: Serving;
let url = '';
const ASKS = { context: { can: ['elicitation', 'elicitation.url', 'sampling', 'roots'] } };

before(async () => {
  server = await serve(kit);
  url = server.url;
});
after(() => server.close());
beforeEach(() => {
  Object.assign(seen, { started: new Gate(), aborted: new Gate(), ended: '' });
});

const ended = (message: JsonObject | undefined) => wire.readEnding(message ?? {});
async function failure(message: JsonObject) {
  const heard = await post(url, message);
  return { ...(ended(heard.messages[0]) as wire.Failure), status: heard.status };
}
const codeOf = (message: JsonObject | undefined) => wire.readResponse(message ?? {}).error?.code;
/** What is meant for this process's log only. */
function logged(t: { mock: typeof import('node:test').mock }): () => string {
  const spy = t.mock.method(console, 'error', () => {});
  return () => spy.mock.calls.map((each) => each.arguments.map(String).join(' ')).join('\n');
}

test('a tool that tells nothing answers with one JSON', async () => {
  const heard = await post(url, call('add', { a: 1, b: 2 }, { metadata: { version: '1.2.0' } }));
  assert.equal(heard.status, 200);
  assert.equal(heard.type, 'application/json');
  assert.ok(heard.headers['content-length']);
  assert.deepEqual(heard.messages, [
    { type: 'tool_response', id: '17', result: { result: 3 }, error: null, wrapped: true },
  ]);
});

test('a Standard Schema fills in its defaults', async () => {
  const heard = await post(url, call('create', { title: 'Lunch' }));
  assert.deepEqual(ended(heard.messages[0]), { kind: 'end', id: '17', value: { title: 'Lunch', guests: 1 } });
});

test('arguments that a Standard Schema refuses are named, without their values', async () => {
  const { code, details, message, status } = await failure(call('create', { title: 7, guests: 1.5 }));
  assert.equal(code, 'INVALID_PARAMS');
  assert.equal(status, 400);
  const problems = details.problems as { path: string; reason: string }[];
  assert.deepEqual(
    problems.map((each) => each.path),
    ['/title', '/guests'],
  );
  assert.doesNotMatch(message, /1\.5/);
});

test('as soon as a tool tells something, lines come', async () => {
  const heard = await post(url, call('tells'));
  assert.equal(heard.type, 'application/x-ndjson');
  const logger = 'Kit_tells';
  assert.deepEqual(heard.messages, [
    { type: 'tool_progress', id: '17', progress: 1, total: 3, message: 'one of three' },
    { type: 'tool_log', id: '17', level: 'notice', data: { rows: [1, null] }, logger },
    { type: 'tool_log', id: '17', level: 'debug', data: 'd', logger },
    { type: 'tool_log', id: '17', level: 'info', data: 'i', logger },
    { type: 'tool_log', id: '17', level: 'warning', data: 'w', logger },
    { type: 'tool_log', id: '17', level: 'error', data: 'e', logger },
    { type: 'tool_progress', id: '17', progress: 3 },
    { type: 'tool_response', id: '17', result: { result: 'done' }, error: null, wrapped: true },
  ]);
});

test('a question is answered by a message of its own', async () => {
  const running = exchange(url, call('asks', {}, ASKS));
  const asked = wire.readReport(await running.next()) as wire.Asked;
  assert.equal(asked.number, 1);
  const [key = '', question] = Object.entries(asked.questions)[0] ?? [];
  assert.equal(question?.kind, 'form');
  const answers = { [key]: { kind: 'filled', action: 'accept', content: { name: 'Ada' } } };
  const taken = await post(url, { type: 'tool_answer', id: '17', number: 1, answers });
  assert.deepEqual(taken.messages, [{ type: 'response', id: null, result: { status: 'ok' }, error: null }]);
  const { messages } = await running.whole;
  assert.deepEqual(ended(messages.at(-1)), { kind: 'end', id: '17', value: 'Hello Ada' });
});

for (const action of ['decline', 'cancel']) {
  test(`a person may ${action}`, async () => {
    const running = exchange(url, call('asks', {}, ASKS));
    await running.next();
    await post(url, { type: 'tool_answer', id: '17', number: 1, answers: { form_1: { kind: 'filled', action } } });
    assert.deepEqual(ended((await running.whole).messages.at(-1)), { kind: 'end', id: '17', value: action });
  });
}

test('questions of every other kind', async () => {
  const running = exchange(url, call('asksAll', {}, ASKS));
  const answer = async (number: number, answers: JsonObject) => {
    const asked = wire.readReport(await running.next()) as wire.Asked;
    assert.equal(asked.number, number);
    await post(url, { type: 'tool_answer', id: '17', number, answers });
    return asked;
  };
  await answer(1, { 'sign-1': { kind: 'filled', action: 'accept' } });
  await answer(2, {
    sample_2: { kind: 'sampled', role: 'assistant', content: { type: 'text', text: 'Hi' }, model: 'm' },
  });
  await answer(3, { roots_3: { kind: 'rooted', roots: [{ uri: 'file:///srv' }] } });
  const detached = await answer(4, {});
  assert.deepEqual([detached.questions, detached.retry_ms], [{}, 250]);
  const value = { agreed: true, said: { type: 'text', text: 'Hi' }, roots: ['file:///srv'] };
  assert.deepEqual(ended((await running.whole).messages.at(-1)), { kind: 'end', id: '17', value });
});

test('a caller that cannot be asked is not asked', async () => {
  const { code, details } = await failure(call('asks'));
  assert.equal(code, 'UNSUPPORTED');
  assert.equal(details.feature, 'elicitation');
});

test('the hall may say that nobody can be asked', async () => {
  const running = exchange(url, call('asks', {}, ASKS));
  await running.next();
  const error = { code: 'UNSUPPORTED', message: 'this tool needs a client that supports elicitation' };
  await post(url, { type: 'tool_answer', id: '17', number: 1, error });
  const failed = ended((await running.whole).messages.at(-1)) as wire.Failure;
  assert.deepEqual(
    [failed.code, failed.message, failed.details.feature],
    ['UNSUPPORTED', error.message, 'elicitation'],
  );
});

test('an answer that comes later unwinds the tool', async () => {
  const running = exchange(url, call('asks', {}, ASKS));
  await running.next();
  await post(url, { type: 'tool_answer', id: '17', number: 1, later: true });
  assert.equal((ended((await running.whole).messages.at(-1)) as wire.Failure).code, 'CANCELLED');
});

test('a form that asks for a secret is a mistake of the tool', async (t) => {
  const log = logged(t);
  assert.equal((await failure(call('asksForSecret', {}, ASKS))).code, 'INTERNAL_ERROR');
  assert.match(log(), /user_pin/);
});

test('questions that nobody answered yet are counted', async (t) => {
  const log = logged(t);
  const { messages } = await post(url, call('asksTooMuch', {}, ASKS));
  assert.equal((ended(messages.at(-1)) as wire.Failure).code, 'INTERNAL_ERROR');
  assert.equal(messages.length, 33);
  assert.match(log(), /wait for answers/);
});

test('an answer to nothing', async () => {
  const { messages } = await post(url, { type: 'tool_answer', id: '99', number: 1, answers: {} });
  assert.deepEqual(messages[0]?.result, { status: 'not_running' });
});

test('whoever hangs up aborts the call', async () => {
  const running = exchange(url, call('wait'));
  await seen.started.opened;
  running.hangUp();
  await seen.aborted.opened;
  assert.equal(seen.ended, 'aborted');
});

test('a call is cancelled by a message', async () => {
  const running = exchange(url, call('wait'));
  await seen.started.opened;
  const cancel = { type: 'request', id: 'c17', method: 'cancel', params: { id: '17' } };
  const said = await post(url, cancel);
  assert.deepEqual(said.messages, [{ type: 'response', id: 'c17', result: { status: 'cancelled' }, error: null }]);
  await seen.aborted.opened;
  assert.equal((ended((await running.whole).messages[0]) as wire.Failure).code, 'CANCELLED');
  assert.deepEqual((await post(url, cancel)).messages[0]?.result, { status: 'not_running' });
});

test('a deadline ends the call', async () => {
  const { code, status } = await failure(call('wait', {}, { context: { timeout: 0.01 } }));
  assert.deepEqual([code, status], ['TIMEOUT', 504]);
  await seen.aborted.opened;
});

test('a deadline stands still while a question is open', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const running = exchange(url, call('asks', {}, { context: { ...ASKS.context, timeout: 5 } }));
  await running.next();
  t.mock.timers.tick(3_600_000);
  const answers = { form_1: { kind: 'filled', action: 'accept', content: { name: 'Ada' } } };
  await post(url, { type: 'tool_answer', id: '17', number: 1, answers });
  assert.equal(ended((await running.whole).messages.at(-1)).kind, 'end');
});

test('a tool reads what it declared', async () => {
  const context = {
    user_id: 'alice',
    caller: { id: 'ci', person: 'alice', proof: 'key', scopes: [], acting_for: null },
    secrets: { API_KEY: 's3cret' },
    accounts: { google: { token: 't0ken', scopes: ['contacts'], expires_at: null } },
  };
  const { messages } = await post(url, call('supplied', {}, { context }));
  const value = { secret: 's3cret', token: 't0ken', scopes: ['contacts'], user: 'alice', caller: 'ci' };
  assert.deepEqual(ended(messages[0]), { kind: 'end', id: '17', value });
});

for (const what of ['secret', 'account']) {
  test(`a tool does not read the ${what} that it did not declare, even if it is there`, async (t) => {
    const log = logged(t);
    const context = {
      secrets: { API_KEY: 's3cret' },
      accounts: { google: { token: 's3cret', scopes: [], expires_at: null } },
    };
    const heard = await post(url, call('takesMore', { what }, { context }));
    assert.equal((ended(heard.messages[0]) as wire.Failure).code, 'INTERNAL_ERROR');
    assert.match(log(), /declare the/);
    assert.doesNotMatch(log() + JSON.stringify(heard), /s3cret/);
  });
}

test('a tool fails in its own words', async () => {
  assert.deepEqual(await failure(call('fails')), {
    kind: 'failure',
    id: '17',
    code: 'NO_DAY',
    counts_as: 'TOOL_ERROR',
    message: 'no such day',
    details: { tool: 'Kit', method: 'fails', day: 31, retry_after: 2, can_retry: true, prompt: 'use a date' },
    status: 400,
  });
});

test('what a crash says stays in the log', async (t) => {
  const log = logged(t);
  const { code, message, status } = await failure(call('crashes'));
  assert.deepEqual(
    [code, message, status],
    ['INTERNAL_ERROR', "the tool failed; the tool server's log has the details", 500],
  );
  assert.match(log(), /hunter2/);
});

for (const how of ['error', 'crash']) {
  test(`a secret is kept out of what a tool says with its ${how}`, async (t) => {
    const log = logged(t);
    const secret = 'a "quoted" s3cret';
    const heard = await post(url, call('leaks', { how }, { context: { secrets: { API_KEY: secret } } }));
    assert.equal(ended(heard.messages[0]).kind, 'failure');
    assert.doesNotMatch(log() + JSON.stringify(heard.messages), /s3cret/);
    assert.match(how === 'crash' ? log() : JSON.stringify(heard.messages), /\[redacted\]/);
  });
}

for (const secret of ['1234', 'null', 'type', 'result', 'TOOL', 'reason']) {
  test(`a secret may be a word of the message around it: ${secret}`, async () => {
    const message = call('leaks', { how: 'error' }, { context: { secrets: { API_KEY: secret } } });
    const { messages } = await post(url, { ...message, id: 'ab12-1234' });
    const number = secret === '1234' ? '[redacted]' : null;
    assert.deepEqual(messages, [
      {
        type: 'tool_response',
        id: 'ab12-1234',
        result: null,
        error: {
          type: 'tool_error',
          code: 'NO_[redacted]',
          message: 'GET /?key=[redacted] [redacted]',
          details: {
            tool: 'Kit',
            method: 'leaks',
            [secret === 'reason' ? 'reason' : '[redacted]']: ['[redacted]', number],
            prompt: '[redacted]',
            problems: [{ path: '', reason: '[redacted]' }],
          },
        },
      },
    ]);
  });
}

test('a secret of several lines is kept out of the log, however it is laid out', async (t) => {
  const log = logged(t);
  const secret = '-----BEGIN KEY-----\n  first1 "quoted"\nsecond2/+=\r\nthird3\n-----END KEY-----';
  await post(url, call('leaks', { how: 'crash' }, { context: { secrets: { API_KEY: secret } } }));
  assert.match(log(), /Kit\.leaks: the tool crashed: Error: GET .*\[redacted\]/);
  assert.match(log(), /authorization: 'Basic bWU\[redacted\]'/);
  assert.match(log(), /caused by Error: \[redacted\]/);
  assert.doesNotMatch(log(), /BEGIN|first1|second2|third3|END|66 69 72 73/);
});

test('a line of a secret is as secret as the whole', async () => {
  const context = { secrets: { API_KEY: 'begin\n  first1/"line"\r\n  second2 line\n' } };
  const said = 'line 1: first1\\/\\"line\\"; line 2: second2%20line';
  const { message } = await failure(call('leaks', { how: 'says', said }, { context }));
  assert.equal(message, 'line 1: [redacted]; line 2: [redacted]');
});

const REDACTING = new URL('../../../tests/vectors/hub/toolserver/redacting.json', import.meta.url);
for (const { name, secret, text, left } of JSON.parse(readFileSync(REDACTING, 'utf8'))) {
  test(`a secret is hidden: ${name}`, async () => {
    const context = { secrets: { API_KEY: secret } };
    assert.equal((await failure(call('leaks', { how: 'says', said: text }, { context }))).message, left);
  });
}

test('details that JSON cannot say are left out, and the tool server goes on', async (t) => {
  const log = logged(t);
  const { message, details } = await failure(call('unsayable'));
  assert.deepEqual([message, details], ['it is full', { tool: 'Kit', method: 'unsayable' }]);
  assert.match(log(), /details of an error cannot be written/);
});

test('what a tool may not do is its own failure, with a status of its own', async () => {
  const { code, counts_as, status } = await failure(call('forbids'));
  assert.deepEqual([code, counts_as, status], ['FORBIDDEN', 'TOOL_ERROR', 403]);
});

test('a tool may refuse arguments itself', async () => {
  const { code, details, message } = await failure(call('refuses'));
  assert.deepEqual([code, details.problems], ['INVALID_PARAMS', [{ path: '/at', reason: 'write a day to come' }]]);
  assert.match(message, /\/at: write a day to come$/);
});

const text = { type: 'text', text: 'hello', annotations: { audience: ['user'] }, _meta: { color: 'red' } };
const blocks = [
  { type: 'image', data: 'AAEC', mimeType: 'image/png' },
  { type: 'audio', data: 'AAEC', mimeType: 'audio/wav' },
  { type: 'resource_link', uri: 'file:///a', name: 'a', size: 3 },
  { type: 'resource', resource: { uri: 'file:///a', text: 'abc' } },
  { type: 'resource', resource: { uri: 'file:///b', mimeType: 'x/y', blob: 'AAEC' } },
];
const RETURNED: Record<string, JsonObject> = {
  nothing: { nothing: true },
  null: { value: null },
  list: { value: [1, 'a'] },
  date: { value: '1970-01-01T00:00:00.000Z' },
  text: { content: [text] },
  blocks: { content: blocks },
  lookalike: { value: { type: 'text', text: 'hello' } },
  reply: { value: 7, content: [{ type: 'text', text: 'seven' }], meta: { trace: 't' } },
  sorry: { content: [{ type: 'text', text: 'sorry' }], is_error: true },
};
for (const [what, meaning] of Object.entries(RETURNED)) {
  test(`a tool returns ${what}`, async () => {
    const { messages } = await post(url, call('returns', { what }));
    assert.deepEqual(ended(messages[0]), { kind: 'end', id: '17', ...meaning });
  });
}

for (const what of ['function', 'bigint', 'large']) {
  test(`a tool returns what cannot be sent: ${what}`, async (t) => {
    logged(t);
    assert.equal((await failure(call('returns', { what }))).code, 'BAD_OUTPUT');
  });
}

test('what is not there', async () => {
  assert.equal((await failure(call('divide'))).code, 'METHOD_NOT_FOUND');
  assert.equal((await failure(call('constructor'))).code, 'METHOD_NOT_FOUND');
  assert.equal((await failure({ ...call('add'), tool: 'Other' })).code, 'TOOL_NOT_FOUND');
  assert.equal((await failure(call('add', {}, { metadata: { version: '9.0.0' } }))).code, 'TOOL_NOT_FOUND');
  const other = await post(url, { type: 'request', id: 'x1', method: 'join', params: {} });
  assert.equal(codeOf(other.messages[0]), 'METHOD_NOT_FOUND');
  assert.equal((await post(`${url}/x`, call('add'))).status, 404);
  const wrong = await post(url, call('add'), { method: 'PUT' });
  assert.deepEqual([wrong.status, wrong.headers.allow], [405, 'POST']);
});

test('a version is called by its number', async () => {
  const other = await serve([kit, toolkit({ name: 'Kit', version: '2.0.0', tools: [add] })]);
  try {
    const at = (version: string) => post(other.url, call('create', { title: 'x' }, { metadata: { version } }));
    assert.equal(ended((await at('1.2.0')).messages[0]).kind, 'end');
    assert.equal((ended((await at('2.0.0')).messages[0]) as wire.Failure).code, 'METHOD_NOT_FOUND');
  } finally {
    await other.close();
  }
});

test('an id that runs is not begun again', async () => {
  const running = exchange(url, call('wait'));
  await seen.started.opened;
  assert.equal((await failure(call('add', { a: 1, b: 2 }))).code, 'INVALID_REQUEST');
  running.hangUp();
  await seen.aborted.opened;
});

test('garbage is refused, and not quoted', async () => {
  for (const body of ['', '{', '[1]', 'null', '"hunter2', '{"type":"hunter2"}', Buffer.from([0x22, 0xff, 0x22])]) {
    const heard = await post(url, body);
    assert.equal(heard.status, 400);
    assert.equal(codeOf(heard.messages[0]), 'INVALID_REQUEST');
    assert.doesNotMatch(JSON.stringify(heard.messages), /hunter2/);
  }
  const { code, id } = await failure(call('add', {}, { params: 7 }));
  assert.deepEqual([code, id], ['INVALID_REQUEST', '17']);
});

test('names that JavaScript knows are names like any other', async () => {
  const body =
    '{"type":"tool_request","id":"17","tool":"Kit","method":"create","params":{"title":"x","__proto__":{"guests":9}}}';
  assert.deepEqual(ended((await post(url, body)).messages[0]), {
    kind: 'end',
    id: '17',
    value: { title: 'x', guests: 1 },
  });
});

test('another content type and too large a body are refused', async () => {
  assert.equal((await post(url, call('add'), { type: 'text/plain' })).status, 415);
  assert.equal((await post(url, call('add', { a: 1, b: 2 }), { type: 'application/json; charset=utf-8' })).status, 200);
  assert.equal((await post(url, call('create', { title: 'x'.repeat(3 * 1024 * 1024) }))).status, 413);
});

test('a token is asked for', async () => {
  const guarded = await serve(kit, { token: 'right' });
  try {
    for (const token of [undefined, 'wrong', 'righ', 'rightt', '']) {
      const heard = await post(guarded.url, call('add', { a: 1, b: 2 }), token === undefined ? {} : { token });
      assert.deepEqual([heard.status, heard.headers['www-authenticate']], [401, 'Bearer']);
    }
    assert.equal((await post(guarded.url, call('add', { a: 1, b: 2 }), { token: 'right' })).status, 200);
    assert.equal((await get(`${guarded.url}/health`)).status, 200);
  } finally {
    await guarded.close();
  }
});

test('connections without the token do not keep the hall out', async () => {
  const guarded = await serve(kit, { token: 'right' });
  const { port } = new URL(guarded.url);
  const idle = Array.from({ length: 1_100 }, (_, at) => {
    const socket = dial(Number(port), '127.0.0.1');
    socket.on('error', () => {});
    if (at % 2) socket.write('GET /health/live HTTP/1.1\r\nhost: x\r\n\r\n'); // and then nothing
    return socket;
  });
  try {
    await Promise.all(idle.map((socket) => new Promise((done) => socket.once('connect', done).once('close', done))));
    for (let each = 0; each < 3; each += 1) {
      assert.equal((await post(guarded.url, call('add', { a: 1, b: 2 }), { token: 'right' })).status, 200);
    }
  } finally {
    for (const socket of idle) socket.destroy();
    await guarded.close();
  }
});

test('a connection without the token ends after a while, and one with it stays', async () => {
  const guarded = await serve(kit, { token: 'right', patience: 0.2 });
  const { port } = new URL(guarded.url);
  const [silent, hall] = [dial(Number(port), '127.0.0.1'), dial(Number(port), '127.0.0.1')];
  try {
    const body = JSON.stringify(call('add', { a: 1, b: 2 }));
    const head = 'POST /hub HTTP/1.1\r\nhost: x\r\nauthorization: Bearer right\r\ncontent-type: application/json\r\n';
    hall.write(`${head}content-length: ${body.length}\r\n\r\n${body}`);
    let heard = '';
    hall.on('data', (chunk) => {
      heard += String(chunk);
    });
    await new Promise((done) =>
      silent
        .on('error', () => {})
        .once('close', done)
        .resume(),
    );
    await new Promise((done) => setTimeout(done, 300));
    assert.match(heard, /^HTTP\/1\.1 200/);
    assert.equal(hall.readyState, 'open');
  } finally {
    hall.destroy();
    await guarded.close();
  }
});

test('without a token it listens on loopback only', async () => {
  for (const host of ['0.0.0.0', '::', '192.0.2.1', 'example.com', '']) {
    await assert.rejects(serve(kit, { host }), { name: 'TypeError', message: /token/ });
    await assert.rejects(serve(kit, { host, token: '' }), { name: 'TypeError', message: /token/ });
  }
  const open = await serve(kit, { host: '127.0.0.1' });
  await open.close();
  const guarded = await serve(kit, { host: '0.0.0.0', token: 'right' });
  await guarded.close();
});

test('a body that comes too slowly is cut off', async () => {
  const impatient = await serve(kit, { patience: 0.05 });
  try {
    const { port } = new URL(impatient.url);
    const socket = dial(Number(port), '127.0.0.1');
    socket.write('POST /hub HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{');
    let heard = '';
    for await (const chunk of socket) heard += String(chunk);
    assert.match(heard, /^HTTP\/1\.1 408/);
  } finally {
    await impatient.close();
  }
});

test('health is told to anybody', async () => {
  const body = { status: 'healthy', components: { tools: { Kit: 'healthy' } } };
  const heard = await get(`${url}/health`);
  assert.deepEqual([heard.status, heard.messages], [200, [body]]);
  assert.deepEqual((await get(`${url}/health/live`)).messages, [{ status: 'alive' }]);
  const asked = await post(url, { type: 'request', id: 'h1', method: 'health_check', params: {} });
  assert.deepEqual(asked.messages, [{ type: 'response', id: 'h1', result: body, error: null }]);
});

test('a full server begins nothing', async () => {
  const small = await serve(kit, { calls: 1 });
  try {
    const running = exchange(small.url, call('wait'));
    await seen.started.opened;
    const heard = await post(small.url, { ...call('add', { a: 1, b: 2 }), id: '18' });
    const refused = ended(heard.messages[0]) as wire.Failure;
    assert.deepEqual([heard.status, refused.code, refused.details.started], [503, 'UNAVAILABLE', false]);
    running.hangUp();
    await seen.aborted.opened;
  } finally {
    await small.close();
  }
});

test('a server that closes lets calls end, and begins none', async () => {
  const closing = await serve(kit);
  const running = exchange(closing.url, call('asks', {}, ASKS));
  await running.next();
  const closed = closing.close();
  const refused = await post(closing.url, { ...call('add', { a: 1, b: 2 }), id: '18' });
  assert.equal((ended(refused.messages[0]) as wire.Failure).details.started, false);
  const answers = { form_1: { kind: 'filled', action: 'accept', content: { name: 'Ada' } } };
  await post(closing.url, { type: 'tool_answer', id: '17', number: 1, answers });
  assert.equal(ended((await running.whole).messages.at(-1)).kind, 'end');
  await closed;
  await assert.rejects(post(closing.url, call('add')), { code: 'ECONNREFUSED' });
});
