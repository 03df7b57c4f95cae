/** The reply to one POST: a single JSON, or lines as soon as the tool tells or asks something. */

import type { ServerResponse } from 'node:http';
import type { Ending, Outlet } from './running.js';

const CROWDED = 1024 * 1024; // bytes that the hall has not read yet

export class HttpReply implements Outlet {
  #streams = false;

  constructor(private readonly response: ServerResponse) {}

  tell(message: string, isEvent: boolean): void {
    if (this.response.writableEnded || this.response.destroyed) return;
    if (isEvent && this.response.writableLength > CROWDED) return;
    if (!this.#streams) {
      this.response.writeHead(200, { 'content-type': 'application/x-ndjson', 'cache-control': 'no-store' });
      this.#streams = true;
    }
    this.response.write(`${message}\n`);
  }

  end(ending: Ending, headers: Record<string, string> = {}): void {
    if (this.response.writableEnded || this.response.destroyed) return;
    if (this.#streams) {
      this.response.end(`${ending.message}\n`);
      return;
    }
    const body = Buffer.from(ending.message);
    const type = { 'content-type': 'application/json', 'cache-control': 'no-store' };
    this.response.writeHead(ending.status, { ...type, ...headers, 'content-length': body.length }).end(body);
  }
}
