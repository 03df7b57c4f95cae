/** The HTTP side of a tool server: `POST /hub`, `GET /health`, `GET /health/live`. */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Desk } from './desk.js';
import { bodyOf, MOST_BYTES } from './http-body.js';
import { HttpReply } from './http-reply.js';
import { receive, refusal } from './receiving.js';
import { isBearer } from './token.js';
import { Visitors } from './visitors.js';

const PATIENCE_MS = 30_000; // for a whole request; a slower one is cut off
const VISIT_MS = 10_000; // for a connection that does not bring the token
const IDLE_MS = 600_000; // the hall keeps its connections, and is the one to close them
const FLUSH_MS = 1_000; // for the last replies to go out
const MOST_CONNECTIONS = 1_024;

export interface Listening {
  url: string;
  /** Take no more connections, and let replies that are under way go out. */
  stop(): Promise<void>;
}

export interface ListenOptions {
  host?: string;
  port?: number;
  token?: string;
  /** Seconds for a whole request; a slower one is cut off. */
  patience?: number;
}

export async function listen(desk: Desk, options: ListenOptions): Promise<Listening> {
  const { host = '127.0.0.1', port = 0, token, patience } = options;
  if (!token && !isLoopback(host)) {
    throw new TypeError(
      `whoever reaches ${host} could call every tool: give serve() a token, or let it listen on 127.0.0.1`,
    );
  }
  const waits = patience === undefined ? PATIENCE_MS : patience * 1000;
  const visitors = new Visitors(Math.min(waits, VISIT_MS));
  const server = createServer(
    {
      requestTimeout: waits,
      headersTimeout: waits,
      keepAliveTimeout: IDLE_MS,
      connectionsCheckingInterval: Math.min(waits, 1_000),
    },
    (request, response) => {
      if (isHall(token, request)) visitors.prove(request.socket);
      route(desk, token, request, response).catch((error: unknown) => {
        console.error('a request could not be answered', error);
        response.destroy();
      });
    },
  );
  server.maxConnections = MOST_CONNECTIONS;
  server.on('connection', (socket) => visitors.enter(socket));
  await bound(server, host, port);
  const { port: given } = server.address() as AddressInfo;
  return { url: `http://${host.includes(':') ? `[${host}]` : host}:${given}`, stop: () => stopped(server) };
}

/** Whoever asks for the tools and knows the token; without one, whoever asks for them. */
function isHall(token: string | undefined, request: IncomingMessage): boolean {
  if (token === undefined) return request.url === '/hub';
  return request.headers.authorization !== undefined && isBearer(request.headers.authorization, token);
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host);
}

async function route(
  desk: Desk,
  token: string | undefined,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const path = (request.url ?? '').split('?', 1)[0] ?? '';
  const wanted = path === '/hub' ? 'POST' : path === '/health' || path === '/health/live' ? 'GET' : null;
  const reply = new HttpReply(response);
  const close = { connection: 'close' };
  if (wanted === null) return reply.end(refusal(404, 'INVALID_REQUEST', 'a tool server has /hub and /health'), close);
  if (request.method !== wanted) {
    return reply.end(refusal(405, 'INVALID_REQUEST', `use ${wanted} here`), { ...close, allow: wanted });
  }
  if (path === '/hub') return await hub(desk, token, request, response, reply);
  if (path === '/health/live') return reply.end({ message: '{"status":"alive"}', status: 200 });
  const health = await desk.health();
  reply.end({ message: JSON.stringify(health), status: health.status === 'unhealthy' ? 503 : 200 });
}

async function hub(
  desk: Desk,
  token: string | undefined,
  request: IncomingMessage,
  response: ServerResponse,
  reply: HttpReply,
): Promise<void> {
  const close = { connection: 'close' };
  if (token !== undefined && !isBearer(request.headers.authorization, token)) {
    const said = refusal(401, 'UNAUTHENTICATED', 'a valid credential is required');
    return reply.end(said, { ...close, 'www-authenticate': 'Bearer' });
  }
  if (!/^application\/json *(;|$)/i.test(request.headers['content-type'] ?? '')) {
    return reply.end(refusal(415, 'INVALID_REQUEST', 'send application/json'), close);
  }
  const body = await bodyOf(request).catch(() => undefined);
  if (body === undefined) return; // nobody is there to be answered
  if (body === null) {
    return reply.end(refusal(413, 'INVALID_REQUEST', `the message is larger than ${MOST_BYTES} bytes`), close);
  }
  const text = decoded(body);
  if (text === null) return reply.end(refusal(400, 'INVALID_REQUEST', 'the message is not UTF-8'));
  const received = receive(desk, text, reply);
  response.on('close', () => received.stop());
  reply.end(await received.ended);
}

function decoded(body: Buffer): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(body);
  } catch {
    return null;
  }
}

function bound(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

/** A connection that does not end by itself is ended. */
function stopped(server: Server): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => server.closeAllConnections(), FLUSH_MS);
    server.close(() => {
      clearTimeout(timer);
      resolve();
    });
    server.closeIdleConnections();
  });
}
