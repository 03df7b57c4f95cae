/**
 * A client of MCP 2026-07-28: one call, read or prompt with its progress, its log and the questions of the tool.
 *
 * The revision keeps nothing between requests: a question ends the request with `input_required`, and the call is sent
 * again with the replies and the sealed state. Cancelling is closing the connection.
 */

import { OF_DIALECTS } from '../api/client';
import { type Exact, type ExactObject, isObject, readJson, writeJson } from '../json/exact';
import { mcpOutcome, type Outcome, type Progress, type WireMessage, withoutAnswer } from './outcome';
import { eventData } from './stream';
import type { McpRequest } from './target';

const REVISION = '2026-07-28';
const META = 'io.modelcontextprotocol/';
const MAX_ROUNDS = 8;

/** A question of the tool. */
export type Question = { key: string; message: string } & (
  | { mode: 'form'; schema: Exact }
  | { mode: 'url'; url: string }
  | { mode: 'sample'; messages: Exact[]; system: string | null }
);

/** What a person replied; null cancels the call. */
export type Replies = { [key: string]: Exact } | null;

export interface McpCall {
  url: string;
  asks: McpRequest;
  version: string;
  headers: Record<string, string>;
  signal: AbortSignal;
  onMessage: (message: WireMessage) => void;
  onProgress: (progress: Progress) => void;
  ask: (questions: Question[]) => Promise<Replies>;
}

/** Run one call to its end. */
export async function callOverMcp(call: McpCall): Promise<Outcome> {
  const begun = performance.now();
  const took = () => performance.now() - begun;
  let more: ExactObject = {};
  for (let round = 1; round <= MAX_ROUNDS; round++) {
    const { status, message, size } = await request(call, round, more);
    const result = isObject(message) && isObject(message.result) ? message.result : {};
    if (result.resultType !== 'input_required') return mcpOutcome(status, message, size, took());
    const replies = await call.ask(questionsOf(result.inputRequests ?? {}));
    if (replies === null) return withoutAnswer('cancelled', null, took());
    more = {
      inputResponses: replies,
      ...(result.requestState === undefined ? {} : { requestState: result.requestState }),
    };
  }
  return withoutAnswer('failed', null, took());
}

async function request(
  call: McpCall,
  id: number,
  more: ExactObject,
): Promise<{ status: number; message: Exact; size: number }> {
  const meta = {
    [`${META}protocolVersion`]: REVISION,
    [`${META}clientInfo`]: { name: 'toolhall-console', version: call.version },
    [`${META}clientCapabilities`]: { elicitation: { form: {}, url: {} }, sampling: {} },
    [`${META}logLevel`]: 'debug',
    progressToken: `try-${id}`,
  };
  const { method, name, params } = call.asks;
  const body = writeJson({ jsonrpc: '2.0', id, method, params: { ...params, ...more, _meta: meta } });
  call.onMessage({ at: new Date(), sent: true, kind: 'request', json: body });
  const response = await fetch(call.url, {
    method: 'POST',
    body,
    signal: call.signal,
    ...OF_DIALECTS,
    headers: {
      ...call.headers,
      'Content-Type': 'application/json',
      Accept: 'application/json, text/event-stream',
      'MCP-Protocol-Version': REVISION,
      'Mcp-Method': method,
      'Mcp-Name': headerValue(name),
    },
  });
  let last: Exact = null;
  let size = 0;
  for await (const text of messagesOf(response)) {
    size = new TextEncoder().encode(text).length;
    last = parsed(text);
    call.onMessage({ at: new Date(), sent: false, kind: kindOf(last), json: text });
    if (isObject(last) && last.method === 'notifications/progress') call.onProgress(progressOf(last.params ?? {}));
  }
  return { status: response.status, message: last, size };
}

async function* messagesOf(response: Response): AsyncGenerator<string> {
  const isStream = response.headers.get('content-type')?.startsWith('text/event-stream');
  if (isStream && response.body) yield* eventData(response.body);
  else yield await response.text();
}

function parsed(text: string): Exact {
  try {
    return readJson(text).value;
  } catch {
    return null;
  }
}

function kindOf(message: Exact): WireMessage['kind'] {
  if (!isObject(message)) return 'unknown';
  if (message.method === 'notifications/progress') return 'progress';
  if (message.method === 'notifications/message') return 'log';
  if (message.error !== undefined) return 'error';
  if (isObject(message.result)) return message.result.resultType === 'input_required' ? 'question' : 'result';
  return 'unknown';
}

function progressOf(params: Exact): Progress {
  const { progress, total, message } = isObject(params) ? params : {};
  return {
    done: typeof progress === 'number' ? progress : 0,
    total: typeof total === 'number' && total > 0 ? total : null,
    message: typeof message === 'string' ? message : null,
  };
}

function questionsOf(requests: Exact): Question[] {
  return Object.entries(isObject(requests) ? requests : {}).map(([key, each]): Question => {
    const params = isObject(each) && isObject(each.params) ? each.params : {};
    const message = typeof params.message === 'string' ? params.message : '';
    if (isObject(each) && each.method === 'sampling/createMessage') {
      const system = typeof params.systemPrompt === 'string' ? params.systemPrompt : null;
      return { key, message, mode: 'sample', messages: Array.isArray(params.messages) ? params.messages : [], system };
    }
    if (params.mode === 'url')
      return { key, message, mode: 'url', url: typeof params.url === 'string' ? params.url : '' };
    return { key, message, mode: 'form', schema: params.requestedSchema ?? {} };
  });
}

/** MCP: a header holds visible ASCII; all else is sent as base64 of UTF-8. */
export function headerValue(text: string): string {
  if (/^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(text) && !/^=\?base64\?.*\?=$/.test(text)) return text;
  return `=?base64?${btoa(Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join(''))}?=`;
}

/** Arguments that the schema wants repeated in headers (`x-mcp-header`). */
export function parameterHeaders(schema: Exact, value: Exact | undefined): Record<string, string> {
  const found: Record<string, string> = {};
  const properties = isObject(schema) && isObject(schema.properties) ? schema.properties : {};
  for (const [name, each] of Object.entries(properties)) {
    const part = isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined;
    if (part === undefined || part === null || !isObject(each)) continue;
    const header = each['x-mcp-header'];
    if (typeof header === 'string')
      found[`Mcp-Param-${header}`] = headerValue(typeof part === 'string' ? part : writeJson(part));
    Object.assign(found, parameterHeaders(each, part));
  }
  return found;
}
