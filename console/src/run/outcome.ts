/** What came of a call, whatever dialect it was made in: value, content, problems, and what a person must do. */

import type { AuditRecord, Problem } from '../api/types';
import { type Exact, isObject, tryJson } from '../json/exact';
import { base64Of, isText } from './media';

/** One piece of content of a result. What is in it was written by a tool: it is text, never markup. */
export type Block =
  | { type: 'text'; text: string }
  | { type: 'image' | 'audio'; data: string; mimeType: string }
  | { type: 'link'; uri: string; name: string; description: string | null }
  | { type: 'file'; uri: string; mimeType: string | null; text: string | null; data: string | null }
  | { type: 'message'; role: string; block: Block }
  | { type: 'other'; value: Exact };

export interface Outcome {
  kind: 'ok' | 'tool_error' | 'refused' | 'failed' | 'cancelled';
  /** The HTTP status; 0 without an answer. */
  status: number;
  code: string | null;
  message: string | null;
  problems: Problem[];
  /** The value; undefined where the tool returned content, or nothing. */
  value: Exact | undefined;
  blocks: Block[];
  /** The page where a person decides or links an account. */
  url: string | null;
  bytes: number;
  milliseconds: number;
}

/** A message that went over the wire, for those who want to see each. */
export interface WireMessage {
  at: Date;
  sent: boolean;
  kind: 'request' | 'progress' | 'log' | 'question' | 'result' | 'error' | 'unknown';
  json: string;
}

/** How far a call is. */
export interface Progress {
  done: number;
  total: number | null;
  message: string | null;
}

const REFUSED = [400, 401, 403, 404, 405, 410, 413, 415, 422, 429];

/** The outcome of a REST answer. */
export function restOutcome(status: number, text: string, milliseconds: number): Outcome {
  const value = tryJson(text);
  const base = { ...empty(status, milliseconds), bytes: new TextEncoder().encode(text).length };
  if (status < 300) return { ...base, kind: 'ok', value: value === undefined ? text : value, blocks: [] };
  const error = isObject(value) && isObject(value.error) ? value.error : {};
  const details = isObject(error.details) ? error.details : {};
  return {
    ...base,
    kind: status === 409 ? 'tool_error' : REFUSED.includes(status) ? 'refused' : 'failed',
    code: textOf(error.code) ?? `http_${status}`,
    message: textOf(error.message) ?? text.slice(0, 500),
    problems: problemsOf(details.problems),
    url: textOf(details.url) ?? null,
  };
}

/** What REST says of a resource besides its bytes. */
export interface RestContent {
  uri: string;
  /** The media type that was sent. */
  type: string;
  /** Whether the body is a list of several contents. */
  isList: boolean;
}

/** The outcome of a resource that was read over REST, where the body is the content itself. */
export function restReadOutcome(
  { uri, type, isList }: RestContent,
  body: Uint8Array<ArrayBuffer>,
  milliseconds: number,
): Outcome {
  const base = { ...empty(200, milliseconds), kind: 'ok', bytes: body.length } as const;
  const text = isList || isText(type) ? new TextDecoder().decode(body) : null;
  if (isList && text !== null) return { ...base, blocks: blocksOf(tryJson(text) ?? null) };
  const data = text === null ? base64Of(body) : null;
  return { ...base, blocks: [{ type: 'file', uri, mimeType: type.split(';')[0] ?? type, text, data }] };
}

/** The outcome of a prompt that was got over REST. */
export function restPromptOutcome(text: string, milliseconds: number): Outcome {
  return { ...restOutcome(200, text, milliseconds), value: undefined, blocks: blocksOf(tryJson(text) ?? null) };
}

/** The outcome of a result or error of MCP. */
export function mcpOutcome(status: number, message: Exact, size: number, milliseconds: number): Outcome {
  const base = { ...empty(status, milliseconds), bytes: size };
  if (!isObject(message)) return { ...base, kind: 'failed', code: `http_${status}` };
  if (isObject(message.error)) return { ...base, ...protocolError(message.error) };
  const result = isObject(message.result) ? message.result : {};
  const blocks = blocksOf(result);
  const meta = isObject(result._meta) ? result._meta : {};
  if (result.isError !== true) return { ...base, kind: 'ok', value: result.structuredContent, blocks };
  const { refused, problems, url } = reasonsOf(meta);
  return {
    ...base,
    kind: refused !== null || problems.length > 0 ? 'refused' : 'tool_error',
    code: refused,
    message: blocks.map((block) => (block.type === 'text' ? block.text : '')).join('\n') || null,
    problems,
    blocks: blocks.filter((block) => block.type !== 'text'),
    url,
  };
}

