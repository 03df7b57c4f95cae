/** What a tool takes and returns: a JSON Schema, a Standard Schema that gives one, or both side by side. */

import { badArguments, type Problem } from './errors.js';
import type { FromSchema } from './from-schema.js';
import { isObject, type Json, type JsonObject, type JsonSchema } from './json.js';
import type { DescribedSchema, InputOf, Issue, OutputOf, StandardSchema } from './standard-schema.js';

export interface BothSchemas<S extends StandardSchema = StandardSchema> {
  readonly schema: S;
  readonly jsonSchema: JsonSchema;
}

export type Schema = DescribedSchema | BothSchemas | JsonSchema;

/** What a caller sends for this schema. */
export type Sent<S> =
  S extends StandardSchema<unknown, unknown> ? InputOf<S> : S extends BothSchemas<infer T> ? InputOf<T> : FromSchema<S>;

/** What the tool gets for this schema, after defaults and changes of the schema's own. */
export type Taken<S> =
  S extends StandardSchema<unknown, unknown>
    ? OutputOf<S>
    : S extends BothSchemas<infer T>
      ? OutputOf<T>
      : FromSchema<S>;

const TARGET = { target: 'draft-2020-12' } as const;
// Where a schema holds others: one, several in order, several by name.
const ONES = new Set(['additionalProperties', 'contains', 'else', 'if', 'items', 'not', 'propertyNames', 'then']);
const LISTS = new Set(['allOf', 'anyOf', 'oneOf', 'prefixItems']);
const MAPS = new Set(['$defs', 'dependentSchemas', 'patternProperties', 'properties']);
// Other libraries quote the value in what they say about it.
const QUOTES_NOTHING = new Set(['zod']);
const UNSAID = "does not fit; see the tool's input schema";

export function jsonSchemaOf(schema: Schema, side: 'input' | 'output'): JsonObject {
  if (isBoth(schema)) return plain(schema.jsonSchema);
  if (!isStandard(schema)) return plain(schema as JsonSchema);
  const { jsonSchema, vendor } = schema['~standard'] as DescribedSchema['~standard'];
  if (jsonSchema === undefined) {
    throw new TypeError(`${vendor} gives no JSON Schema here: write { schema, jsonSchema } instead`);
  }
  const { $schema: _, ...rest } = jsonSchema[side](TARGET);
  return withoutClosingItems(plain(rest)) as JsonObject;
}

/** `items: false` says nothing behind a tuple that `maxItems` closes, and several clients look into it as an object. */
function withoutClosingItems(part: Json): Json {
  if (!isObject(part)) return part;
  const { items, prefixItems, maxItems } = part;
  const closed = items === false && Array.isArray(prefixItems) && Number(maxItems) <= prefixItems.length;
  const entries = Object.entries(part).filter(([key]) => !(closed && key === 'items'));
  return Object.fromEntries(
    entries.map(([key, value]) => {
      if (LISTS.has(key) && Array.isArray(value)) return [key, value.map(withoutClosingItems)];
      if (!MAPS.has(key) || !isObject(value)) return [key, ONES.has(key) ? withoutClosingItems(value) : value];
      return [
        key,
        Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, withoutClosingItems(inner)])),
      ];
    }),
  );
}

/** Arguments as the tool takes them; a plain JSON Schema was checked by the hall. */
export async function taken(schema: Schema, args: JsonObject): Promise<unknown> {
  const standard = isBoth(schema) ? schema.schema : isStandard(schema) ? schema : null;
  if (standard === null) return args;
  const result = await standard['~standard'].validate(args);
  if (result.issues === undefined) return result.value;
  throw badArguments(result.issues.map((issue) => problem(issue, standard['~standard'].vendor)));
}

function problem(issue: Issue, vendor: string): Problem {
  const keys = (issue.path ?? []).map((part) => (typeof part === 'object' ? part.key : part));
  const path = keys.map((key) => `/${String(key).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
  return { path, reason: QUOTES_NOTHING.has(vendor) ? issue.message : UNSAID };
}

function isStandard(schema: Schema): schema is DescribedSchema {
  return '~standard' in schema;
}

function isBoth(schema: Schema): schema is BothSchemas {
  return !isStandard(schema) && isObject(schema.jsonSchema) && '~standard' in Object(schema.schema);
}

function plain(schema: JsonSchema): JsonObject {
  return JSON.parse(JSON.stringify(schema)) as JsonObject;
}
