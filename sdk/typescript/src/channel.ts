/** The way on which a tool server asks its hall: requests over HTTP, or over the socket that it is called on. */

import { HallError } from './hall-error.js';
import { HallHttp } from './hall-http.js';
import { isObject, type JsonObject } from './json.js';
import { plain } from './plain.js';
import { type Response, readResponse } from './wire/endings.js';
import { writeRequest } from './wire/orders.js';

const MOST_PROBLEMS = 5;

export interface Channel {
  /** The hall's result; HallError where it refuses, HallAway where it does not answer in time. */
  ask(method: string, params: JsonObject, timeoutMs: number): Promise<JsonObject>;
  /** Aborted when it is broken. */
  readonly broken: AbortSignal;
  close(): void;
}

export class HttpChannel implements Channel {
  readonly broken: AbortSignal = new AbortController().signal; // each request finds its own way
  readonly #hall: HallHttp;
  #count = 0;

  constructor(hub: URL, key: string | undefined) {
    this.#hall = new HallHttp(hub, key);
  }

  async ask(method: string, params: JsonObject, timeoutMs: number): Promise<JsonObject> {
    const id = String(++this.#count);
    return resultOf(await this.#hall.post(writeRequest({ kind: 'request', id, method, params }), timeoutMs));
  }

  close(): void {
    this.#hall.close();
  }
}

export function resultOf(message: JsonObject): JsonObject {
  const { result, error } = readResponse(message);
  if (error !== null) throw new HallError(error.code, told(error), error.details);
  return result ?? {};
}

/** The hall's words, with the first few things that are wrong. */
function told({ code, message, details }: NonNullable<Response['error']>): string {
  const problems = (Array.isArray(details.problems) ? details.problems : []).filter(isObject);
  const said = problems.map(({ path, fix, reason }) => `${String(path ?? '')}: ${String(fix ?? reason ?? '')}`);
  const more = said.length > MOST_PROBLEMS ? [`and ${said.length - MOST_PROBLEMS} more`] : [];
  return plain([message || code, ...said.slice(0, MOST_PROBLEMS), ...more].join('; '));
}
