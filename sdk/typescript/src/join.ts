/** A tool server that joins a hall, and leaves it without losing a call. */

import { randomBytes } from 'node:crypto';
import { type Channel, HttpChannel } from './channel.js';
import { Desk } from './desk.js';
import { HallError } from './hall-error.js';
import { hubUrl } from './hall-url.js';
import { type Listening, listen } from './http-server.js';
import type { JsonObject } from './json.js';
import { Membership, type ToolStates } from './membership.js';
import { type Servable, servedOf } from './served.js';
import { SocketChannel } from './socket.js';
import { newToken } from './token.js';
import { atMost } from './waiting.js';
import { writeDeclaration } from './wire/declarations.js';

const GRACE_MS = 30_000; // for calls that run while the hall is away
const FLUSH_MS = 1_000; // for replies that are under way when the hall says that none is

export interface JoinOptions {
  /** The hall's address, such as `https://hall.example`; http only on this machine. */
  hall: string;
  /** The key that may serve these toolkits; the environment's TOOLHALL_KEY unless said. */
  key?: string;
  /** What the server is called; the first toolkit's name unless said. */
  server?: string;
  /** Be called over a WebSocket that this server opens: for servers that the hall cannot reach. */
  socket?: boolean;
  host?: string;
  port?: number;
  /** Where the hall reaches this server, if not at its host and port. */
  advertise?: string;
  /** Leave and exit on SIGTERM and SIGINT; true unless said. */
  signals?: boolean;
  /** Calls that may run at once; 1000 unless said. */
  calls?: number;
  /** Seconds between tries to join: 1 at first, 5 at most. */
  retry?: { first?: number; most?: number };
  /** Where to say what happens; the standard error stream unless said. */
  log?(line: string): void;
}

export interface Joined {
  /** Where the server listens; a WebSocket has none. */
  readonly url?: string;
  readonly lease: string;
  /** The state of each tool in the hall: active, quarantined or inactive. */
  readonly tools: ToolStates;
  /** Resolves when it has left. */
  readonly left: Promise<void>;
  /** Leave: begin nothing new, answer what runs, then stop. */
  close(): Promise<void>;
}

/** Resolves once joined; a hall that is away is tried until it is there, one that refuses is not. */
export async function join(toolkits: Servable | readonly Servable[], options: JoinOptions): Promise<Joined> {
  const desk = new Desk(servedOf(toolkits), options.calls);
  const open = opener(options, desk);
  const token = newToken();
  const listening = options.socket ? null : await listen(desk, { ...address(options), token });
  const where = listening === null ? {} : { url: options.advertise ?? listening.url, token };
  const member = new Membership({
    open,
    params: joining(desk, options, where),
    status: async () => (await desk.health()).status,
    log: options.log ?? ((line) => console.error(line)),
    retry: { first: options.retry?.first ?? 1, most: options.retry?.most ?? 5 },
  });
  let leaving: Promise<void> | undefined;
  const { promise: left, resolve } = deferred();
  const close = () => {
    leaving ??= leave(desk, member, listening).then(resolve);
    return leaving;
  };
  const unwatch = options.signals === false ? () => {} : onSignals(close);
  void left.then(unwatch);
  try {
    await member.joined;
  } catch (error) {
    await close();
    throw withFix(error, desk);
  }
  return joinedAs(member, left, close, listening?.url);
}

/** A hall does not say how a key comes here; which scope a key lacks, it says itself. */
function withFix(error: unknown, desk: Desk): unknown {
  if (!(error instanceof HallError) || error.code !== 'UNAUTHENTICATED') return error;
  const scopes = [...new Set(desk.served.map(({ declaration }) => `serve:${declaration.name}`))].join(',');
  const fix = `put a key into TOOLHALL_KEY that 'toolhall key create NAME --scopes ${scopes}' made`;
  return new HallError(error.code, `${error.message}; ${fix}`, error.details);
}

function joinedAs(member: Membership, left: Promise<void>, close: () => Promise<void>, url?: string): Joined {
  return {
    ...(url !== undefined && { url }),
    left,
    close,
    get lease() {
      return member.lease;
    },
    get tools() {
      return member.tools;
    },
  };
}

async function leave(desk: Desk, member: Membership, listening: Listening | null): Promise<void> {
  desk.draining = true;
  const heard = await member.leave();
  await atMost(heard ? FLUSH_MS : GRACE_MS, desk.idle());
  desk.stopAll();
  member.close();
  await listening?.stop();
}

function opener(options: JoinOptions, desk: Desk): () => Promise<Channel> {
  const key = options.key ?? process.env.TOOLHALL_KEY;
  const hub = hubUrl(options.hall);
  if (options.socket) return () => SocketChannel.open(hub, key, desk);
  return async () => new HttpChannel(hub, key);
}

function joining(desk: Desk, options: JoinOptions, where: JsonObject): JsonObject {
  const tools = desk.served.map(({ declaration }) => writeDeclaration(declaration));
  const server = options.server ?? desk.served[0]?.declaration.name ?? 'tools';
  return { server, replica: randomBytes(16).toString('hex'), ...where, tools };
}

function address(options: JoinOptions): { host?: string; port?: number } {
  const { host, port, advertise } = options;
  if (advertise === undefined && (host === '0.0.0.0' || host === '::')) {
    throw new TypeError("say where the hall reaches this server: advertise: 'https://tools.example'");
  }
  return { ...(host !== undefined && { host }), ...(port !== undefined && { port }) };
}

/** The first signal leaves, a second one ends the process as it always does. */
function onSignals(close: () => Promise<void>): () => void {
  const end = () => {
    unwatch();
    void close().then(() => process.exit(0));
  };
  const unwatch = () => {
    process.off('SIGTERM', end);
    process.off('SIGINT', end);
  };
  process.on('SIGTERM', end);
  process.on('SIGINT', end);
  return unwatch;
}

function deferred(): { promise: Promise<void>; resolve: () => void } {
  let resolve = () => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
