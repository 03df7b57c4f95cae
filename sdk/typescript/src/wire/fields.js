/** Members of a message: each is read, or refused with what to change. */
import { isObject } from '../json.js';
const LONGEST = 256;
/** A message that cannot be read; its text may be shown to whoever sent it, and holds nothing of the message. */
export class Malformed extends Error {
    name = 'Malformed';
    id = null;
    isCall = false;
}
export function objectIn(value, name) {
    if (isObject(value))
        return value;
    throw new Malformed(`${name} must be an object`);
}
export function textIn(from, key, longest = LONGEST) {
    const value = from[key];
    if (typeof value === 'string' && value.length > 0 && value.length <= longest)
        return value;
    throw new Malformed(`${key} must be a text of 1 to ${longest} characters`);
}
/** Any text, of any length, also an empty one. */
export function anyTextIn(from, key) {
    const value = from[key];
    if (typeof value === 'string')
        return value;
    throw new Malformed(`${key} must be a text`);
}
export function optionalText(from, key) {
    return from[key] === undefined || from[key] === null ? null : anyTextIn(from, key);
}
export function numberIn(from, key) {
    const value = from[key];
    if (typeof value === 'number')
        return value;
    throw new Malformed(`${key} must be a number`);
}
export function optionalNumber(from, key) {
    return from[key] === undefined || from[key] === null ? null : numberIn(from, key);
}
export function optionalObject(from, key) {
    return from[key] === undefined || from[key] === null ? null : objectIn(from[key], key);
}
export function textsIn(from, key) {
    const value = from[key] ?? [];
    if (Array.isArray(value) && value.every((each) => typeof each === 'string'))
        return value;
    throw new Malformed(`${key} must be a list of texts`);
}
export function oneOf(from, key, known) {
    const value = from[key];
    const found = known.find((each) => each === value);
    if (found !== undefined)
        return found;
    throw new Malformed(`${key} must be one of ${known.join(', ')}`);
}
export function idIn(from) {
    const value = from.id ?? null;
    if (value === null || (typeof value === 'string' && value.length <= LONGEST))
        return value;
    if (typeof value === 'number' && Number.isSafeInteger(value))
        return value;
    throw new Malformed(`id must be a text of at most ${LONGEST} characters, or a whole number`);
}
