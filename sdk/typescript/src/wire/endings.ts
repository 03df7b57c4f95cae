/** `tool_response`, the one last word of a call; and `response`, what a tool server answers for itself. */

import type { Json, JsonObject } from '../json.js';
import { type Block, readBlocks } from './blocks.js';
import { anyTextIn, type Id, idIn, Malformed, oneOf, optionalObject, optionalText, textsIn } from './fields.js';

/** What a tool returned; without `value` it is content alone, or nothing. */
export interface End {
  kind: 'end';
  id: Id;
  value?: Json;
  nothing?: true;
  content?: Block[];
  meta?: JsonObject;
  is_error?: true;
  /** Who says each block of `content`, where these are a prompt's messages. */
  roles?: Role[];
}

export type Role = 'user' | 'assistant';
const ROLES: readonly Role[] = ['user', 'assistant'];

/** How a call failed; a code of the author's own counts as TOOL_ERROR. */
export interface Failure {
  kind: 'failure';
  id: Id;
  code: string;
  counts_as: string;
  message: string;
  details: JsonObject;
}

export interface Response {
  kind: 'response';
  id: Id;
  result: JsonObject | null;
  error: { code: string; message: string; details: JsonObject } | null;
}

/** The codes that a hall knows, each with the HTTP status of a reply that is it alone. */
export const STATUS: ReadonlyMap<string, number> = new Map([
  ['TOOL_ERROR', 400],
  ['INVALID_REQUEST', 400],
  ['INVALID_PARAMS', 400],
  ['METHOD_NOT_FOUND', 400],
  ['TOOL_NOT_FOUND', 400],
  ['UNSUPPORTED', 400],
  ['UNAUTHENTICATED', 401],
  ['FORBIDDEN', 403],
  ['RATE_LIMITED', 429],
  ['TIMEOUT', 504],
  ['CANCELLED', 400],
  ['INTERNAL_ERROR', 500],
  ['BAD_OUTPUT', 500],
  ['UNAVAILABLE', 503],
]);

// Who may call is for the hall to say: from a tool server these are words of the tool about something else.
const NOT_ITS_OWN = new Set(['UNAUTHENTICATED', 'FORBIDDEN']);

/** Throws a TypeError for a value that JSON cannot say. */
export function writeEnd(end: End): string {
  const { id, content, meta, roles } = end;
  const some = { ...(content && { content }), ...(meta && { meta }), ...(end.is_error && { is_error: true }) };
  const more = { ...some, ...(roles && { roles }) };
  const rest = JSON.stringify(more).slice(1, -1);
  const head = `{"type":"tool_response","id":${JSON.stringify(id)},"result":${writeValue(end)}`;
  return rest === '' ? `${head}}` : `${head},${rest}}`;
}

export function writeFailure(failure: Failure): string {
  const { id, code, message, details } = failure;
  const error = { type: 'tool_error', code, message, details };
  return JSON.stringify({ type: 'tool_response', id, result: null, error });
}

export function readEnding(message: JsonObject): End | Failure {
  const id = idIn(message);
  if (message.type === 'tool_error') return readFailure(id, message);
  if (message.type !== 'tool_response') throw new Malformed('type must be tool_response');
  const error = optionalObject(message, 'error');
  if (error !== null) return readFailure(id, error);
  const [content, meta] = [message.content ?? null, optionalObject(message, 'meta')];
  return {
    kind: 'end',
    id,
    ...readValue(message),
    ...(content !== null && { content: readBlocks(content) }),
    ...(meta !== null && { meta }),
    ...(message.is_error === true && { is_error: true }),
    ...(message.roles !== undefined && { roles: textsIn(message, 'roles').map(readRole) }),
  };
}

export function writeResponse(response: Response): string {
  const { id, result, error } = response;
  return JSON.stringify({ type: 'response', id, result, error });
}

export function readResponse(message: JsonObject): Response {
  if (message.type !== 'response') throw new Malformed('type must be response');
  const error = optionalObject(message, 'error');
  const said = error && {
    code: anyTextIn(error, 'code'),
    message: anyTextIn(error, 'message'),
    details: optionalObject(error, 'details') ?? {},
  };
  return { kind: 'response', id: idIn(message), result: optionalObject(message, 'result'), error: said };
}

/** An object as it is; whatever else is wrapped, because results are objects. What it is, is seen once it is written. */
function writeValue(end: End): string {
  if (end.nothing) return '{},"error":null,"nothing":true';
  if (end.value === undefined) return 'null,"error":null';
  const written = JSON.stringify(end.value) as string | undefined;
  if (written === undefined) throw new TypeError('JSON cannot say this value');
  return written.startsWith('{') ? `${written},"error":null` : `{"result":${written}},"error":null,"wrapped":true`;
}

function readValue(message: JsonObject): { value?: Json; nothing?: true } {
  if (message.nothing === true) return { nothing: true };
  const result = optionalObject(message, 'result');
  if (message.wrapped !== true) return result === null ? {} : { value: result };
  if (result?.result === undefined) throw new Malformed('result says that it is wrapped, and it is not');
  return { value: result.result };
}

function readRole(role: string): Role {
  return oneOf({ role }, 'role', ROLES);
}

function readFailure(id: Id, error: JsonObject): Failure {
  const code = optionalText(error, 'code') ?? 'TOOL_ERROR';
  const counts_as = STATUS.has(code) && !NOT_ITS_OWN.has(code) ? code : 'TOOL_ERROR';
  const [message, details] = [anyTextIn(error, 'message'), optionalObject(error, 'details') ?? {}];
  return { kind: 'failure', id, code, counts_as, message, details };
}
