/** The way on which a tool server asks its hall: requests over HTTP, or over the socket that it is called on. */

import { HallError } from './hall-error.js';
import { HallHttp } from './hall-http.js';
import type { JsonObject } from './json.js';
import { readResponse } from './wire/endings.js';
import { writeRequest } from './wire/orders.js';

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
  if (error !== null) throw new HallError(error.code, error.message, error.details);
  return result ?? {};
}
