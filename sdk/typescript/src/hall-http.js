/** Messages to a hall's `POST /hub`, over connections of its own. */
import * as http from 'node:http';
import * as https from 'node:https';
import { HallAway } from './hall-error.js';
import { parse } from './wire/orders.js';
const MOST_BYTES = 16 * 1024 * 1024;
export class HallHttp {
    #url;
    #agent;
    #headers;
    #closed = new AbortController();
    constructor(hall, key) {
        this.#url = hubUrl(hall);
        const options = { keepAlive: true };
        this.#agent = this.#url.protocol === 'https:' ? new https.Agent(options) : new http.Agent(options);
        this.#headers = { 'content-type': 'application/json', ...(key && { authorization: `Bearer ${key}` }) };
    }
    /** The reply, whatever its status: the body says what became of the message. */
    async post(message, timeoutMs, signal) {
        const signals = [this.#closed.signal, ...(signal ? [signal] : [])];
        if (timeoutMs !== null)
            signals.push(AbortSignal.timeout(timeoutMs));
        const { status, body } = await this.#send(message, AbortSignal.any(signals));
        try {
            return parse(body);
        }
        catch {
            throw new HallAway(`the hall answered with status ${status} and no message`);
        }
    }
    close() {
        this.#closed.abort();
        this.#agent.destroy();
    }
    #send(message, signal) {
        const send = this.#url.protocol === 'https:' ? https.request : http.request;
        const headers = { ...this.#headers, 'content-length': Buffer.byteLength(message) };
        return new Promise((resolve, reject) => {
            const away = (error) => reject(new HallAway(`the hall at ${this.#url.host} cannot be reached (${error.code ?? error.name})`));
            const request = send(this.#url, { method: 'POST', agent: this.#agent, headers, signal }, (response) => {
                collected(response).then((body) => resolve({ status: response.statusCode ?? 0, body }), away);
            });
            request.on('error', away);
            request.end(message);
        });
    }
}
/** Where a hall takes messages, whether its address ends with `/hub` or not. */
export function hubUrl(hall) {
    const url = new URL(hall);
    url.pathname = url.pathname.replace(/(\/hub)?\/*$/, '/hub');
    return url;
}
async function collected(response) {
    const chunks = [];
    let size = 0;
    for await (const chunk of response) {
        size += chunk.length;
        if (size > MOST_BYTES)
            throw new Error('TOO_LARGE');
        chunks.push(chunk);
    }
    return Buffer.concat(chunks).toString();
}