/** The outcome of a call that got no answer, or that the person cancelled. */
export function withoutAnswer(kind: 'cancelled' | 'failed', message: string | null, milliseconds: number): Outcome {
  return { ...empty(0, milliseconds), kind, message, code: kind === 'failed' ? 'unreachable' : null };
}

function empty(status: number, milliseconds: number): Outcome {
  return {
    kind: 'failed',
    status,
    code: null,
    message: null,
    problems: [],
    value: undefined,
    blocks: [],
    url: null,
    bytes: 0,
    milliseconds,
  };
}

// Reads and prompts have no results with an error: what such a result says is in the data of theirs.
function protocolError(error: { [key: string]: Exact }): Partial<Outcome> {
  const code = typeof error.code === 'number' ? error.code : 0;
  const { refused, problems, url } = reasonsOf(isObject(error.data) ? error.data : {});
  return {
    kind: code === -32603 ? 'failed' : 'refused',
    code: refused ?? String(code),
    message: textOf(error.message) ?? null,
    problems,
    url,
  };
}

function reasonsOf(meta: { [key: string]: Exact }): {
  refused: string | null;
  problems: Problem[];
  url: string | null;
} {
  const verification = meta['dev.toolhall/verification'];
  return {
    refused: textOf(meta['dev.toolhall/refused']) ?? null,
    problems: problemsOf(meta['dev.toolhall/problems']),
    url: (isObject(verification) && textOf(verification.url)) || null,
  };
}

/** Problems as the API says them (`message`) and as the dialects do (`reason`). */
export function problemsOf(value: Exact | undefined): Problem[] {
  if (!Array.isArray(value)) return [];
  return value.filter(isObject).map((each) => ({
    path: textOf(each.path) ?? '',
    message: textOf(each.message) ?? textOf(each.reason) ?? textOf(each.fix) ?? '',
  }));
}

/** The content of a tool's result, the contents of a resource, or the messages of a prompt. */
function blocksOf(result: Exact): Block[] {
  const { content, contents, messages } = isObject(result) ? result : {};
  if (Array.isArray(messages)) return messages.map(messageOf);
  if (Array.isArray(contents)) return contents.map((resource) => blockOf({ type: 'resource', resource }));
  return Array.isArray(content) ? content.map(blockOf) : [];
}

function messageOf(message: Exact): Block {
  if (!isObject(message) || message.content === undefined) return { type: 'other', value: message };
  return { type: 'message', role: textOf(message.role) ?? '', block: blockOf(message.content) };
}

function blockOf(block: Exact): Block {
  if (!isObject(block)) return { type: 'other', value: block };
  const [data, mimeType] = [textOf(block.data), textOf(block.mimeType)];
  if (block.type === 'text') return { type: 'text', text: textOf(block.text) ?? '' };
  if ((block.type === 'image' || block.type === 'audio') && data !== undefined && mimeType !== undefined) {
    return { type: block.type, data, mimeType };
  }
  if (block.type === 'resource_link') {
    const uri = textOf(block.uri) ?? '';
    return {
      type: 'link',
      uri,
      name: textOf(block.title) ?? textOf(block.name) ?? uri,
      description: textOf(block.description) ?? null,
    };
  }
  if (block.type === 'resource' && isObject(block.resource)) {
    const { uri, mimeType: type, text, blob } = block.resource;
    return {
      type: 'file',
      uri: textOf(uri) ?? '',
      mimeType: textOf(type) ?? null,
      text: textOf(text) ?? null,
      data: textOf(blob) ?? null,
    };
  }
  return { type: 'other', value: block };
}

function textOf(value: Exact | undefined): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

// --- the record of a call ---------------------------------------------------------------------------------------------

/** What is known of the call of a run, whose answer does not name it. */
export interface OwnCall {
  /** The calls that were there before. */
  earlier: readonly AuditRecord[];
  /** The size of the last request. */
  bytesIn: number;
  /** Milliseconds from the first request to the last answer. */
  within: number;
}

/** The one new record that can be of this call; null if none can, or several can. */
export function recordOf({ earlier, bytesIn, within }: OwnCall, records: readonly AuditRecord[]): AuditRecord | null {
  const known = new Set(earlier.map(({ call }) => call));
  const found = records.filter(
    (each) =>
      each.phase !== 'intent' &&
      !known.has(each.call) &&
      each.bytesIn === bytesIn &&
      (each.durationUs ?? 0) <= within * 1000,
  );
  return found.length === 1 ? (found[0] ?? null) : null;
}
