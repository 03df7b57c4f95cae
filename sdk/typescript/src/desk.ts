/** Runs the calls of a tool server, whatever brings them. */

import { cancelled, noSuchMethod, noSuchTool, notStarted, ToolError } from './errors.js';
import { Checkup, type Health } from './health.js';
import type { JsonObject } from './json.js';
import { type Ending, failed, type Outlet, Running } from './running.js';
import type { Method, Served } from './served.js';
import type { Call } from './wire/calls.js';
import { kindOf } from './wire/declarations.js';
import { writeResponse } from './wire/endings.js';
import type { Id } from './wire/fields.js';
import type { Answer, Request } from './wire/orders.js';

const MOST_CALLS = 1_000;

export class Desk {
  /** Nothing new is begun; what runs goes on. */
  draining = false;
  readonly #running = new Map<string, Running>();
  readonly #waiting = new Set<() => void>();
  readonly #checkup: Checkup;
  #busy = 0;

  constructor(
    readonly served: readonly Served[],
    private readonly most = MOST_CALLS,
  ) {
    this.#checkup = new Checkup(served);
  }

  /** Begin a call; `stop` ends it because its caller is gone. */
  begin(call: Call, outlet: Outlet): { ended: Promise<Ending>; stop: () => void } {
    const key = keyOf(call.id);
    const refused = (error: ToolError) => ({ ended: Promise.resolve(failed(call, error)), stop: () => {} });
    // A tool that does not look at its signal is still at work after its call has ended, and counts.
    if (this.draining || this.#busy >= this.most) return refused(notStarted());
    if (this.#running.has(key)) return refused(taken());
    const method = this.#find(call);
    if (method instanceof ToolError) return refused(method);
    const running = new Running(call, method, outlet);
    this.#watch(key, running);
    return { ended: running.ended, stop: () => running.stop(cancelled()) };
  }

  /** Whether somebody waited for this answer. */
  answer(answer: Answer): boolean {
    return this.#running.get(keyOf(answer.id))?.answer(answer) ?? false;
  }

  /** The reply to a request that is no call. */
  async request(request: Request): Promise<Ending> {
    const { id, method, params } = request;
    if (method === 'cancel')
      return responded(id, { status: this.#cancel(params.id as Id) ? 'cancelled' : 'not_running' });
    if (method === 'health_check') return responded(id, (await this.health()) as unknown as JsonObject);
    const error = { code: 'METHOD_NOT_FOUND', message: 'this tool server has no such method', details: {} };
    return { message: writeResponse({ kind: 'response', id, result: null, error }), status: 400 };
  }

  health(): Promise<Health> {
    return this.#checkup.health();
  }

  /** Resolves when no call runs. */
  async idle(): Promise<void> {
    if (this.#running.size > 0) await new Promise<void>((resolve) => this.#waiting.add(resolve));
  }

  stopAll(): void {
    for (const each of this.#running.values()) each.stop(cancelled());
  }

  #cancel(id: Id): boolean {
    const running = this.#running.get(keyOf(id));
    running?.stop(cancelled());
    return running !== undefined;
  }

  #find(call: Call): Method | ToolError {
    const named = this.served.filter(({ declaration }) => declaration.name === call.tool);
    const kit = named.findLast(({ declaration }) => call.version === null || declaration.version === call.version);
    if (kit === undefined) return noSuchTool();
    const method = kit.methods.get(call.method);
    // A hall that knows tools only calls all of them as tools.
    return method !== undefined && (call.of === 'tool' || call.of === kindOf(method.declaration))
      ? method
      : noSuchMethod();
  }

  #watch(key: string, running: Running): void {
    this.#running.set(key, running);
    this.#busy += 1;
    void running.settled.then(() => {
      this.#busy -= 1;
    });
    void running.ended.then(() => {
      this.#running.delete(key);
      if (this.#running.size > 0) return;
      for (const resolve of this.#waiting) resolve();
      this.#waiting.clear();
    });
  }
}

export function responded(id: Id, result: JsonObject): Ending {
  return { message: writeResponse({ kind: 'response', id, result, error: null }), status: 200 };
}

let nameless = 0;

/** A call without an id can be neither cancelled nor answered by one, and is in nobody's way. */
function keyOf(id: Id): string {
  return id === null || id === undefined ? `nameless ${++nameless}` : `${typeof id} ${id}`;
}

function taken(): ToolError {
  return new ToolError('a call with this id is running; use another id', { code: 'INVALID_REQUEST' });
}
