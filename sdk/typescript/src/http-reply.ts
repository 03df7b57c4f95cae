/** The reply to one POST: a single JSON, or lines as soon as the tool tells or asks something. */

import type { ServerResponse } from 'node:http';
import { writeTogether } from './outbox.js';
import type { Ending, Outlet } from './running.js';

const CROWDED = 1024 * 1024; // bytes that the hall has not read yet

export class HttpReply implements Outlet {
  #streams = false;
  #ended = false;

  constructor(private readonly response: ServerResponse) {}

  tell(message: string, isEvent: boolean): void {
    if (this.#ended || this.response.destroyed) return;
    if (isEvent && this.response.writableLength > CROWDED) return;
    if (!this.#streams) {
      this.response.writeHead(200, { 'content-type': 'application/x-ndjson', 'cache-control': 'no-store' });
      this.#streams = true;
    }
    this.response.write(`${message}\n`);
  }

  end(ending: Ending, headers: Record<string, string> = {}): void {
    if (this.#ended || this.response.destroyed) return;
    this.#ended = true;
    if (this.#streams) {
      this.response.end(`${ending.message}\n`);
      return;
    }
    const type = { 'content-type': 'application/json', 'cache-control': 'no-store' };
    const length = { 'content-length': Buffer.byteLength(ending.message) };
    // As a text, because Node writes head and body of one in one piece.
    writeTogether(() => {
      this.response.writeHead(ending.status, { ...type, ...headers, ...length }).end(ending.message);
    });
  }
}
