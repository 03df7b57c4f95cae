/** A message from the hall, whatever brought it, given to the desk. */
import { responded } from './desk.js';
import { ToolError } from './errors.js';
import { failed } from './running.js';
import { writeResponse } from './wire/endings.js';
import { Malformed } from './wire/fields.js';
import { readOrder } from './wire/orders.js';
export function receive(desk, body, outlet) {
    const stop = () => { };
    let order;
    try {
        order = readOrder(body);
    }
    catch (error) {
        if (!(error instanceof Malformed))
            throw error;
        return { kind: 'refused', ended: Promise.resolve(refused(error)), stop };
    }
    switch (order.kind) {
        case 'call':
            return { kind: order.kind, ...desk.begin(order, outlet) };
        case 'answer': {
            const status = desk.answer(order) ? 'ok' : 'not_running';
            return { kind: order.kind, ended: Promise.resolve(responded(null, { status })), stop };
        }
        case 'request':
            return { kind: order.kind, ended: desk.request(order), stop };
    }
}
function refused(error) {
    const { id, message } = error;
    if (error.isCall)
        return failed({ id, tool: '', method: '' }, new ToolError(message, { code: 'INVALID_REQUEST' }));
    return refusal(400, 'INVALID_REQUEST', message, id);
}
export function refusal(status, code, message, id = null) {
    const error = { code, message, details: {} };
    return { message: writeResponse({ kind: 'response', id, result: null, error }), status };
}
