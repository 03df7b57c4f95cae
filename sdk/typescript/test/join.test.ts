/** Joining a hall, over HTTP and over a WebSocket. */

import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { HallError, type Joined, type JoinOptions, type JsonObject, join, tool, toolkit, wire } from '@toolhall/sdk';
import { z } from 'zod';
import { Hall, KEY, type Says, stranger } from './hall.js';
import { Gate, kit, seen } from './kit.js';
import { call, exchange, post } from './talking.js';

const ASKS = { context: { can: ['elicitation'] } };
const FILLED = { form_1: { kind: 'filled', action: 'accept', content: { name: 'Ada' } } };
let hall: Hall;
let joined: Joined | undefined;
let log: string[] = [];

beforeEach(async () => {
  hall = await new Hall().open();
  log = [];
  Object.assign(seen, { started: new Gate(), aborted: new Gate(), ended: '' });
});
afterEach(async () => {
  await joined?.close();
  joined = undefined;
  await hall.close();
});

async function joins(options: Partial<JoinOptions> = {}): Promise<Joined> {
  const retry = { first: 0.01, most: 0.02 };
  const say = (line: string) => log.push(line);
  joined = await join(kit, { hall: hall.url, key: KEY, signals: false, retry, log: say, ...options });
  return joined;
}

const paramsOf = (method: string, index = 0) => hall.requests.filter((each) => each.method === method)[index]?.params;
const ended = (message: JsonObject | undefined) => wire.readEnding(message ?? {});

