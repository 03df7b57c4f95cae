/** Requests to the hall: relative addresses, the token of changes, errors with code and message, the end of a session. */

import { signal } from '@preact/signals';
import type { ApiError, Json, Problem } from './types';

/** The hall, seen from `console/`. */
export const BASE = '../';
/** The header of every change that a cookie authenticates; its value is `Me.token`. */
const TOKEN_HEADER = 'X-Toolhall-Token';
/** A token for the dialects is renewed so long before it ends. */
const MARGIN_MS = 30_000;

/** A request that the hall refused or could not answer. */
export class HallError extends Error {
  constructor(
    /** The HTTP status; 0 if the hall did not answer at all. */
    readonly status: number,
    readonly code: string,
    message: string,
    readonly problems: Problem[] = [],
    readonly details: { readonly [name: string]: unknown } = {},
    /** What was asked, such as `GET api/tools`. */
    readonly asked = '',
  ) {
    super(message);
    this.name = 'HallError';
  }
}

/** True once the hall said that nobody is signed in; the dialog over the page asks to sign in again. */
export const sessionEnded = signal(false);
/** The header's value for changes, from `GET api/me`. */
export const changeToken = signal<string | null>(null);

export type Parameters = Record<string, string | number | boolean | null | undefined>;

export interface Options {
  signal?: AbortSignal;
  query?: Parameters;
}

export const hall = {
  get: <T>(path: string, options: Options = {}) => send<T>('GET', path, undefined, options),
  post: <T>(path: string, body: unknown = {}, options: Options = {}) => send<T>('POST', path, body, options),
  put: <T>(path: string, body: unknown, options: Options = {}) => send<T>('PUT', path, body, options),
  patch: <T>(path: string, body: unknown, options: Options = {}) => send<T>('PATCH', path, body, options),
  delete: <T>(path: string, options: Options = {}) => send<T>('DELETE', path, undefined, options),
};

/** The address of a route with its query; empty values are left out. `path` starts with `api/`, `tools/` or alike. */
export function address(path: string, query: Parameters = {}): string {
  const words = Object.entries(query).filter((each) => each[1] != null && each[1] !== '');
  const search = new URLSearchParams(words.map(([name, value]) => [name, String(value)])).toString();
  return `${BASE}${path}${search ? `?${search}` : ''}`;
}

/** A path of segments that may hold any characters: `segments('api/tools', id, 'diff')`. */
export function segments(first: string, ...rest: string[]): string {
  return [first, ...rest.map(encodeURIComponent)].join('/');
}

async function send<T>(method: string, path: string, body: unknown, options: Options): Promise<T> {
  const headers: Record<string, string> = { Accept: 'application/json' };
  if (method !== 'GET' && changeToken.value) headers[TOKEN_HEADER] = changeToken.value;
  const response = await request(method, path, body, headers, options);
  if (response.status === 401) sessionEnded.value = true;
  return (await read(response, `${method} ${path}`)) as T;
}

// --- the dialects: what agents call -----------------------------------------------------------------------------------

let dialectToken: { token: string; expiresAt: string } | null = null;
let needsToken = false;

/** Where a hall authenticates by cookie, dialects take no cookie but a token that is asked for. */
export function requireDialectToken(needed: boolean): void {
  needsToken = needed;
  dialectToken = null;
}

/** The dialects of calls that were made in the console, as a filter of records. */
export const BY_CONSOLE = '*/console';

/** By which records know a call of the console over REST, if it names the version too; over MCP, `clientInfo` does it. */
const FROM_CONSOLE = { 'Toolhall-Client': 'console' };

/** Dialects take no cookie, and refuse a request that has one beside its token. */
export const OF_DIALECTS = { credentials: 'omit', cache: 'no-store' } as const;

/** The headers of a request to a dialect's endpoint (`tools/...`, `mcp`): no token on the own machine. */
export async function dialectHeaders(): Promise<Record<string, string>> {
  if (!needsToken) return FROM_CONSOLE;
  if (!dialectToken || Date.parse(dialectToken.expiresAt) - Date.now() < MARGIN_MS) {
    dialectToken = await hall.post<{ token: string; expiresAt: string }>('api/me/token');
  }
  return { ...FROM_CONSOLE, Authorization: `Bearer ${dialectToken.token}` };
}

/** A request to a dialect's endpoint as its answer, whatever its status; only no answer at all is an error. */
export async function dialectRequest(path: string, body?: unknown, options: Options = {}): Promise<Response> {
  const method = body === undefined ? 'GET' : 'POST';
  const headers = { Accept: 'application/json', ...(await dialectHeaders()) };
  return request(method, path, body, headers, options, OF_DIALECTS);
}

/** Call a tool over REST, as an agent would: its value. */
export async function callTool(toolkit: string, tool: string, args: Json, options: Options = {}): Promise<Json> {
  const path = segments('tools', toolkit, tool);
  return (await read(await dialectRequest(path, args, options), `POST ${path}`)) as Json;
}

// --- one request ------------------------------------------------------------------------------------------------------

async function request(
  method: string,
  path: string,
  body: unknown,
  headers: Record<string, string>,
  { signal: abort, query }: Options,
  how: RequestInit = { credentials: 'same-origin', cache: 'no-store' },
): Promise<Response> {
  const init: RequestInit = { method, headers, ...how };
  if (body !== undefined) {
    init.headers = { ...headers, 'Content-Type': 'application/json' };
    init.body = JSON.stringify(body);
  }
  if (abort) init.signal = abort;
  try {
    return await fetch(address(path, query), init);
  } catch (error) {
    if (abort?.aborted) throw error;
    throw new HallError(0, 'unreachable', '', [], {}, `${method} ${path}`);
  }
}

async function read(response: Response, asked: string): Promise<unknown> {
  const text = await response.text();
  const value = parse(text);
  if (response.ok) return value ?? (text || null);
  const said = isApiError(value) ? value.error : null;
  const details = (said?.details ?? {}) as { problems?: Problem[]; [name: string]: unknown };
  const message = said?.message ?? (text.slice(0, 300) || response.statusText);
  throw new HallError(
    response.status,
    said?.code ?? `http_${response.status}`,
    message,
    details.problems,
    details,
    asked,
  );
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isApiError(value: unknown): value is ApiError {
  if (typeof value !== 'object' || value === null || !('error' in value)) return false;
  const { error } = value;
  return typeof error === 'object' && error !== null && 'code' in error && 'message' in error;
}
