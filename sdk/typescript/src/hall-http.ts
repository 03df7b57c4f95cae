/** Messages to a hall's `POST /hub`, over connections of its own. */

import * as http from 'node:http';
import * as https from 'node:https';
import { HallAway, notAHall } from './hall-error.js';
import type { JsonObject } from './json.js';
import { parse } from './wire/orders.js';

const MOST_BYTES = 16 * 1024 * 1024;
const MESSAGES = ['response', 'tool_response', 'tool_error'];

export class HallHttp {
  readonly #url: URL;
  readonly #agent: http.Agent;
  readonly #headers: Record<string, string>;
  readonly #closed = new AbortController();

  constructor(hub: URL, key: string | undefined) {
    this.#url = hub;
    const options = { keepAlive: true };
    this.#agent = hub.protocol === 'https:' ? new https.Agent(options) : new http.Agent(options);
    this.#headers = { 'content-type': 'application/json', ...(key && { authorization: `Bearer ${key}` }) };
  }

  /** The reply, whatever its status: the body says what became of the message. */
  async post(message: string, timeoutMs: number | null, signal?: AbortSignal): Promise<JsonObject> {
    const late = timeoutMs === null ? null : AbortSignal.timeout(Math.ceil(timeoutMs));
    const signals = [this.#closed.signal, signal, late].filter((each) => each instanceof AbortSignal);
    try {
      const { status, body } = await this.#send(message, AbortSignal.any(signals));
      const reply = read(body);
      if (reply === null) throw notAHall(this.#url, status);
      return reply;
    } catch (error) {
      signal?.throwIfAborted(); // whoever gave up knows why
      if (late?.aborted) throw new HallAway(`the hall at ${this.#url.host} does not answer in time`);
      throw error;
    }
  }

  close(): void {
    this.#closed.abort();
    this.#agent.destroy();
  }

  #send(message: string, signal: AbortSignal): Promise<{ status: number; body: string }> {
    const send = this.#url.protocol === 'https:' ? https.request : http.request;
    const headers = { ...this.#headers, 'content-length': Buffer.byteLength(message) };
    return new Promise((resolve, reject) => {
      const away = (error: Error & { code?: string }) =>
        reject(new HallAway(`the hall at ${this.#url.host} cannot be reached (${error.code ?? error.name})`));
      const request = send(this.#url, { method: 'POST', agent: this.#agent, headers, signal }, (response) => {
        collected(response).then((body) => resolve({ status: response.statusCode ?? 0, body }), away);
      });
      request.on('error', away);
      request.end(message);
    });
  }
}

/** What a hall says, or null for what is something else. */
function read(body: string): JsonObject | null {
  try {
    const message = parse(body);
    return MESSAGES.includes(String(message.type)) ? message : null;
  } catch {
    return null;
  }
}

async function collected(response: http.IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > MOST_BYTES) throw new Error('TOO_LARGE');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}
