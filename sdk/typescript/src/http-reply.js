/** The reply to one POST: a single JSON, or lines as soon as the tool tells or asks something. */
const CROWDED = 1024 * 1024; // bytes that the hall has not read yet
export class HttpReply {
    response;
    #streams = false;
    constructor(response) {
        this.response = response;
    }
    tell(message, isEvent) {
        if (this.response.writableEnded || this.response.destroyed)
            return;
        if (isEvent && this.response.writableLength > CROWDED)
            return;
        if (!this.#streams) {
            this.response.writeHead(200, { 'content-type': 'application/x-ndjson', 'cache-control': 'no-store' });
            this.#streams = true;
        }
        this.response.write(`${message}\n`);
    }
    end(ending, headers = {}) {
        if (this.response.writableEnded || this.response.destroyed)
            return;
        if (this.#streams) {
            this.response.end(`${ending.message}\n`);
            return;
        }
        const body = Buffer.from(ending.message);
        const type = { 'content-type': 'application/json', 'cache-control': 'no-store' };
        this.response.writeHead(ending.status, { ...type, ...headers, 'content-length': body.length }).end(body);
    }
}
