/** A client of a hall, typed by the toolkits that it calls. */

import { resultOf } from './channel.js';
import { ToolError } from './errors.js';
import { HallError } from './hall-error.js';
import { HallHttp } from './hall-http.js';
import { hubUrl } from './hall-url.js';
import type { JsonObject } from './json.js';
import type { Tool, Toolkit } from './tool.js';
import { type Declaration, readDeclaration } from './wire/declarations.js';
import { readEnding } from './wire/endings.js';
import { writeRequest } from './wire/orders.js';

export interface ConnectOptions {
  /** The hall's address, such as `https://hall.example`; http only on this machine. */
  url: string;
  /** The environment's TOOLHALL_KEY unless said. */
  key?: string;
}

export interface CallOptions {
  version?: string;
  /** Seconds; for ever unless said. The hall has deadlines of its own. */
  timeout?: number;
  signal?: AbortSignal;
}

/** One toolkit, several, or their types: `connect<typeof calendar>`, `connect<[typeof calendar, typeof mail]>`. */
export type Toolkits = Toolkit | readonly Toolkit[];
type Each<T> = T extends readonly Toolkit[] ? T[number] : T;

/** Every tool of these toolkits under its name, `Calendar.create`. */
type Named<T> =
  Each<T> extends infer Kit
    ? Kit extends Toolkit<infer KitName, infer Tools>
      ? { [Each in Tools[number] as `${KitName}.${Each['name']}`]: Each }
      : never
    : never;

type Merged<T> = (T extends unknown ? (value: T) => void : never) extends (value: infer All) => void ? All : never;
type Methods<T> = Merged<Named<T>>;

export type ToolName<T> = Extract<keyof Methods<T>, string>;
export type ArgsOf<T, Name> = Name extends keyof Methods<T>
  ? Methods<T>[Name] extends Tool<string, infer Args, unknown>
    ? Args
    : never
  : never;

/** The hub sends objects: what is none comes as `{ result: value }`, and nothing as an empty object. */
export type ResultOf<T, Name> = Name extends keyof Methods<T>
  ? Methods<T>[Name] extends Tool<string, unknown, infer Result>
    ? AsObject<Result>
    : never
  : never;

type AsObject<Result> = unknown extends Result
  ? JsonObject
  : Result extends undefined
    ? Record<string, never>
    : Result extends readonly unknown[] | string | number | boolean | null
      ? { result: Result }
      : Result;

export interface Client<T> {
  /** Call a tool; throws ToolError where the tool or the hall says no. */
  call<Name extends ToolName<T>>(tool: Name, args: ArgsOf<T, Name>, options?: CallOptions): Promise<ResultOf<T, Name>>;
  /** The toolkits that this caller may see. */
  list(): Promise<Declaration[]>;
  close(): void;
}

export function connect<T extends Toolkits = Toolkit>(options: ConnectOptions): Client<T> {
  const hall = new HallHttp(hubUrl(options.url), options.key ?? process.env.TOOLHALL_KEY);
  return {
    call: async (tool, args, more = {}) => (await called(hall, tool, args as JsonObject, more)) as never,
    list: () => listed(hall),
    close: () => hall.close(),
  };
}

let count = 0;

async function called(hall: HallHttp, name: string, params: JsonObject, options: CallOptions): Promise<unknown> {
  const [tool = '', method = ''] = name.split(/\.(.*)/s);
  const { version, timeout, signal } = options;
  const metadata = version === undefined ? {} : { metadata: { version } };
  const message = JSON.stringify({ type: 'tool_request', id: String(++count), tool, method, params, ...metadata });
  const reply = await hall.post(message, timeout === undefined ? null : timeout * 1000, signal);
  if (reply.type === 'response') return resultOf(reply); // a refusal of the hall itself
  const ending = readEnding(reply);
  // As it was sent: a hall does not say which result was wrapped, a tool server does, and both give the same here.
  if (ending.kind === 'end') return reply.result ?? {};
  const { code, details } = ending;
  throw new ToolError(ending.message, { code, details });
}

async function listed(hall: HallHttp): Promise<Declaration[]> {
  const found: Declaration[] = [];
  let params: JsonObject = {};
  for (;;) {
    const id = String(++count);
    const result = resultOf(await hall.post(writeRequest({ kind: 'request', id, method: 'list_tools', params }), null));
    if (!Array.isArray(result.tools)) throw new HallError('INTERNAL_ERROR', 'the hall lists no tools');
    found.push(...result.tools.map(readDeclaration));
    if (typeof result.nextCursor !== 'string') return found;
    params = { cursor: result.nextCursor };
  }
}