for (const socket of [false, true]) {
  describe(socket ? 'over a WebSocket' : 'over HTTP', () => {
    test('it declares what it has', async () => {
      const { lease, url, tools } = await joins({ socket, server: 'calendars' });
      const params = paramsOf('join') ?? {};
      assert.equal(lease, 'lease-1');
      assert.deepEqual(tools, { 'Kit.add@1.2.0': 'active' });
      assert.equal(params.server, 'calendars');
      assert.match(String(params.replica), /^[0-9a-f]{32}$/);
      assert.equal(params.url, url);
      assert.equal(url === undefined, socket);
      assert.equal(params.token === undefined, socket);
      const [declared] = params.tools as JsonObject[];
      const { name, version, description, tools: methods } = wire.readDeclaration(declared ?? {});
      assert.deepEqual([name, version, description], ['Kit', '1.2.0', 'What the tests call.']);
      assert.deepEqual(methods.map((each) => [each.name, each.level, each.output.kind]).slice(0, 2), [
        ['add', 3, 'schema'],
        ['create', 5, 'schema'],
      ]);
      const supplied = methods.find((each) => each.name === 'supplied');
      assert.deepEqual(supplied?.requirements, {
        authorization: [{ id: 'google', oauth2: { scopes: ['calendar.events', 'contacts'] } }],
        secrets: [{ id: 'API_KEY' }],
        user_id: true,
      });
    });

    test('it shows that it is there', async () => {
      await joins({ socket });
      await hall.until(() => hall.count('heartbeat') >= 3);
      assert.deepEqual(paramsOf('heartbeat', 2), { lease: 'lease-1', status: 'healthy' });
      assert.equal(hall.count('join'), 1);
    });

    test('a hall that is full for a while keeps its tool servers', async () => {
      const answers: Says[] = [() => ['RATE_LIMITED', 'full'], () => ['UNAVAILABLE', 'full']];
      hall.said.heartbeat = (params) => (answers.shift() ?? (() => ({ status: 'ok' })))(params);
      await joins({ socket });
      await hall.until(() => hall.count('heartbeat') >= 4);
      assert.deepEqual([hall.count('join'), joined?.lease, log], [1, 'lease-1', []]);
      assert.deepEqual(joined?.tools, { 'Kit.add@1.2.0': 'active' });
    });

    test('a full hall is told again that the server leaves', async () => {
      const left = hall.said.leave;
      const answers: (Says | undefined)[] = [() => ['RATE_LIMITED', 'full'], () => ['UNAVAILABLE', 'full'], left];
      hall.said.leave = (params) => (answers.shift() ?? (() => ({})))(params);
      hall.said.heartbeat = () => ['RATE_LIMITED', 'full'];
      await joins({ socket });
      await hall.until(() => hall.count('heartbeat') >= 2);
      await joined?.close();
      assert.deepEqual([hall.count('leave'), hall.count('join')], [3, 1]);
      assert.deepEqual(paramsOf('leave', 2), { lease: 'lease-1' });
    });

    test('a hall that refuses to let go is not asked twice', async () => {
      hall.said.leave = () => ['FORBIDDEN', 'stay'];
      await joins({ socket });
      await joined?.close();
      assert.equal(hall.count('leave'), 1);
    });

    test('the key is not sent where others can read it', { timeout: 5_000 }, async () => {
      await assert.rejects(joins({ socket, hall: 'http://hall.example:8000' }), /use https/);
    });

    test('a lease that the hall does not know is taken anew', async () => {
      hall.said.heartbeat = ({ lease }) => (lease === 'lease-1' ? ['LEASE_UNKNOWN', 'join again'] : { status: 'ok' });
      const { lease } = await joins({ socket });
      assert.equal(lease, 'lease-1');
      await hall.until(() =>
        hall.requests.some((each) => each.method === 'heartbeat' && each.params.lease === 'lease-2'),
      );
      assert.equal(joined?.lease, 'lease-2');
      assert.equal(paramsOf('join', 1)?.replica, paramsOf('join', 0)?.replica);
    });

    test('a hall that goes away and comes back is joined again', async () => {
      const [away, again] = [new Gate(), new Gate()];
      const say = (line: string) => {
        log.push(line);
        (log.length === 1 ? away : again).open();
      };
      await joins({ socket, log: say });
      const { port } = new URL(hall.url);
      await hall.close();
      await away.opened;
      const back = await new Hall().open(Number(port));
      await again.opened;
      assert.equal(back.requests[0]?.method, 'join');
      assert.equal(back.requests[0]?.params.replica, paramsOf('join')?.replica);
      hall = back;
      assert.match(log.join('\n'), /trying to join again\njoined the hall again$/);
      assert.doesNotMatch(log.join('\n'), new RegExp(KEY));
    });

    test('a hall that is not there yet is waited for', async () => {
      const { port } = new URL(hall.url);
      await hall.close();
      const joining = joins({ socket });
      hall = await new Hall().open(Number(port));
      assert.equal((await joining).lease, 'lease-1');
    });

    test('a refusal at first is final', async () => {
      hall.said.join = () => ['FORBIDDEN', 'this key may not serve Kit'];
      await assert.rejects(joins({ socket }), new HallError('FORBIDDEN', 'this key may not serve Kit'));
      assert.equal(hall.count('join'), 1);
    });

    test('a wrong key is a refusal', async () => {
      const message = /; put a key into TOOLHALL_KEY that 'toolhall key create NAME --scopes serve:Kit' made$/;
      await assert.rejects(joins({ socket, key: 'wrong' }), { name: 'HallError', code: 'UNAUTHENTICATED', message });
    });

    for (const status of [302, 401, 403, 404, 405, ...(socket ? [200, 400] : [])]) {
      test(`a server that is no hall is not tried again: status ${status}`, { timeout: 5_000 }, async () => {
        const strange = await stranger(status);
        try {
          const refused = joins({ socket, hall: strange.url });
          const message =
            status === 302 ? /another address/ : socket && [401, 403].includes(status) ? /key/ : /is it a hall\?/;
          await assert.rejects(refused, { name: 'HallError', message });
          assert.deepEqual([strange.heard(), log], [1, []]);
        } finally {
          strange.close();
        }
      });
    }

    test('what is no address of a hall is refused with one that is', { timeout: 5_000 }, async () => {
      for (const odd of ['127.0.0.1:8801', 'localhost:8801', '']) {
        await assert.rejects(joins({ socket, hall: odd }), /write it like 'http:\/\/127.0.0.1:8000'/);
      }
    });

    test('a refusal says what is wrong, in one line', async () => {
      const problems = [1, 2, 3, 4, 5, 6].map((each) => ({ path: `/${each}`, fix: 'write\u001b[2J\nanother' }));
      hall.said.join = () => ['INVALID_REQUEST', 'no', { problems }];
      const message = /^no; \/1: write \[2J another; .*\/5: [^\n]*another; and 1 more$/;
      await assert.rejects(joins({ socket }), { name: 'HallError', message });
    });

    test('what becomes of a tool later is told once', async () => {
      const states = ['quarantined', 'active', 'active', 'inactive'];
      const { join: take = () => ({}) } = hall.said;
      const tools = (state = 'inactive') => ({ tools: { 'Kit.add@1.2.0': state } });
      hall.said.join = async (params) => ({ ...((await take(params)) as JsonObject), ...tools(states.shift()) });
      hall.said.heartbeat = () => ({ status: 'ok', ...tools(states.shift()) });
      const { tools: first } = await joins({ socket });
      assert.deepEqual(first, { 'Kit.add@1.2.0': 'quarantined' });
      await hall.until(() => hall.count('heartbeat') >= 5);
      assert.deepEqual(log, ['Kit.add@1.2.0 is active in the hall now', 'Kit.add@1.2.0 is inactive in the hall now']);
      assert.deepEqual(joined?.tools, { 'Kit.add@1.2.0': 'inactive' });
    });

    test('a refusal later is told, and tried again', async () => {
      hall.said.heartbeat = () => ['LEASE_UNKNOWN', 'join again'];
      const { join: take = () => ({}) } = hall.said;
      const answers = [take, () => ['FORBIDDEN', 'not now'] as [string, string], take];
      hall.said.join = (params) => {
        if (hall.count('join') === 3) hall.said.heartbeat = () => ({ status: 'ok' });
        return (answers[hall.count('join') - 1] ?? take)(params);
      };
      await joins({ socket });
      await hall.until(() => hall.count('join') >= 3);
      await hall.until(() => paramsOf('heartbeat', 1)?.lease === 'lease-3');
      assert.deepEqual(log, ['not now; trying to join again', 'joined the hall again']);
    });

    test('it leaves: what runs is answered, what comes is not begun', async () => {
      const gate = new Gate();
      hall.said.leave = async () => {
        await gate.opened;
        return { status: 'left', running: 0 };
      };
      const { url = '', left } = await joins({ socket });
      const token = String(paramsOf('join')?.token);
      const running = socket ? null : exchange(url, call('asks', {}, ASKS), { token });
      if (socket) hall.send(call('asks', {}, ASKS));
      await (running === null ? hall.next() : running.next());
      const closed = joined?.close();
      await hall.until(() => hall.count('leave') === 1);
      const late = { ...call('add', { a: 1, b: 2 }), id: '18' };
      if (socket) hall.send(late);
      const refused = socket ? await hall.next() : (await post(url, late, { token })).messages[0];
      assert.equal((ended(refused) as wire.Failure).details.started, false);
      const answer = { type: 'tool_answer', id: '17', number: 1, answers: FILLED };
      if (socket) hall.send(answer);
      else await post(url, answer, { token });
      const last = running === null ? await hall.next() : (await running.whole).messages.at(-1);
      assert.deepEqual(ended(last), { kind: 'end', id: '17', value: 'Hello Ada' });
      gate.open();
      await closed;
      await left;
      assert.deepEqual(paramsOf('leave'), { lease: 'lease-1' });
    });
  });
}

describe('over HTTP', () => {
  test('only the hall that it joined may call', async () => {
    const { url = '' } = await joins();
    assert.equal((await post(url, call('add', { a: 1, b: 2 }))).status, 401);
    const token = String(paramsOf('join')?.token);
    assert.ok(token.length >= 32);
    const { messages } = await post(url, call('add', { a: 1, b: 2 }), { token });
    assert.deepEqual(ended(messages[0]), { kind: 'end', id: '17', value: 3 });
  });

  test('another address may be told', async () => {
    await joins({ advertise: 'https://tools.example' });
    assert.equal(paramsOf('join')?.url, 'https://tools.example');
    await assert.rejects(join(kit, { hall: hall.url, host: '0.0.0.0', signals: false }), /advertise/);
  });
});

describe('over a WebSocket', () => {
  test('it is called, tells and asks', async () => {
    await joins({ socket: true });
    hall.send(call('tells'));
    assert.deepEqual(await hall.next(), {
      type: 'tool_progress',
      id: '17',
      progress: 1,
      total: 3,
      message: 'one of three',
    });
    let last = await hall.next();
    while (last.type !== 'tool_response') last = await hall.next();
    assert.deepEqual(ended(last), { kind: 'end', id: '17', value: 'done' });
    hall.send(call('asks', {}, ASKS));
    assert.equal((await hall.next()).type, 'tool_question');
    hall.send({ type: 'tool_answer', id: '17', number: 1, answers: FILLED });
    // The answer itself is not answered: the next message is the tool's last.
    assert.deepEqual(ended(await hall.next()), { kind: 'end', id: '17', value: 'Hello Ada' });
  });

  test('many calls share it', async () => {
    await joins({ socket: true });
    hall.send({ ...call('wait'), id: 'slow' });
    await seen.started.opened;
    hall.send({ ...call('add', { a: 1, b: 2 }), id: 'quick' });
    assert.equal((await hall.next()).id, 'quick');
    hall.send({ type: 'request', id: 'c1', method: 'cancel', params: { id: 'slow' } });
    const both = [await hall.next(), await hall.next()];
    assert.deepEqual(both.map((each) => each.id).sort(), ['c1', 'slow']);
    assert.deepEqual(both.find((each) => each.id === 'c1')?.result, { status: 'cancelled' });
  });

  test('secrets, deadlines and health', async () => {
    await joins({ socket: true });
    const accounts = { google: { token: 't', scopes: [], expires_at: null } };
    hall.send(call('supplied', {}, { context: { secrets: { API_KEY: 's' }, accounts, user_id: 'alice' } }));
    assert.deepEqual(ended(await hall.next()), {
      kind: 'end',
      id: '17',
      value: { secret: 's', token: 't', scopes: [], user: 'alice' },
    });
    hall.send(call('wait', {}, { context: { timeout: 0.01 } }));
    assert.equal((ended(await hall.next()) as wire.Failure).code, 'TIMEOUT');
    hall.send({ type: 'request', id: 'h1', method: 'health_check', params: {} });
    assert.equal(wire.readResponse(await hall.next()).result?.status, 'healthy');
  });

  test('garbage is refused, and the connection stays', async () => {
    await joins({ socket: true });
    hall.send('{');
    assert.equal(wire.readResponse(await hall.next()).error?.code, 'INVALID_REQUEST');
    hall.send({ ...call('add'), params: 7 });
    assert.equal((ended(await hall.next()) as wire.Failure).code, 'INVALID_REQUEST');
    hall.send({ type: 'response', id: 'nobody asked', result: {}, error: null });
    hall.send(call('add', { a: 1, b: 2 }));
    assert.equal(ended(await hall.next()).kind, 'end');
  });

  test('a connection that breaks cancels its calls, and is opened again', async () => {
    await joins({ socket: true });
    hall.send(call('wait'));
    await seen.started.opened;
    hall.socket?.terminate();
    await seen.aborted.opened;
    assert.equal(seen.ended, 'aborted');
    await hall.until(() => hall.count('join') === 2);
    await hall.until(() => hall.requests.some((each) => each.params.lease === 'lease-2'));
    hall.send(call('add', { a: 1, b: 2 }));
    assert.equal(ended(await hall.next()).kind, 'end');
  });

  test('a full hall that cannot take the lease anew breaks no call', async () => {
    const { join: take = () => ({}) } = hall.said;
    hall.said.join = (params) => (hall.count('join') === 2 ? ['RATE_LIMITED', 'full'] : take(params));
    hall.said.heartbeat = ({ lease }) => (lease === 'lease-1' ? ['LEASE_UNKNOWN', 'join again'] : { status: 'ok' });
    await joins({ socket: true });
    hall.send(call('asks', {}, ASKS));
    assert.equal((await hall.next()).type, 'tool_question');
    await hall.until(() => hall.requests.some((each) => each.params.lease === 'lease-3'));
    hall.send({ type: 'tool_answer', id: '17', number: 1, answers: FILLED });
    assert.deepEqual(ended(await hall.next()), { kind: 'end', id: '17', value: 'Hello Ada' });
  });

  test('a hall that is overloaded is away, one that forbids is not', async () => {
    hall.refusing = 503;
    const joining = joins({ socket: true });
    await new Promise((resolve) => setImmediate(resolve));
    hall.refusing = 0;
    await joining;
    await joined?.close();
    hall.refusing = 403;
    await assert.rejects(joins({ socket: true }), { code: 'FORBIDDEN' });
  });
});

test('a tuple has no items that are a boolean, but where its author wrote them', async () => {
  const pair = z.tuple([z.number(), z.string()]);
  const closed = { type: 'array', prefixItems: [{}, {}], items: false, minItems: 2, maxItems: 2 };
  const input = z.object({ pair, pairs: z.array(pair).optional(), free: z.any().default(closed) });
  const shapes = toolkit({
    name: 'Shapes',
    version: '1.0.0',
    tools: [
      tool({ name: 'zod', input, output: pair, run: ({ pair }) => pair }),
      tool({ name: 'plain', input: { type: 'object', properties: { pair: closed } }, run: () => {} }),
    ],
  });
  joined = await join(shapes, { hall: hall.url, key: KEY, signals: false, log: () => {} });
  const [declared] = (paramsOf('join')?.tools ?? []) as JsonObject[];
  const { tools } = wire.readDeclaration(declared ?? {});
  const published = {
    type: 'array',
    prefixItems: [{ type: 'number' }, { type: 'string' }],
    minItems: 2,
    maxItems: 2,
  };
  const properties = tools[0]?.input.properties as JsonObject;
  assert.deepEqual(properties.pair, published);
  assert.deepEqual(properties.pairs, { type: 'array', items: published });
  assert.deepEqual(properties.free, { default: closed });
  assert.deepEqual(tools[0]?.output, { kind: 'schema', schema: published });
  assert.deepEqual(tools[1]?.input.properties, { pair: closed });
});
