/** A small hall: it takes leases over HTTP and WebSocket, and calls over the socket. */

import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Json, JsonObject } from '@toolhall/sdk';
import { type WebSocket, WebSocketServer } from 'ws';
import { post } from './talking.js';

export const KEY = 'th_test_key';

/** A result, a refusal as [code, message, details], or nothing at all until the test says so. */
export type Says = (params: JsonObject) => JsonObject | [string, string, JsonObject?] | Promise<JsonObject>;

export class Hall {
  url = '';
  readonly requests: { method: string; params: JsonObject }[] = [];
  readonly said: Record<string, Says> = {
    join: () => ({
      lease: `lease-${this.count('join')}`,
      heartbeat: 0.01,
      expires: 15,
      tools: { 'Kit.add@1.2.0': 'active' },
    }),
    heartbeat: () => ({ status: 'ok', tools: { 'Kit.add@1.2.0': 'active' } }),
    leave: () => ({ status: 'left', running: 0 }),
  };
  socket: WebSocket | undefined;
  /** Refuses upgrades with this status. */
  refusing = 0;
  readonly #heard: JsonObject[] = [];
  readonly #waiting: (() => void)[] = [];
  #server: Server | undefined;

  async open(port = 0): Promise<this> {
    const server = createServer((request, response) => {
      void this.#posted(request).then((reply) => {
        response.writeHead(reply.error === null ? 200 : 400, { 'content-type': 'application/json' });
        response.end(JSON.stringify(reply));
      });
    });
    const sockets = new WebSocketServer({ noServer: true });
    server.on('upgrade', (request, stream, head) => {
      const status = this.refusing || (request.headers.authorization === `Bearer ${KEY}` ? 0 : 401);
      if (status) {
        stream.end(`HTTP/1.1 ${status} No\r\nconnection: close\r\ncontent-length: 0\r\n\r\n`);
        return;
      }
      sockets.handleUpgrade(request, stream, head, (socket) => this.#opened(socket));
    });
    await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
    this.#server = server;
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    return this;
  }

  async close(): Promise<void> {
    this.socket?.terminate();
    const server = this.#server;
    await new Promise<void>((resolve) => {
      server?.close(() => resolve());
      server?.closeAllConnections();
    });
  }

  count(method: string): number {
    return this.requests.filter((each) => each.method === method).length;
  }

  /** Until this holds; looked at whenever something comes. */
  async until(holds: () => boolean): Promise<void> {
    while (!holds()) await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  /** Call over the socket. */
  send(message: JsonObject | string): void {
    this.socket?.send(typeof message === 'string' ? message : JSON.stringify(message));
  }

  /** The next message of a tool server that is no request to the hall. */
  async next(): Promise<JsonObject> {
    await this.until(() => this.#heard.length > 0);
    return this.#heard.shift() ?? {};
  }

  #opened(socket: WebSocket): void {
    this.socket = socket;
    socket.on('message', (data) => {
      const message = JSON.parse(String(data)) as JsonObject;
      if (message.type !== 'request') this.#heard.push(message);
      else void this.#answer(message).then((reply) => socket.send(JSON.stringify(reply)));
      this.#wake();
    });
    socket.on('close', () => this.#wake());
    this.#wake();
  }

  async #posted(request: IncomingMessage): Promise<JsonObject> {
    let body = '';
    for await (const chunk of request) body += String(chunk);
    const message = JSON.parse(body) as JsonObject;
    if (request.headers.authorization !== `Bearer ${KEY}`) return refusal(message, 'UNAUTHENTICATED', 'who are you?');
    return message.type === 'tool_request' ? await this.#forward(message) : await this.#answer(message);
  }

  /** To whoever joined last. */
  async #forward(message: JsonObject): Promise<JsonObject> {
    const { url, token } = this.requests.findLast((each) => each.method === 'join')?.params ?? {};
    const { messages } = await post(String(url), message, { token: String(token) });
    const { type, id, result, error } = messages.at(-1) as { [key: string]: Json };
    return { type, id, result, error } as JsonObject;
  }

  async #answer(message: JsonObject): Promise<JsonObject> {
    const [method, params] = [String(message.method), message.params as JsonObject];
    this.requests.push({ method, params });
    this.#wake();
    const said = await this.said[method]?.(params);
    if (said === undefined) return refusal(message, 'METHOD_NOT_FOUND', 'there is no such method');
    if (Array.isArray(said)) return refusal(message, ...said);
    return { type: 'response', id: message.id ?? null, result: said, error: null };
  }

  #wake(): void {
    for (const each of this.#waiting.splice(0)) each();
  }
}

function refusal(message: JsonObject, code: string, text: string, details: JsonObject = {}): JsonObject {
  return { type: 'response', id: message.id ?? null, result: null, error: { code, message: text, details } };
}

/** A server that is no hall: it answers everything with this status, and counts. */
export async function stranger(status: number): Promise<{ url: string; heard(): number; close(): void }> {
  let heard = 0;
  const server = createServer((_, response) => {
    heard += 1;
    response.writeHead(status, { 'content-type': 'application/json', location: 'https://elsewhere.example' });
    response.end('{"detail":"no"}');
  });
  server.on('upgrade', (_, stream) => {
    heard += 1;
    stream.end(`HTTP/1.1 ${status} No\r\nconnection: close\r\ncontent-length: 0\r\n\r\n`);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const close = () => {
    server.close();
    server.closeAllConnections();
  };
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, heard: () => heard, close };
}
