/** How a tool server is: as bad as the worst of its tools, which are asked one at a time and not too often. */

import { isObject } from './json.js';
import type { Served } from './served.js';
import { atMost } from './waiting.js';

export type Status = 'healthy' | 'degraded' | 'unhealthy';
const ORDER: readonly Status[] = ['healthy', 'degraded', 'unhealthy'];
const PATIENCE_MS = 1_500; // the hall waits two seconds for the whole
const FRESH_MS = 1_000; // anybody may ask how a server is; its tools are not asked more often than this

export interface Health {
  status: Status;
  components: { tools: Record<string, Status> };
}

export class Checkup {
  readonly #checks: readonly Check[];

  constructor(served: readonly Served[]) {
    this.#checks = served.map((each) => new Check(each));
  }

  async health(): Promise<Health> {
    const found = await Promise.all(this.#checks.map(async (each) => [each.name, await each.status()] as const));
    const tools = new Map<string, Status>();
    for (const [name, status] of found) tools.set(name, worse(tools.get(name) ?? 'healthy', status));
    return { status: [...tools.values()].reduce(worse, 'healthy'), components: { tools: Object.fromEntries(tools) } };
  }
}

/** What a tool last said of itself. One that fails or hangs is unhealthy; one that still hangs is not asked again. */
class Check {
  #status: Status = 'healthy';
  #heard = Number.NEGATIVE_INFINITY;
  #running: Promise<void> | null = null;

  constructor(private readonly served: Served) {}

  get name(): string {
    return this.served.declaration.name;
  }

  async status(): Promise<Status> {
    const age = Date.now() - this.#heard;
    const isFresh = age >= 0 && age < FRESH_MS; // a clock may be set back
    if (!isFresh) this.#running ??= this.#ask();
    if (this.#running !== null) await atMost(PATIENCE_MS, this.#running);
    if (this.#running !== null) this.#status = 'unhealthy';
    return this.#status;
  }

  async #ask(): Promise<void> {
    this.#status = await this.served.health().then(statusIn, () => 'unhealthy' as const);
    this.#heard = Date.now();
    this.#running = null;
  }
}

/** Its word for itself; one that nobody knows is no reason to keep calls away. */
function statusIn(said: unknown): Status {
  const status = isObject(said) ? said.status : said;
  return ORDER.find((each) => each === status) ?? 'degraded';
}

function worse(one: Status, other: Status): Status {
  return ORDER.indexOf(one) > ORDER.indexOf(other) ? one : other;
}
