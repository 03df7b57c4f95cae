/** A client of a hall, typed by the toolkits that it calls. */
import { resultOf } from './channel.js';
import { ToolError } from './errors.js';
import { HallError } from './hall-error.js';
import { HallHttp } from './hall-http.js';
import { readDeclaration } from './wire/declarations.js';
import { readEnding } from './wire/endings.js';
import { writeRequest } from './wire/orders.js';
export function connect(options) {
    const hall = new HallHttp(options.url, options.key ?? process.env.TOOLHALL_KEY);
    return {
        call: async (tool, args, more = {}) => (await called(hall, tool, args, more)),
        list: () => listed(hall),
        close: () => hall.close(),
    };
}
let count = 0;
async function called(hall, name, params, options) {
    const [tool = '', method = ''] = name.split(/\.(.*)/s);
    const { version, timeout, signal } = options;
    const metadata = version === undefined ? {} : { metadata: { version } };
    const message = JSON.stringify({ type: 'tool_request', id: String(++count), tool, method, params, ...metadata });
    const reply = await hall.post(message, timeout === undefined ? null : timeout * 1000, signal);
    if (reply.type === 'response')
        return resultOf(reply); // a refusal of the hall itself
    const ending = readEnding(reply);
    if (ending.kind === 'end')
        return ending.value ?? {};
    const { code, details } = ending;
    throw new ToolError(ending.message, { code, details });
}
async function listed(hall) {
    const found = [];
    let params = {};
    for (;;) {
        const id = String(++count);
        const result = resultOf(await hall.post(writeRequest({ kind: 'request', id, method: 'list_tools', params }), null));
        if (!Array.isArray(result.tools))
            throw new HallError('INTERNAL_ERROR', 'the hall lists no tools');
        found.push(...result.tools.map(readDeclaration));
        if (typeof result.nextCursor !== 'string')
            return found;
        params = { cursor: result.nextCursor };
    }
}
