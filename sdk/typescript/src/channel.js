/** The way on which a tool server asks its hall: requests over HTTP, or over the socket that it is called on. */
import { HallError } from './hall-error.js';
import { HallHttp } from './hall-http.js';
import { readResponse } from './wire/endings.js';
import { writeRequest } from './wire/orders.js';
export class HttpChannel {
    broken = new AbortController().signal; // each request finds its own way
    #hall;
    #count = 0;
    constructor(hall, key) {
        this.#hall = new HallHttp(hall, key);
    }
    async ask(method, params, timeoutMs) {
        const id = String(++this.#count);
        return resultOf(await this.#hall.post(writeRequest({ kind: 'request', id, method, params }), timeoutMs));
    }
    close() {
        this.#hall.close();
    }
}
export function resultOf(message) {
    const { result, error } = readResponse(message);
    if (error !== null)
        throw new HallError(error.code, error.message, error.details);
    return result ?? {};
}
