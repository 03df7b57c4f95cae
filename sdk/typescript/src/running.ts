/** One call while it runs: what its tool tells and asks, its deadline, and its one end. */

import { type Completion, completed } from './completion.js';
import { Context, type Link } from './context.js';
import { Deadline } from './deadline.js';
import { badOutput, cancelled, crashed, noSuchMethod, ToolError, timedOut } from './errors.js';
import { isObject, type Json, type JsonObject } from './json.js';
import { Redactor } from './redacting.js';
import { writeReturned } from './returned.js';
import type { Method } from './served.js';
import { shown } from './showing.js';
import { Supply } from './supply.js';
import type { Call } from './wire/calls.js';
import { STATUS, writeFailure } from './wire/endings.js';
import type { Answer } from './wire/orders.js';
import type { Question, Reply } from './wire/questions.js';
import { CHANGED, type LogLevel, type Report, writeReport } from './wire/reports.js';

const MOST_BYTES = 2 * 1024 * 1024; // of a result; a hall reads that much, and may pass on less
const NOT_THERE = new Set(['TOOL_NOT_FOUND', 'METHOD_NOT_FOUND']);
const MOST_ASKED = 32; // questions of one call that wait for their answer
const MOST_CHANGES = 1_000; // that one call tells of
const EVENTS = new Set(['progress', 'log']); // what may be left out

/** Where messages about a call go, before the last. */
export interface Outlet {
  /** Events may be left out where the hall does not read; questions may not. */
  tell(message: string, isEvent: boolean): void;
}

/** The last message of a call, and the HTTP status of a reply that is it alone. */
export interface Ending {
  message: string;
  status: number;
}

interface Open {
  kind: Question['kind'] | undefined;
  resolve(replies: Record<string, Reply>): void;
  reject(error: ToolError): void;
}

const FEATURES = { form: 'elicitation', visit: 'elicitation.url', sample: 'sampling', roots: 'roots' } as const;

export class Running implements Link {
  /** Settles when the tool itself has ended, which may be after the call did. */
  readonly settled: Promise<void>;
  readonly ended: Promise<Ending>;
  readonly #controller = new AbortController();
  readonly #deadline: Deadline;
  readonly #open = new Map<number, Open>();
  #asked = 0;
  #changes = 0;
  #over = false;
  #end: (ending: Ending) => void = () => {};

  constructor(
    private readonly call: Call,
    private readonly method: Method,
    private readonly outlet: Outlet,
  ) {
    this.ended = new Promise((resolve) => {
      this.#end = resolve;
    });
    const seconds = call.context.timeout ?? method.declaration.timeout;
    this.#deadline = new Deadline(seconds, () => this.stop(timedOut()));
    this.settled = this.#run();
  }

