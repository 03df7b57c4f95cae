/** The lease of a tool server at its hall: it joins, shows that it is there, joins again when it must, and leaves. */
import { HallAway, HallError } from './hall-error.js';
import { pause } from './waiting.js';
const JOIN_MS = 10_000;
const BEAT_MS = 5_000;
const LEAVE_MS = 40_000; // the hall answers after 30 seconds at the latest
const HEARTBEAT = 5;
export class Membership {
    parts;
    /** Resolves once joined; rejects if the hall refuses that the first time. */
    joined;
    lease = '';
    tools = {};
    #leaving = new AbortController();
    #over;
    #channel;
    #heartbeat = HEARTBEAT;
    #everJoined = false;
    #tries = 0;
    #said = '';
    constructor(parts) {
        this.parts = parts;
        let first = () => { };
        this.joined = new Promise((resolve, reject) => {
            first = (error) => (error === undefined ? resolve() : reject(error));
        });
        this.#over = this.#run(first);
    }
    /** Whether the hall heard it, and so has no call left here. */
    async leave() {
        this.#leaving.abort();
        await this.#over;
        if (this.#channel === undefined || this.lease === '')
            return false;
        try {
            await this.#channel.ask('leave', { lease: this.lease }, LEAVE_MS);
            return true;
        }
        catch {
            return false;
        }
    }
    close() {
        this.#channel?.close();
    }
    async #run(first) {
        while (!this.#leaving.signal.aborted) {
            try {
                const channel = await this.#join();
                first();
                await this.#stay(channel);
            }
            catch (error) {
                this.lease = '';
                if (!this.#everJoined && isRefusal(error))
                    return first(error);
                if (error instanceof HallError && error.code === 'LEASE_UNKNOWN')
                    continue;
                this.#complain(error);
                this.#drop();
                await pause(this.#wait(), this.#leaving.signal);
            }
        }
        first(new HallAway('it left before it had joined'));
    }
    async #join() {
        const channel = this.#channel ?? (await this.parts.open());
        this.#channel = channel;
        const result = await channel.ask('join', this.parts.params, JOIN_MS);
        this.lease = String(result.lease ?? '');
        this.#heartbeat = typeof result.heartbeat === 'number' ? result.heartbeat : HEARTBEAT;
        this.tools = (result.tools ?? {});
        if (this.#everJoined || this.#said !== '')
            this.parts.log('joined the hall again');
        this.#everJoined = true;
        this.#tries = 0;
        this.#said = '';
        return channel;
    }
    /** Returns when it is time to leave, throws when it must join again. */
    async #stay(channel) {
        const woken = AbortSignal.any([this.#leaving.signal, channel.broken]);
        for (;;) {
            await pause(this.#heartbeat * 1000, woken);
            if (this.#leaving.signal.aborted)
                return;
            const params = { lease: this.lease, status: await this.parts.status() };
            const result = await channel.ask('heartbeat', params, BEAT_MS);
            this.tools = (result.tools ?? this.tools);
        }
    }
    #drop() {
        this.#channel?.close();
        this.#channel = undefined;
    }
    /** Each trouble is said once, not at every try. */
    #complain(error) {
        const said = error instanceof Error ? error.message : String(error);
        if (said !== this.#said)
            this.parts.log(`${said}; trying to join again`);
        this.#said = said;
    }
    #wait() {
        const { first, most } = this.parts.retry;
        const seconds = Math.min(first * 2 ** this.#tries++, most);
        return seconds * 1000 * (0.75 + Math.random() / 4);
    }
}
function isRefusal(error) {
    return error instanceof HallError ? !error.passes : !(error instanceof HallAway);
}
