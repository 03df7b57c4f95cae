/** A toolkit as `join` declares it: the hub's own form, and one key of ours for what it cannot say. */
import { isObject, stated } from '../json.js';
import { Malformed, objectIn, oneOf, optionalNumber, optionalObject, optionalText, textIn, textsIn } from './fields.js';
export const TOOL_KEY = 'dev.toolhall/tool';
export const TOOLKIT_KEY = 'dev.toolhall/toolkit';
const EFFECTS = ['reads', 'writes', 'destroys'];
const VERSION = /^(?:\d+\.\d+\.\d+(?:[-+][0-9A-Za-z.+-]+)?|\d+)$/;
const HIGHEST = 10;
export function writeDeclaration(declaration) {
    const { name, version, title, description, resources } = declaration;
    const capabilities = { methods: declaration.tools.map(writeMethod), ...(resources && { resources }) };
    const about = stated({ title, description });
    const more = Object.keys(about).length > 0 ? { [TOOLKIT_KEY]: about } : {};
    return { tool: { name, version, capabilities, ...more } };
}
export function readDeclaration(document) {
    const tool = objectIn(objectIn(document, 'a declaration').tool, 'tool');
    const version = textIn(tool, 'version');
    if (!VERSION.test(version))
        throw new Malformed('version must be three numbers such as 1.2.0, a date or a count');
    const capabilities = objectIn(tool.capabilities, 'capabilities');
    const about = optionalObject(tool, TOOLKIT_KEY) ?? {};
    return {
        name: textIn(tool, 'name'),
        version,
        title: optionalText(about, 'title'),
        description: optionalText(about, 'description'),
        resources: capabilities.resources === undefined ? null : readListed(capabilities.resources, 'resources'),
        tools: readMethods(capabilities.methods),
    };
}
function writeMethod(method) {
    const { name, description, input, published, title, effect, level, timeout, tags } = method;
    const { annotations, requirements, meta, output } = method;
    const some = { name: published, title, effect, level, timeout, tags: tags.length > 0 ? tags : null };
    const more = stated({ ...some, annotations, requirements, meta });
    if (output.kind !== 'unstated')
        more.returns = output.kind === 'none' ? null : output.schema;
    const beyond = Object.keys(more).length > 0 ? { [TOOL_KEY]: more } : {};
    return { name, ...stated({ description }), params: input, ...beyond };
}
function readMethods(listed) {
    const methods = readListed(listed, 'methods').map(readMethod);
    if (methods.length === 0)
        throw new Malformed('declare at least one method');
    const names = new Set(methods.map((each) => each.name));
    if (names.size < methods.length)
        throw new Malformed('two methods have the same name');
    return methods;
}
function readMethod(method) {
    const more = optionalObject(method, TOOL_KEY) ?? {};
    return {
        name: textIn(method, 'name'),
        published: optionalText(more, 'name'),
        title: optionalText(more, 'title'),
        description: optionalText(method, 'description'),
        input: readParams(optionalObject(method, 'params') ?? {}),
        output: readOutput(more),
        effect: more.effect === undefined ? null : oneOf(more, 'effect', EFFECTS),
        level: readLevel(more),
        timeout: optionalNumber(more, 'timeout'),
        tags: textsIn(more, 'tags'),
        annotations: optionalObject(more, 'annotations'),
        requirements: optionalObject(more, 'requirements'),
        meta: optionalObject(more, 'meta'),
    };
}
function readParams(params) {
    const type = params.type ?? 'object';
    if (type === 'object')
        return { ...params, type };
    throw new Malformed('params must be a schema of type object');
}
function readOutput(more) {
    if (more.returns === undefined)
        return { kind: 'unstated' };
    return more.returns === null ? { kind: 'none' } : { kind: 'schema', schema: objectIn(more.returns, 'returns') };
}
function readLevel(more) {
    const level = optionalNumber(more, 'level');
    if (level === null || (Number.isInteger(level) && level >= 0 && level <= HIGHEST))
        return level;
    throw new Malformed(`level must be a whole number from 0 to ${HIGHEST}`);
}
/** Names alone stand for objects that have nothing but a name. */
function readListed(listed, name) {
    if (!Array.isArray(listed))
        throw new Malformed(`${name} must be a list`);
    return listed.map((each) => (typeof each === 'string' ? { name: each } : isObject(each) ? each : fail(name)));
}
function fail(name) {
    throw new Malformed(`${name} must hold names or objects`);
}
