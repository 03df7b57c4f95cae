/** Blocks of content in MCP's words. */
import { anyTextIn, Malformed, objectIn, oneOf, optionalObject } from './fields.js';
const TYPES = ['text', 'image', 'audio', 'resource_link', 'resource'];
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
export function readBlocks(listed) {
    if (Array.isArray(listed))
        return listed.map(readBlock);
    throw new Malformed('content must be a list');
}
function readBlock(value) {
    const block = objectIn(value, 'a block of content');
    optionalObject(block, 'annotations');
    optionalObject(block, '_meta');
    const type = oneOf(block, 'type', TYPES);
    if (type === 'text')
        anyTextIn(block, 'text');
    else if (type === 'resource_link')
        [anyTextIn(block, 'uri'), anyTextIn(block, 'name')];
    else if (type === 'resource')
        readResource(objectIn(block.resource, 'resource'));
    else
        [base64In(block, 'data'), anyTextIn(block, 'mimeType')];
    return block;
}
function readResource(resource) {
    anyTextIn(resource, 'uri');
    if ('blob' in resource)
        base64In(resource, 'blob');
    else
        anyTextIn(resource, 'text');
}
function base64In(from, key) {
    if (!BASE64.test(anyTextIn(from, key)))
        throw new Malformed(`${key} must be base64`);
}
