/** What JSON can say. */
export function isObject(value) {
    return typeof value === 'object' && value !== null && !Array.isArray(value);
}
/** The same object without members that have nothing to say. */
export function stated(members) {
    return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== null && value !== undefined));
}
