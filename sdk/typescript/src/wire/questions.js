/** What a running tool may ask of whoever called it, and what they reply. */
import { stated } from '../json.js';
import { anyTextIn, Malformed, numberIn, objectIn, oneOf, optionalNumber, optionalObject, optionalText, textsIn, } from './fields.js';
const ACTIONS = ['accept', 'decline', 'cancel'];
export function readQuestion(value) {
    const from = objectIn(value, 'a question');
    const kind = oneOf(from, 'kind', ['form', 'visit', 'sample', 'roots']);
    if (kind === 'roots')
        return { kind };
    if (kind === 'sample')
        return readSample(from);
    const message = anyTextIn(from, 'message');
    if (kind === 'form')
        return { kind, message, schema: objectIn(from.schema, 'schema') };
    return { kind, message, url: anyTextIn(from, 'url'), id: anyTextIn(from, 'id') };
}
export function writeQuestion(question) {
    if (question.kind !== 'sample')
        return { ...question };
    const { kind, messages, max_tokens, system, temperature, stop } = question;
    return { kind, messages, max_tokens, ...stated({ system, temperature, stop: stop.length > 0 ? stop : null }) };
}
export function readReply(value) {
    const from = objectIn(value, 'an answer');
    const kind = oneOf(from, 'kind', ['filled', 'sampled', 'rooted']);
    if (kind === 'rooted')
        return { kind, roots: listIn(from, 'roots').map(readRoot) };
    if (kind === 'filled') {
        return { kind, action: oneOf(from, 'action', ACTIONS), content: optionalObject(from, 'content') };
    }
    const [role, model] = [anyTextIn(from, 'role'), anyTextIn(from, 'model')];
    return { kind, role, content: from.content ?? null, model, stop_reason: optionalText(from, 'stop_reason') };
}
function readSample(from) {
    return {
        kind: 'sample',
        messages: listIn(from, 'messages').map((each) => objectIn(each, 'a message')),
        max_tokens: numberIn(from, 'max_tokens'),
        system: optionalText(from, 'system'),
        temperature: optionalNumber(from, 'temperature'),
        stop: textsIn(from, 'stop'),
    };
}
function readRoot(value) {
    const root = objectIn(value, 'a root');
    return { uri: anyTextIn(root, 'uri'), name: optionalText(root, 'name') };
}
function listIn(from, key) {
    const value = from[key];
    if (Array.isArray(value))
        return value;
    throw new Malformed(`${key} must be a list`);
}
/** Each value of an object, read. */
export function readEach(values, read) {
    return Object.fromEntries(Object.entries(values).map(([key, value]) => [key, read(value)]));
}
