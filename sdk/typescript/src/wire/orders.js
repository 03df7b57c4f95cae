/** Everything that a hall sends to a tool server: calls, answers to questions, and requests of its own. */
import { isObject } from '../json.js';
import { readCall } from './calls.js';
import { anyTextIn, idIn, Malformed, numberIn, optionalObject, textIn } from './fields.js';
import { readEach, readReply } from './questions.js';
export function readOrder(body) {
    const message = parse(body);
    try {
        return read(message);
    }
    catch (error) {
        // The refusal goes back under the id of what it refuses, where that can be read.
        if (error instanceof Malformed) {
            error.isCall = message.type === 'tool_request';
            error.id = knownId(message);
        }
        throw error;
    }
}
export function writeAnswer(answer) {
    const { id, number, answers, error, later } = answer;
    const said = later ? { later } : error === null ? { answers } : { error };
    return JSON.stringify({ type: 'tool_answer', id, number, ...said });
}
export function writeRequest(request) {
    const { id, method, params } = request;
    return JSON.stringify({ type: 'request', id, method, params });
}
/** One JSON object. */
export function parse(body) {
    let message;
    try {
        message = JSON.parse(body);
    }
    catch {
        // What the parser says quotes the message, which may hold a secret.
        throw new Malformed('the message is not JSON');
    }
    if (isObject(message))
        return message;
    throw new Malformed('send one JSON object');
}
function read(message) {
    switch (message.type) {
        case 'tool_request':
            return readCall(message);
        case 'tool_answer':
            return readAnswer(message);
        case 'request':
            return readRequest(message);
        default:
            throw new Malformed('type must be tool_request, tool_answer or request');
    }
}
function readAnswer(message) {
    const error = optionalObject(message, 'error');
    return {
        kind: 'answer',
        id: idIn(message),
        number: numberIn(message, 'number'),
        answers: readEach(optionalObject(message, 'answers') ?? {}, readReply),
        error: error && { code: anyTextIn(error, 'code'), message: anyTextIn(error, 'message') },
        later: message.later === true,
    };
}
function readRequest(message) {
    const [id, method] = [idIn(message), textIn(message, 'method')];
    return { kind: 'request', id, method, params: optionalObject(message, 'params') ?? {} };
}
function knownId(message) {
    try {
        return idIn(message);
    }
    catch {
        return null;
    }
}
