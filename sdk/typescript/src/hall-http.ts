/** Messages to a hall's `POST /hub`, over connections of its own. */

import * as http from 'node:http';
import * as https from 'node:https';
import { HallAway, HallError } from './hall-error.js';
import type { JsonObject } from './json.js';
import { parse } from './wire/orders.js';

const MOST_BYTES = 16 * 1024 * 1024;
const BUSY = [429, 502, 503, 504]; // of a hall, or of a proxy before it

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
    const signals = [this.#closed.signal, ...(signal ? [signal] : [])];
    if (timeoutMs !== null) signals.push(AbortSignal.timeout(Math.ceil(timeoutMs)));
    const { status, body } = await this.#send(message, AbortSignal.any(signals));
    try {
      return parse(body);
    } catch {
      const said = `the hall answered with status ${status} and no message`;
      throw BUSY.includes(status) ? new HallError('UNAVAILABLE', said) : new HallAway(said);
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
