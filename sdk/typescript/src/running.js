/** One call while it runs: what its tool tells and asks, its deadline, and its one end. */
import { Context } from './context.js';
import { Deadline } from './deadline.js';
import { badOutput, cancelled, crashed, ToolError, timedOut } from './errors.js';
import { writeReturned } from './returned.js';
import { Supply } from './supply.js';
import { STATUS, writeFailure } from './wire/endings.js';
import { writeReport } from './wire/reports.js';
const MOST_BYTES = 4 * 1024 * 1024; // of a result; the hall may allow less
const FEATURES = { form: 'elicitation', visit: 'elicitation.url', sample: 'sampling', roots: 'roots' };
export class Running {
    call;
    method;
    outlet;
    /** Settles when the tool itself has ended, which may be after the call did. */
    settled;
    ended;
    #controller = new AbortController();
    #deadline;
    #open = new Map();
    #asked = 0;
    #over = false;
    #end = () => { };
    constructor(call, method, outlet) {
        this.call = call;
        this.method = method;
        this.outlet = outlet;
        this.ended = new Promise((resolve) => {
            this.#end = resolve;
        });
        const seconds = call.context.timeout ?? method.declaration.timeout;
        this.#deadline = new Deadline(seconds, () => this.stop(timedOut()));
        this.settled = this.#run();
    }
    /** End it now; the tool sees that on its signal. */
    stop(error) {
        if (!this.#finish(failed(this.call, error)))
            return;
        this.#controller.abort(error);
        for (const each of this.#open.values())
            each.reject(error);
    }
    /** Whether this question was open. */
    answer(answer) {
        const open = this.#open.get(answer.number);
        if (open === undefined || this.#over)
            return false;
        this.#open.delete(answer.number);
        if (answer.later) {
            this.stop(cancelled());
            open.reject(cancelled());
        }
        else if (answer.error !== null)
            open.reject(refusal(answer.error, open.kind));
        else
            open.resolve(answer.answers);
        return true;
    }
    progress(progress, total, message) {
        this.#tell({ kind: 'progress', id: this.call.id, progress, total, message });
    }
    log(level, data) {
        const logger = `${this.call.tool}.${this.call.method}`;
        this.#tell({ kind: 'log', id: this.call.id, level, data, logger });
    }
    ask(questions, retryMs) {
        if (this.#over)
            return Promise.reject(cancelled());
        const number = ++this.#asked;
        const replies = new Promise((resolve, reject) => {
            this.#open.set(number, { kind: Object.values(questions)[0]?.kind, resolve, reject });
        });
        this.#tell({ kind: 'question', id: this.call.id, number, questions, retry_ms: retryMs ?? null });
        return this.#deadline.hold(replies);
    }
    async #run() {
        const { caller, can } = this.call.context;
        const supply = new Supply(this.call.context, this.method.declaration.requirements);
        const ctx = new Context({ link: this, signal: this.#controller.signal, caller, can, supply });
        try {
            const returned = await this.method.run(this.call, ctx);
            if (!this.#over)
                this.#finish(this.#written(returned));
        }
        catch (error) {
            if (!this.#over)
                this.#finish(failed(this.call, this.#meant(error)));
        }
    }
    #written(returned) {
        try {
            const message = writeReturned(this.call.id, returned);
            if (Buffer.byteLength(message) <= MOST_BYTES)
                return { message, status: 200 };
            console.error(`${this.#name}: the result is larger than ${MOST_BYTES} bytes`);
        }
        catch (error) {
            console.error(`${this.#name}: the result cannot be written as JSON`, error);
        }
        return failed(this.call, badOutput());
    }
    #meant(error) {
        if (error instanceof ToolError)
            return error;
        console.error(`${this.#name}: the tool crashed`, error);
        return crashed();
    }
    get #name() {
        return `${this.call.tool}.${this.call.method}`;
    }
    #tell(report) {
        if (!this.#over)
            this.outlet.tell(writeReport(report), report.kind !== 'question');
    }
    /** Whether this was the end. */
    #finish(ending) {
        if (this.#over)
            return false;
        this.#over = true;
        this.#deadline.stop();
        this.#end(ending);
        return true;
    }
}
/** The last message of a call that failed or was refused. */
export function failed(call, error) {
    const { id, tool, method } = call;
    const { code, message } = error;
    const details = { tool, method, ...error.details };
    const status = STATUS.get(code) ?? 400;
    return { message: writeFailure({ kind: 'failure', id, code, counts_as: code, message, details }), status };
}
function refusal(said, kind) {
    const details = said.code === 'UNSUPPORTED' && kind !== undefined ? { feature: FEATURES[kind] } : {};
    return new ToolError(said.message, { code: said.code, details });
}
