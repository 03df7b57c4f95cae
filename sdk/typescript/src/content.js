/** Content that a tool returns: text, pictures, sound, files; alone, in a list, or in a `reply` with a value. */
/** Tells a block from a value that merely looks like one; JSON does not show it. */
const MADE = Symbol('@toolhall/sdk content');
export const text = (words, notes) => made({ type: 'text', text: words }, notes);
export const image = (data, mimeType = 'image/png', notes) => made({ type: 'image', data: base64(data), mimeType }, notes);
export const audio = (data, mimeType = 'audio/wav', notes) => made({ type: 'audio', data: base64(data), mimeType }, notes);
/** A file that the client may fetch. */
export function link(uri, name, options = {}) {
    const { annotations, meta, ...more } = options;
    return made({ type: 'resource_link', uri, name, ...more }, { ...(annotations && { annotations }), ...(meta && { meta }) });
}
/** A file itself: text, or bytes. */
export function resource(uri, held, mimeType, notes) {
    const inside = typeof held === 'string' ? { text: held } : { blob: base64(held) };
    return made({ type: 'resource', resource: { uri, ...(mimeType !== undefined && { mimeType }), ...inside } }, notes);
}
/** Content and a value together, or either with metadata. */
export class Reply {
    options;
    constructor(options) {
        this.options = options;
    }
}
export const reply = (options) => new Reply(options);
export function isContent(value) {
    return typeof value === 'object' && value !== null && MADE in value;
}
function made(block, notes = {}) {
    const { annotations, meta } = notes;
    return { ...block, ...(annotations && { annotations }), ...(meta && { _meta: meta }), [MADE]: true };
}
function base64(data) {
    return Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('base64');
}
