/** The lease of a tool server at its hall: it joins, shows that it is there, joins again when it must, and leaves. */

import type { Channel } from './channel.js';
import { HallAway, HallError, passes } from './hall-error.js';
import { isObject, type Json, type JsonObject } from './json.js';
import { plain } from './plain.js';
import { pause } from './waiting.js';

const JOIN_MS = 10_000;
const BEAT_MS = 5_000;
const LEAVE_MS = 40_000; // the hall answers after 30 seconds at the latest
const HEARTBEAT = 5;

export type ToolStates = Readonly<Record<string, string>>;

export interface MembershipParts {
  open(): Promise<Channel>;
  /** The params of `join`. */
  params: JsonObject;
  status(): Promise<string>;
  log(line: string): void;
  /** Seconds between tries. */
  retry: { first: number; most: number };
}

export class Membership {
  /** Resolves once joined; rejects if the hall refuses that the first time. */
  readonly joined: Promise<void>;
  lease = '';
  tools: ToolStates = {};
  readonly #leaving = new AbortController();
  readonly #over: Promise<void>;
  #channel: Channel | undefined;
  #heartbeat = HEARTBEAT;
  #everJoined = false;
  #tries = 0;
  #said = '';

  constructor(private readonly parts: MembershipParts) {
    let first: (error?: unknown) => void = () => {};
    this.joined = new Promise((resolve, reject) => {
      first = (error) => (error === undefined ? resolve() : reject(error));
    });
    this.#over = this.#run(first);
  }

  /** Whether the hall heard it, and so has no call left here. */
  async leave(): Promise<boolean> {
    this.#leaving.abort();
    await this.#over;
    return this.#channel !== undefined && this.lease !== '' && (await this.#goodbye(this.#channel));
  }

  close(): void {
    this.#channel?.close();
  }

  async #run(first: (error?: unknown) => void): Promise<void> {
    while (!this.#leaving.signal.aborted) {
      try {
        const channel = await this.#join();
        first();
        await this.#stay(channel);
      } catch (error) {
        this.lease = '';
        if (!this.#everJoined && isRefusal(error)) return first(error);
        if (error instanceof HallError && error.code === 'LEASE_UNKNOWN') continue;
        this.#complain(error);
        if (!passes(error)) this.#drop(); // a hall that is full has answered, and what runs on this line goes on
        await pause(this.#wait(), this.#leaving.signal);
      }
    }
    first(new HallAway('it left before it had joined'));
  }

  async #join(): Promise<Channel> {
    const channel = this.#channel ?? (await this.parts.open());
    this.#channel = channel;
    const result = await channel.ask('join', this.parts.params, JOIN_MS);
    this.lease = String(result.lease ?? '');
    this.#heartbeat = typeof result.heartbeat === 'number' ? result.heartbeat : HEARTBEAT;
    this.#hear(result.tools ?? {});
    if (this.#everJoined || this.#said !== '') this.parts.log('joined the hall again');
    this.#everJoined = true;
    this.#tries = 0;
    this.#said = '';
    return channel;
  }

  /** Returns when it is time to leave, throws when it must join again. */
  async #stay(channel: Channel): Promise<void> {
    const woken = AbortSignal.any([this.#leaving.signal, channel.broken]);
    for (;;) {
      await pause(this.#heartbeat * 1000, woken);
      if (this.#leaving.signal.aborted) return;
      const params = { lease: this.lease, status: await this.parts.status() };
      const result = await channel.ask('heartbeat', params, BEAT_MS).catch(unlessPassing);
      if (result.tools !== undefined) this.#hear(result.tools);
    }
  }

  /** What became of each tool; somebody may activate or quarantine one at any time. */
  #hear(said: Json): void {
    const states = isObject(said) ? said : {};
    const now = Object.entries(states).map(([name, state]) => [plain(name), plain(String(state))] as const);
    for (const [name, state] of now) {
      if (this.#everJoined && this.tools[name] !== state) this.parts.log(`${name} is ${state} in the hall now`);
    }
    this.tools = Object.fromEntries(now);
  }

  /** A hall that is full is asked again while there is time: it would go on calling a server that is gone. */
  async #goodbye(channel: Channel): Promise<boolean> {
    const end = performance.now() + LEAVE_MS;
    for (let left = LEAVE_MS; left > 0; left = end - performance.now()) {
      try {
        await channel.ask('leave', { lease: this.lease }, left);
        return true;
      } catch (error) {
        if (!passes(error)) return false;
        await pause(Math.min(this.#wait(), left), channel.broken);
      }
    }
    return false;
  }

  #drop(): void {
    this.#channel?.close();
    this.#channel = undefined;
  }

  /** Each trouble is said once, not at every try. */
  #complain(error: unknown): void {
    const said = error instanceof Error ? error.message : String(error);
    if (said !== this.#said) this.parts.log(`${said}; trying to join again`);
    this.#said = said;
  }

  #wait(): number {
    const { first, most } = this.parts.retry;
    const seconds = Math.min(first * 2 ** this.#tries++, most);
    return seconds * 1000 * (0.75 + Math.random() / 4);
  }
}

/** A hall that is full for a moment has heard from us all the same, and still holds the lease or will say so. */
function unlessPassing(error: unknown): JsonObject {
  if (passes(error)) return {};
  throw error;
}

function isRefusal(error: unknown): boolean {
  return error instanceof HallError ? !error.passes : !(error instanceof HallAway);
}
