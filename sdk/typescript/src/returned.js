/** What a tool returned, as its last message. */
import { isContent, Reply } from './content.js';
import { writeEnd } from './wire/endings.js';
/** Throws for what JSON cannot say. */
export function writeReturned(id, returned) {
    return writeEnd({ kind: 'end', id, ...meaning(returned) });
}
function meaning(returned) {
    if (returned === undefined)
        return { nothing: true };
    if (isContent(returned))
        return { content: [returned] };
    if (Array.isArray(returned) && returned.length > 0 && returned.every(isContent))
        return { content: returned };
    if (!(returned instanceof Reply))
        return { value: returned };
    const { content = [], value, meta, isError } = returned.options;
    const more = { content, ...(meta && { meta }), ...(isError && { is_error: true }) };
    return value === undefined ? more : { value: value, ...more };
}
