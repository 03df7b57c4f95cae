/** What a run reads from the wire. */

import { expect, it } from 'vitest';
import type { AuditRecord } from '../../src/api/types';
import { headerValue, parameterHeaders } from '../../src/run/mcp';
import { bytesOf, dataUri, mediaBlob, webAddress } from '../../src/run/media';
import { mcpOutcome, recordOf, restOutcome, restPromptOutcome, restReadOutcome } from '../../src/run/outcome';
import { eventData } from '../../src/run/stream';

async function read(pieces: string[]): Promise<string[]> {
  const bytes = pieces.map((piece) => new TextEncoder().encode(piece));
  const stream = new ReadableStream<Uint8Array>({
    pull(controller) {
      const next = bytes.shift();
      if (next) controller.enqueue(next);
      else controller.close();
    },
  });
  const said: string[] = [];
  for await (const data of eventData(stream)) said.push(data);
  return said;
}

it('events come whole, wherever the stream is cut', async () => {
  const text = ': hello\r\n\r\nid: 1\r\ndata: {"a":\r\ndata: "é"}\r\n\r\n\r\ndata:x\n\ndata\n\nevent: y\n\n';
  for (let at = 0; at <= text.length; at++) {
    expect(await read([text.slice(0, at), text.slice(at)])).toEqual(['{"a":\n"é"}', 'x', '']);
  }
});

it('REST answers', () => {
  expect(restOutcome(200, '12345678901234567890', 1)).toMatchObject({
    kind: 'ok',
    value: { text: '12345678901234567890' },
  });
  const problems = [{ path: '/a', reason: 'missing' }];
  const bad = JSON.stringify({ error: { code: 'bad_arguments', message: 'no', details: { problems } } });
  expect(restOutcome(422, bad, 1)).toMatchObject({
    kind: 'refused',
    code: 'bad_arguments',
    problems: [{ path: '/a', message: 'missing' }],
  });
  expect(restOutcome(409, '{"error":{"code":"tool_failed","message":"m"}}', 1).kind).toBe('tool_error');
  expect(restOutcome(502, '<html>', 1)).toMatchObject({ kind: 'failed', code: 'http_502', message: '<html>' });
});

it('MCP answers', () => {
  const text = { type: 'text', text: 'no' };
  expect(mcpOutcome(200, { result: { content: [text], structuredContent: 1 } }, 9, 1)).toMatchObject({
    kind: 'ok',
    value: 1,
    blocks: [text],
  });
  expect(mcpOutcome(200, { result: { content: [text], isError: true } }, 9, 1)).toMatchObject({
    kind: 'tool_error',
    message: 'no',
  });
  const meta = { 'dev.toolhall/refused': 'Denied' };
  expect(mcpOutcome(200, { result: { content: [text], isError: true, _meta: meta } }, 9, 1)).toMatchObject({
    kind: 'refused',
    code: 'Denied',
  });
  expect(mcpOutcome(200, { error: { code: -32602, message: 'm' } }, 9, 1)).toMatchObject({
    kind: 'refused',
    code: '-32602',
  });
  expect(mcpOutcome(502, null, 9, 1)).toMatchObject({ kind: 'failed', code: 'http_502' });
  expect(
    mcpOutcome(200, { result: { content: [7, { type: 'image', data: 1 }, { type: 'new' }] } }, 9, 1).blocks.map(
      ({ type }) => type,
    ),
  ).toEqual(['other', 'other', 'other']);
});

it('headers hold visible ASCII, or base64', () => {
  expect(['a b', 'é', ' a', '=?base64?x?=', ''].map(headerValue)).toEqual([
    'a b',
    '=?base64?w6k=?=',
    '=?base64?IGE=?=',
    '=?base64?PT9iYXNlNjQ/eD89?=',
    '=?base64??=',
  ]);
  const schema = {
    properties: {
      a: { 'x-mcp-header': 'A' },
      b: { properties: { c: { 'x-mcp-header': 'C' } } },
      d: { 'x-mcp-header': 'D' },
    },
  };
  expect(parameterHeaders(schema, { a: 'x', b: { c: true }, d: null })).toEqual({
    'Mcp-Param-A': 'x',
    'Mcp-Param-C': 'true',
  });
});

