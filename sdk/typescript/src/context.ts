/** The line from a running tool to whoever called it; an unconnected one does nothing. */

import { unsupported } from './errors.js';
import type { Json, JsonObject } from './json.js';
import { jsonSchemaOf, type Schema, type Taken, taken } from './schema.js';
import { refuseSecrets } from './secret-names.js';
import { type Account, Supply } from './supply.js';
import type { SeenCaller } from './wire/calls.js';
import type { Action, Question, Reply, Root } from './wire/questions.js';
import type { LogLevel } from './wire/reports.js';

export type Feature = 'elicitation' | 'elicitation.url' | 'sampling' | 'roots';

/** What a person replied to a form; the value is there only if they accepted. */
export type Given<T> = { action: 'accept'; value: T } | { action: Exclude<Action, 'accept'>; value?: undefined };

/** What a context leads to. */
export interface Link {
  progress(done: number, total: number | null, message: string | null): void;
  log(level: LogLevel, data: Json): void;
  changed(uri: string): void;
  ask(questions: Record<string, Question>, retryMs?: number): Promise<Record<string, Reply>>;
}

const NOWHERE: Link = { progress: () => {}, log: () => {}, changed: () => {}, ask: async () => ({}) };

export interface ContextParts {
  link?: Link;
  signal?: AbortSignal;
  caller?: SeenCaller | null;
  can?: readonly string[];
  supply?: Supply;
}

export class Context {
  /** Aborted when the call is cancelled, over its deadline, or its caller is gone. */
  readonly signal: AbortSignal;
  /** Who calls, as proven to the hall. */
  readonly caller: SeenCaller | null;
  // Private, so that printing a context shows no secret.
  readonly #link: Link;
  readonly #can: ReadonlySet<string>;
  readonly #supply: Supply;
  #asked = 0;

  constructor(parts: ContextParts = {}) {
    this.#link = parts.link ?? NOWHERE;
    this.signal = parts.signal ?? new AbortController().signal;
    this.caller = parts.caller ?? null;
    this.#can = new Set(parts.can ?? []);
    this.#supply = parts.supply ?? new Supply();
  }

  /** Whether nobody waits for the answer any more. */
  get cancelled(): boolean {
    return this.signal.aborted;
  }

  /** Who is called for, as proven; always there for a tool that requires `userId`. */
  get userId(): string | undefined {
    return this.#supply.userId ?? provenUser(this.caller) ?? undefined;
  }

  /** Whether the caller's program can do this. */
  can(feature: Feature): boolean {
    return this.#can.has(feature);
  }

  /** The value of a secret that the tool declares in `requires`. */
  secret(id: string): string {
    return this.#supply.secret(id);
  }

  /** The user's account that the tool declares in `requires`; the provider may be left out where there is one only. */
  account(provider?: string): Account {
    return this.#supply.account(provider);
  }

  /** Tell the caller how far the work has come; `done` must rise. */
  progress(done: number, total?: number, message?: string): void {
    this.#link.progress(done, total ?? null, message ?? null);
  }

  /** Tell the caller something while the tool runs. */
  log(level: LogLevel, data: unknown): void {
    // What cannot be written fails here, also where nobody listens.
    this.#link.log(level, JSON.parse(JSON.stringify(data) ?? 'null') as Json);
  }

  debug(data: unknown): void {
    this.log('debug', data);
  }

  info(data: unknown): void {
    this.log('info', data);
  }

  warning(data: unknown): void {
    this.log('warning', data);
  }

  error(data: unknown): void {
    this.log('error', data);
  }

  /** Tell everybody who subscribed to a resource of this toolkit, or to one above it, that it has changed. */
  changed(uri: string): void {
    this.#link.changed(uri);
  }

  /**
   * Ask the person to fill in a few plain fields. Never ask for a secret.
   *
   * Some clients answer with a call of their own, so the tool starts again: do nothing irreversible before asking.
   */
  ask<const S extends Schema>(message: string, form: S, key?: string): Promise<Given<Taken<S>>> {
    return quiet(this.#ask(message, form, key));
  }

  async #ask<S extends Schema>(message: string, form: S, key?: string): Promise<Given<Taken<S>>> {
    const schema = jsonSchemaOf(form, 'input');
    refuseSecrets(schema);
    const reply = await this.#one('elicitation', { kind: 'form', message, schema }, key);
    if (reply?.kind !== 'filled') return { action: 'cancel' };
    if (reply.action !== 'accept') return { action: reply.action };
    return { action: 'accept', value: (await taken(form, reply.content ?? {})) as Taken<S> };
  }

  /** Ask the person to open a page; true once they agree. What happens there does not pass through the client. */
  visit(message: string, url: string, key: string): Promise<boolean> {
    return quiet(this.#visit(message, url, key));
  }

  async #visit(message: string, url: string, key: string): Promise<boolean> {
    const reply = await this.#one('elicitation.url', { kind: 'visit', message, url, id: key }, key);
    return reply?.kind === 'filled' && reply.action === 'accept';
  }

  /** Let the client's model answer. */
  sample(prompt: string | JsonObject[], options: SampleOptions = {}): Promise<Reply & { kind: 'sampled' }> {
    return quiet(this.#sample(prompt, options));
  }

  async #sample(prompt: string | JsonObject[], options: SampleOptions): Promise<Reply & { kind: 'sampled' }> {
    const said = { role: 'user', content: { type: 'text', text: prompt as string } };
    const messages = typeof prompt === 'string' ? [said] : prompt;
    const { maxTokens = 1024, system = null, temperature = null, stop = [], key } = options;
    const question: Question = { kind: 'sample', messages, max_tokens: maxTokens, system, temperature, stop };
    const reply = await this.#one('sampling', question, key);
    if (reply?.kind === 'sampled') return reply;
    return { kind: 'sampled', role: 'assistant', content: [], model: '', stop_reason: null };
  }

  /** The folders that the client works in. */
  roots(key?: string): Promise<Root[]> {
    return quiet(this.#roots(key));
  }

  async #roots(key?: string): Promise<Root[]> {
    const reply = await this.#one('roots', { kind: 'roots' }, key);
    return reply?.kind === 'rooted' ? reply.roots : [];
  }

  /** Before a long wait: let the client hang up and fetch the answer later, where it can. */
  detach(retryMs = 500): Promise<void> {
    return quiet(this.#detach(retryMs));
  }

  async #detach(retryMs: number): Promise<void> {
    await this.#link.ask({}, retryMs);
  }

  async #one(feature: Feature, question: Question, key?: string): Promise<Reply | undefined> {
    if (this.#link !== NOWHERE && !this.can(feature)) throw unsupported(feature);
    this.#asked += 1;
    const name = key ?? `${question.kind}_${this.#asked}`;
    return (await this.#link.ask({ [name]: question }))[name];
  }
}

function provenUser(caller: SeenCaller | null): string | null {
  if (caller === null || caller.acting_for !== null) return caller?.acting_for ?? null;
  return caller.proof === 'none' || caller.proof === 'shared' ? null : (caller.person ?? caller.id);
}

/** A question that a tool does not wait for may be refused without ending the process. */
function quiet<T>(work: Promise<T>): Promise<T> {
  work.catch(() => {});
  return work;
}

export interface SampleOptions {
  maxTokens?: number;
  system?: string;
  temperature?: number;
  stop?: string[];
  key?: string;
}