  /** End it now; the tool sees that on its signal. */
  stop(error: ToolError): void {
    if (!this.#finish(failed(this.call, error))) return;
    this.#controller.abort(error);
    for (const each of this.#open.values()) each.reject(error);
  }

  /** Whether this question was open. */
  answer(answer: Answer): boolean {
    const open = this.#open.get(answer.number);
    if (open === undefined || this.#over) return false;
    this.#open.delete(answer.number);
    if (answer.later) {
      this.stop(cancelled());
      open.reject(cancelled());
    } else if (answer.error !== null) open.reject(refusal(answer.error, open.kind));
    else open.resolve(answer.answers);
    return true;
  }

  progress(progress: number, total: number | null, message: string | null): void {
    this.#tell({ kind: 'progress', id: this.call.id, progress, total, message });
  }

  log(level: LogLevel, data: Json): void {
    const logger = this.method.declaration.published ?? `${this.call.tool}_${this.call.method}`;
    this.#tell({ kind: 'log', id: this.call.id, level, data, logger });
  }

  changed(uri: string): void {
    const { reports } = this.call.context; // of another hall this message would break the call
    if (reports.includes(CHANGED) && ++this.#changes <= MOST_CHANGES)
      this.#tell({ kind: 'changed', id: this.call.id, uri });
  }

  ask(questions: Record<string, Question>, retryMs?: number): Promise<Record<string, Reply>> {
    if (this.#over) return Promise.reject(cancelled());
    if (this.#open.size >= MOST_ASKED) return Promise.reject(new Error('wait for answers before asking more'));
    const number = ++this.#asked;
    const replies = new Promise<Record<string, Reply>>((resolve, reject) => {
      this.#open.set(number, { kind: Object.values(questions)[0]?.kind, resolve, reject });
    });
    this.#tell({ kind: 'question', id: this.call.id, number, questions, retry_ms: retryMs ?? null });
    return this.#deadline.hold(replies);
  }

  async #run(): Promise<void> {
    const { caller, can } = this.call.context;
    const supply = new Supply(this.call.context, this.method.declaration.requirements);
    const ctx = new Context({ link: this, signal: this.#controller.signal, caller, can, supply });
    try {
      const returned = await this.#called(ctx);
      if (!this.#over) this.#finish(this.#written(returned));
    } catch (error) {
      if (!this.#over) this.#finish(failed(this.call, this.#meant(error)));
    }
  }

  async #called(ctx: Context): Promise<unknown> {
    const { complete } = this.call;
    if (complete === null) return await this.method.run(this.call, ctx);
    const { completions } = this.method;
    if (!Object.hasOwn(completions, complete)) throw noSuchMethod();
    return await completed(completions[complete] as Completion, this.call, ctx);
  }

  #written(returned: unknown): Ending {
    try {
      const message = writeReturned(this.call, this.method.declaration, returned);
      const size = Buffer.byteLength(message);
      if (size <= MOST_BYTES) return { message, status: 200 };
      this.#note(`the result is larger than ${MOST_BYTES} bytes`);
      return failed(this.call, badOutput(`the tool returned ${size} bytes; at most ${MOST_BYTES} are passed on`));
    } catch (error) {
      this.#note('the result cannot be written as JSON', error);
      return failed(this.call, badOutput('the tool returned something that cannot be written as JSON'));
    }
  }

  #meant(error: unknown): ToolError {
    if (error instanceof ToolError) return this.#told(error);
    this.#note('the tool crashed', error);
    return crashed();
  }

  /** Its own words, without what was lent to the call; what the hall acts on stays as it is. */
  #told(error: ToolError): ToolError {
    const redactor = new Redactor(this.call.context);
    const { started: _, ...details } = this.#plain(error.details); // whether it has begun is not the tool's to say
    const code = STATUS.has(error.code) ? error.code : redactor.text(String(error.code));
    const begun = NOT_THERE.has(code) ? { started: true } : {}; // the hall would ask another server
    return new ToolError(redactor.text(error.message), { code, details: { ...redactor.object(details), ...begun } });
  }

  /** As JSON says it. */
  #plain(details: JsonObject): JsonObject {
    try {
      const plain: unknown = JSON.parse(JSON.stringify(details));
      return isObject(plain) ? plain : {};
    } catch (error) {
      this.#note('the details of an error cannot be written as JSON', error);
      return {};
    }
  }

  /** For whoever runs this server, and without what was lent to the call. */
  #note(what: string, error?: unknown): void {
    const more = error === undefined ? '' : `: ${shown(error, new Redactor(this.call.context))}`;
    console.error(`${this.call.tool}.${this.call.method}: ${what}${more}`);
  }

  #tell(report: Report): void {
    if (!this.#over) this.outlet.tell(writeReport(report), EVENTS.has(report.kind));
  }

  /** Whether this was the end. */
  #finish(ending: Ending): boolean {
    if (this.#over) return false;
    this.#over = true;
    this.#deadline.stop();
    this.#end(ending);
    return true;
  }
}

/** The last message of a call that failed or was refused. */
export function failed(call: Pick<Call, 'id' | 'tool' | 'method'>, error: ToolError): Ending {
  const { id, tool, method } = call;
  const { code, message } = error;
  const details = { tool, method, ...error.details };
  const status = STATUS.get(code) ?? 400;
  return { message: writeFailure({ kind: 'failure', id, code, counts_as: code, message, details }), status };
}

function refusal(said: { code: string; message: string }, kind: Open['kind']): ToolError {
  const details = said.code === 'UNSUPPORTED' && kind !== undefined ? { feature: FEATURES[kind] } : {};
  return new ToolError(said.message, { code: said.code, details });
}
