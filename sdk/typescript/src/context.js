/** The line from a running tool to whoever called it; an unconnected one does nothing. */
import { unsupported } from './errors.js';
import { jsonSchemaOf, taken } from './schema.js';
import { refuseSecrets } from './secret-names.js';
import { Supply } from './supply.js';
const NOWHERE = { progress: () => { }, log: () => { }, ask: async () => ({}) };
export class Context {
    /** Aborted when the call is cancelled, over its deadline, or its caller is gone. */
    signal;
    /** Who calls, as proven to the hall. */
    caller;
    // Private, so that printing a context shows no secret.
    #link;
    #can;
    #supply;
    #asked = 0;
    constructor(parts = {}) {
        this.#link = parts.link ?? NOWHERE;
        this.signal = parts.signal ?? new AbortController().signal;
        this.caller = parts.caller ?? null;
        this.#can = new Set(parts.can ?? []);
        this.#supply = parts.supply ?? new Supply();
    }
    /** Whether nobody waits for the answer any more. */
    get cancelled() {
        return this.signal.aborted;
    }
    /** Who is called for, as proven; always there for a tool that requires `userId`. */
    get userId() {
        return this.#supply.userId ?? provenUser(this.caller) ?? undefined;
    }
    /** Whether the caller's program can do this. */
    can(feature) {
        return this.#can.has(feature);
    }
    /** The value of a secret that the tool declares in `requires`. */
    secret(id) {
        return this.#supply.secret(id);
    }
    /** The user's account that the tool declares in `requires`; the provider may be left out where there is one only. */
    account(provider) {
        return this.#supply.account(provider);
    }
    /** Tell the caller how far the work has come; `done` must rise. */
    progress(done, total, message) {
        this.#link.progress(done, total ?? null, message ?? null);
    }
    /** Tell the caller something while the tool runs. */
    log(level, data) {
        // What cannot be written fails here, also where nobody listens.
        this.#link.log(level, JSON.parse(JSON.stringify(data) ?? 'null'));
    }
    debug(data) {
        this.log('debug', data);
    }
    info(data) {
        this.log('info', data);
    }
    warning(data) {
        this.log('warning', data);
    }
    error(data) {
        this.log('error', data);
    }
    /**
     * Ask the person to fill in a few plain fields. Never ask for a secret.
     *
     * Some clients answer with a call of their own, so the tool starts again: do nothing irreversible before asking.
     */
    ask(message, form, key) {
        return quiet(this.#ask(message, form, key));
    }
    async #ask(message, form, key) {
        const schema = jsonSchemaOf(form, 'input');
        refuseSecrets(schema);
        const reply = await this.#one('elicitation', { kind: 'form', message, schema }, key);
        if (reply?.kind !== 'filled')
            return { action: 'cancel' };
        if (reply.action !== 'accept')
            return { action: reply.action };
        return { action: 'accept', value: (await taken(form, reply.content ?? {})) };
    }
    /** Ask the person to open a page; true once they agree. What happens there does not pass through the client. */
    visit(message, url, key) {
        return quiet(this.#visit(message, url, key));
    }
    async #visit(message, url, key) {
        const reply = await this.#one('elicitation.url', { kind: 'visit', message, url, id: key }, key);
        return reply?.kind === 'filled' && reply.action === 'accept';
    }
    /** Let the client's model answer. */
    sample(prompt, options = {}) {
        return quiet(this.#sample(prompt, options));
    }
    async #sample(prompt, options) {
        const said = { role: 'user', content: { type: 'text', text: prompt } };
        const messages = typeof prompt === 'string' ? [said] : prompt;
        const { maxTokens = 1024, system = null, temperature = null, stop = [], key } = options;
        const question = { kind: 'sample', messages, max_tokens: maxTokens, system, temperature, stop };
        const reply = await this.#one('sampling', question, key);
        if (reply?.kind === 'sampled')
            return reply;
        return { kind: 'sampled', role: 'assistant', content: [], model: '', stop_reason: null };
    }
    /** The folders that the client works in. */
    roots(key) {
        return quiet(this.#roots(key));
    }
    async #roots(key) {
        const reply = await this.#one('roots', { kind: 'roots' }, key);
        return reply?.kind === 'rooted' ? reply.roots : [];
    }
    /** Before a long wait: let the client hang up and fetch the answer later, where it can. */
    detach(retryMs = 500) {
        return quiet(this.#detach(retryMs));
    }
    async #detach(retryMs) {
        await this.#link.ask({}, retryMs);
    }
    async #one(feature, question, key) {
        if (this.#link !== NOWHERE && !this.can(feature))
            throw unsupported(feature);
        this.#asked += 1;
        const name = key ?? `${question.kind}_${this.#asked}`;
        return (await this.#link.ask({ [name]: question }))[name];
    }
}
function provenUser(caller) {
    if (caller === null || caller.acting_for !== null)
        return caller?.acting_for ?? null;
    return caller.proof === 'none' || caller.proof === 'shared' ? null : (caller.person ?? caller.id);
}
/** A question that a tool does not wait for may be refused without ending the process. */
function quiet(work) {
    work.catch(() => { });
    return work;
}
