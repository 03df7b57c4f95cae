/** The WebSocket that a tool server behind a NAT opens to its hall, and is called on. */

import WebSocket from 'ws';
import { type Channel, resultOf } from './channel.js';
import type { Desk } from './desk.js';
import { HallAway, HallError, notAHall } from './hall-error.js';
import type { JsonObject } from './json.js';
import { receive } from './receiving.js';
import type { Outlet } from './running.js';
import { parse, writeRequest } from './wire/orders.js';

const CONNECT_MS = 10_000;
const CROWDED = 1024 * 1024; // bytes that the hall has not read yet
const MOST_BYTES = 4 * 1024 * 1024; // of one message
const PREFIX = 'toolserver-';

interface Waiting {
  resolve(message: JsonObject): void;
  reject(error: Error): void;
}

export class SocketChannel implements Channel, Outlet {
  readonly broken: AbortSignal;
  readonly #broken = new AbortController();
  readonly #waiting = new Map<string, Waiting>();
  #count = 0;

  private constructor(
    private readonly socket: WebSocket,
    private readonly desk: Desk,
  ) {
    this.broken = this.#broken.signal;
    socket.on('message', (data) => this.#heard(data.toString()));
    socket.on('close', (code, reason) => this.#closed(code, reason.toString()));
    socket.on('error', () => socket.terminate());
  }

  static open(hub: URL, key: string | undefined, desk: Desk): Promise<SocketChannel> {
    const url = new URL(hub);
    url.protocol = hub.protocol === 'https:' ? 'wss:' : 'ws:';
    const socket = new WebSocket(url, {
      headers: key === undefined ? {} : { authorization: `Bearer ${key}` },
      handshakeTimeout: CONNECT_MS,
      maxPayload: MOST_BYTES,
      perMessageDeflate: false,
    });
    return new Promise((resolve, reject) => {
      const fail = (error: Error) => {
        socket.on('error', () => {}); // it ends while it opens
        socket.terminate();
        reject(error);
      };
      socket.once('unexpected-response', (_, { statusCode = 0 }) => fail(turnedAway(hub, statusCode)));
      socket.once('error', (error: Error & { code?: string }) =>
        fail(new HallAway(`the hall at ${url.host} cannot be reached (${error.code ?? error.name})`)),
      );
      socket.once('open', () => {
        socket.removeAllListeners();
        resolve(new SocketChannel(socket, desk));
      });
    });
  }

  ask(method: string, params: JsonObject, timeoutMs: number): Promise<JsonObject> {
    if (this.broken.aborted) return Promise.reject(new HallAway('the connection to the hall is broken'));
    const id = `${PREFIX}${++this.#count}`;
    return new Promise<JsonObject>((resolve, reject) => {
      const late = () => this.#settle(id)?.reject(new HallAway('the hall does not answer'));
      const timer = setTimeout(late, timeoutMs);
      const done = <T>(settle: (value: T) => void) => {
        return (value: T) => {
          clearTimeout(timer);
          settle(value);
        };
      };
      this.#waiting.set(id, { resolve: done(resolve), reject: done(reject) });
      this.socket.send(writeRequest({ kind: 'request', id, method, params }));
    }).then(resultOf);
  }

  tell(message: string, isEvent: boolean): void {
    if (this.broken.aborted || (isEvent && this.socket.bufferedAmount > CROWDED)) return;
    this.socket.send(message);
  }

  close(): void {
    this.socket.close(1000);
    setTimeout(() => this.socket.terminate(), 1_000).unref();
  }

  #heard(body: string): void {
    const message = readable(body);
    if (message?.type === 'response') {
      if (typeof message.id === 'string') this.#settle(message.id)?.resolve(message);
      return;
    }
    const received = receive(this.desk, body, this);
    if (received.kind === 'answer') return; // here nobody waits for a reply to it
    void received.ended.then(({ message }) => this.tell(message, false));
  }

  /** Whatever ran for this connection has nobody left to answer. */
  #closed(code: number, reason: string): void {
    this.#broken.abort();
    this.desk.stopAll();
    const refused = code === 1008 ? new HallError('FORBIDDEN', reason || 'the hall closed the connection') : null;
    for (const each of this.#waiting.values()) {
      each.reject(refused ?? new HallAway('the connection to the hall is broken'));
    }
    this.#waiting.clear();
  }

  #settle(id: string): Waiting | undefined {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    return waiting;
  }
}

function turnedAway(hub: URL, status: number): Error {
  if (status === 401) return new HallError('UNAUTHENTICATED', 'the hall does not know this key');
  if (status === 403)
    return new HallError('FORBIDDEN', 'the hall lets this key serve nothing: it needs a scope such as serve:TOOLKIT');
  const said = notAHall(hub, status);
  const isFinal = said instanceof HallAway && status < 500; // whatever it is, it opens no sockets
  return isFinal ? new HallError('UNSUPPORTED', said.message) : said;
}

function readable(body: string): JsonObject | null {
  try {
    return parse(body);
  } catch {
    return null;
  }
}
