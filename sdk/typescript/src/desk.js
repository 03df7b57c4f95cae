/** Runs the calls of a tool server, whatever brings them. */
import { cancelled, noSuchMethod, noSuchTool, notStarted, ToolError } from './errors.js';
import { healthOf } from './health.js';
import { failed, Running } from './running.js';
import { writeResponse } from './wire/endings.js';
const MOST_CALLS = 1_000;
export class Desk {
    served;
    most;
    /** Nothing new is begun; what runs goes on. */
    draining = false;
    #running = new Map();
    #waiting = new Set();
    #busy = 0;
    constructor(served, most = MOST_CALLS) {
        this.served = served;
        this.most = most;
    }
    /** Begin a call; `stop` ends it because its caller is gone. */
    begin(call, outlet) {
        const key = keyOf(call.id);
        const refused = (error) => ({ ended: Promise.resolve(failed(call, error)), stop: () => { } });
        // A tool that does not look at its signal is still at work after its call has ended, and counts.
        if (this.draining || this.#busy >= this.most)
            return refused(notStarted());
        if (this.#running.has(key))
            return refused(taken());
        const method = this.#find(call);
        if (method instanceof ToolError)
            return refused(method);
        const running = new Running(call, method, outlet);
        this.#watch(key, running);
        return { ended: running.ended, stop: () => running.stop(cancelled()) };
    }
    /** Whether somebody waited for this answer. */
    answer(answer) {
        return this.#running.get(keyOf(answer.id))?.answer(answer) ?? false;
    }
    /** The reply to a request that is no call. */
    async request(request) {
        const { id, method, params } = request;
        if (method === 'cancel')
            return responded(id, { status: this.#cancel(params.id) ? 'cancelled' : 'not_running' });
        if (method === 'health_check')
            return responded(id, (await this.health()));
        const error = { code: 'METHOD_NOT_FOUND', message: 'this tool server has no such method', details: {} };
        return { message: writeResponse({ kind: 'response', id, result: null, error }), status: 400 };
    }
    health() {
        return healthOf(this.served);
    }
    /** Resolves when no call runs. */
    async idle() {
        if (this.#running.size > 0)
            await new Promise((resolve) => this.#waiting.add(resolve));
    }
    stopAll() {
        for (const each of this.#running.values())
            each.stop(cancelled());
    }
    #cancel(id) {
        const running = this.#running.get(keyOf(id));
        running?.stop(cancelled());
        return running !== undefined;
    }
    #find(call) {
        const named = this.served.filter(({ declaration }) => declaration.name === call.tool);
        const kit = named.findLast(({ declaration }) => call.version === null || declaration.version === call.version);
        return kit === undefined ? noSuchTool() : (kit.methods.get(call.method) ?? noSuchMethod());
    }
    #watch(key, running) {
        this.#running.set(key, running);
        this.#busy += 1;
        void running.settled.then(() => {
            this.#busy -= 1;
        });
        void running.ended.then(() => {
            this.#running.delete(key);
            if (this.#running.size > 0)
                return;
            for (const resolve of this.#waiting)
                resolve();
            this.#waiting.clear();
        });
    }
}
export function responded(id, result) {
    return { message: writeResponse({ kind: 'response', id, result, error: null }), status: 200 };
}
let nameless = 0;
/** A call without an id can be neither cancelled nor answered by one, and is in nobody's way. */
function keyOf(id) {
    return id === null || id === undefined ? `nameless ${++nameless}` : `${typeof id} ${id}`;
}
function taken() {
    return new ToolError('a call with this id is running; use another id', { code: 'INVALID_REQUEST' });
}
