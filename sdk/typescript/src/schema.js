/** What a tool takes and returns: a JSON Schema, a Standard Schema that gives one, or both side by side. */
import { badArguments } from './errors.js';
import { isObject } from './json.js';
const TARGET = { target: 'draft-2020-12' };
// Other libraries quote the value in what they say about it.
const QUOTES_NOTHING = new Set(['zod']);
const UNSAID = "does not fit; see the tool's input schema";
export function jsonSchemaOf(schema, side) {
    if (isBoth(schema))
        return plain(schema.jsonSchema);
    if (!isStandard(schema))
        return plain(schema);
    const { jsonSchema, vendor } = schema['~standard'];
    if (jsonSchema === undefined) {
        throw new TypeError(`${vendor} gives no JSON Schema here: write { schema, jsonSchema } instead`);
    }
    const { $schema: _, ...rest } = jsonSchema[side](TARGET);
    return plain(rest);
}
/** Arguments as the tool takes them; a plain JSON Schema was checked by the hall. */
export async function taken(schema, args) {
    const standard = isBoth(schema) ? schema.schema : isStandard(schema) ? schema : null;
    if (standard === null)
        return args;
    const result = await standard['~standard'].validate(args);
    if (result.issues === undefined)
        return result.value;
    throw badArguments(result.issues.map((issue) => problem(issue, standard['~standard'].vendor)));
}
function problem(issue, vendor) {
    const keys = (issue.path ?? []).map((part) => (typeof part === 'object' ? part.key : part));
    const path = keys.map((key) => `/${String(key).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
    return { path, reason: QUOTES_NOTHING.has(vendor) ? issue.message : UNSAID };
}
function isStandard(schema) {
    return '~standard' in schema;
}
function isBoth(schema) {
    return !isStandard(schema) && isObject(schema.jsonSchema) && '~standard' in Object(schema.schema);
}
function plain(schema) {
    return JSON.parse(JSON.stringify(schema));
}