it('only known media and web addresses are shown', () => {
  expect(mediaBlob('image', 'AAAA', 'image/PNG; x=y')?.type).toBe('image/png');
  expect(mediaBlob('image', 'AAAA', 'image/svg+xml')).toBeNull();
  expect(mediaBlob('audio', 'AAAA', 'text/html')).toBeNull();
  expect(mediaBlob('image', '%', 'image/png')).toBeNull();
  expect(bytesOf('AAE=')).toEqual(new Uint8Array([0, 1]));
  expect(dataUri('data:image/png;base64,AAAA')).toEqual({ kind: 'image', data: 'AAAA', mimeType: 'image/png' });
  expect(dataUri('data:text/html;base64,AAAA')).toBeNull();
  expect(
    ['https://a/b', 'javascript:alert(1)', 'JAVASCRIPT:x', 'data:text/html,x', 'file:///x', ' https://a/', 'x'].map(
      webAddress,
    ),
  ).toEqual(['https://a/b', null, null, null, null, 'https://a/', null]);
});

it('the record of a run is the one that can be no other', () => {
  const record = (call: string, more = {}) =>
    ({ call, bytesIn: 20, durationUs: 900, dialect: 'openapi/console', ...more }) as AuditRecord;
  const own = { earlier: [record('a')], bytesIn: 20, within: 1 };
  expect(recordOf(own, [record('a')])).toBeNull();
  expect(recordOf(own, [record('b'), record('a')])?.call).toBe('b');
  expect(recordOf(own, [record('c'), record('b'), record('a')])).toBeNull();
  expect(recordOf(own, [record('c', { bytesIn: 21 }), record('b'), record('a')])?.call).toBe('b');
  expect(recordOf(own, [record('c', { durationUs: 1_001 }), record('b')])?.call).toBe('b');
  expect(recordOf(own, [record('b', { phase: 'intent' })])).toBeNull();
});

it('what was read is text or bytes, whatever dialect it came in', () => {
  const contents = [
    { uri: 'a:1', mimeType: 'text/html', text: '<b>' },
    { uri: 'a:2', blob: 'AAA=' },
  ];
  expect(mcpOutcome(200, { result: { contents } }, 9, 1).blocks).toEqual([
    { type: 'file', uri: 'a:1', mimeType: 'text/html', text: '<b>', data: null },
    { type: 'file', uri: 'a:2', mimeType: null, text: null, data: 'AAA=' },
  ]);
  const bytes = new Uint8Array([0, 0]);
  const content = { uri: 'a:2', type: 'image/png; a=b', isList: false };
  expect(restReadOutcome(content, bytes, 1).blocks).toEqual([
    { type: 'file', uri: 'a:2', mimeType: 'image/png', text: null, data: 'AAA=' },
  ]);
  const list = new TextEncoder().encode(JSON.stringify({ contents }));
  expect(restReadOutcome({ uri: 'a:', type: 'application/json', isList: true }, list, 1).blocks).toHaveLength(2);
});

it('messages have roles, and what is no message is shown as it came', () => {
  const messages = [{ role: 'user', content: { type: 'text', text: 'hi' } }, 7];
  const shown = [
    { type: 'message', role: 'user', block: { type: 'text', text: 'hi' } },
    { type: 'other', value: 7 },
  ];
  expect(mcpOutcome(200, { result: { messages } }, 9, 1).blocks).toEqual(shown);
  expect(restPromptOutcome(JSON.stringify({ messages }), 1).blocks).toEqual(shown);
});

it('an error of a read says in its data what a result of a tool says in its meta', () => {
  const data = { 'dev.toolhall/refused': 'Denied', 'dev.toolhall/problems': [{ path: '/a', reason: 'r' }] };
  expect(mcpOutcome(200, { error: { code: -32010, message: 'm', data } }, 9, 1)).toMatchObject({
    kind: 'refused',
    code: 'Denied',
    problems: [{ path: '/a', message: 'r' }],
  });
});
