/** Resources as an author writes them: what a URI, or every URI of a template, means. */

import { type Definition, declaredAs, type Options } from './beside-tools.js';
import type { Completion } from './completion.js';
import type { Context } from './context.js';
import type { Flat } from './from-schema.js';
import { stated } from './json.js';
import { jsonSchemaOf, type Schema, type Taken, taken } from './schema.js';
import type { Annotations } from './wire/blocks.js';
import { Malformed } from './wire/fields.js';
import { RESOURCE_KEY, readResourceKey } from './wire/kinds.js';
import { type UriVariable, variablesOf } from './wire/uri-template.js';

type Sign = '+' | '#' | '.' | '/' | ';';
type One<Name extends string> = Name extends `${infer List}*`
  ? { [Each in List]: string[] }
  : { [Each in Name]: string };
type Names<Listed extends string> = Listed extends `${infer Name},${infer Rest}`
  ? One<Name> & Names<Rest>
  : One<Listed>;
type Expression<Inside extends string> = Inside extends `?${infer Listed}` | `&${infer Listed}`
  ? Partial<Names<Listed>>
  : Inside extends `${Sign}${infer Listed}`
    ? Names<Listed>
    : Names<Inside>;
type All<Uri extends string> = Uri extends `${string}{${infer Inside}}${infer Rest}`
  ? Expression<Inside> & All<Rest>
  : unknown;

/** The variables of a URI template: a text each, a list for `{/path*}`; those of the query may be missing. */
export type Variables<Uri extends string> = string extends Uri ? Record<string, string | string[]> : Flat<All<Uri>>;

type Values<Uri extends string, I> = I extends Schema ? Taken<I> : Variables<Uri>;

export interface ResourceOptions<Name extends string, Uri extends string, I extends Schema | undefined>
  extends Options<Name> {
  /** The types of the variables, where texts will not do: `{ type: 'object', properties: { number: { type: 'integer' } } }`. */
  input?: I;
  /** By what `read` returns unless said: text/plain, application/octet-stream or application/json. */
  mimeType?: string;
  /** For whom it is, how much it matters, when it last changed. */
  annotations?: Annotations;
  /** Bytes, if known. */
  size?: number;
  /** Seconds for which a client may keep what it read. */
  fresh?: number;
  /** What is read is the same for every caller. */
  shared?: boolean;
  /** False for what is only linked to. */
  listed?: boolean;
  /** What completes each variable. */
  complete?: { readonly [Variable in keyof Values<Uri, I>]?: Completion };
}

/**
 * What this URI means; with variables, what each URI of the template means.
 *
 * `read` returns text, bytes, a value (as JSON), or one or several `embedded(...)`; undefined or null where there is no
 * such resource.
 */
export function resource<
  const Name extends string,
  const Uri extends string,
  const I extends Schema | undefined = undefined,
>(
  uri: Uri,
  options: ResourceOptions<Name, Uri, I>,
  read: (values: Values<Uri, I>, ctx: Context) => unknown,
): Definition<Name> {
  const { input, mimeType, annotations, size, fresh, shared, listed, complete = {} } = options;
  const { audience, priority, lastModified } = annotations ?? {};
  const notes = annotations === undefined ? null : stated({ audience, priority, last_modified: lastModified });
  const completes = Object.keys(complete);
  const some = { uri, mime_type: mimeType, size, notes, fresh, shared, listed };
  const info = stated({ ...some, completes: completes.length > 0 ? completes : null });
  return declaredAs('resource', options, read, () => {
    const params = input === undefined ? ofTexts(variablesOf(uri)) : jsonSchemaOf(input, 'input');
    readResourceKey({ [RESOURCE_KEY]: info }, params);
    return {
      input: params,
      resource: info,
      prompt: null,
      completions: complete as Record<string, Completion>,
      run: async (call, ctx) =>
        await read((input === undefined ? call.params : await taken(input, call.params)) as Values<Uri, I>, ctx),
    };
  });
}

/** The schema of variables that are texts. */
function ofTexts(variables: UriVariable[]): ReturnType<typeof jsonSchemaOf> {
  if (variables.some(({ name }) => name === '')) throw new Malformed('name every variable');
  const text = { type: 'string' };
  const properties = variables.map(({ name, isList }) => [name, isList ? { type: 'array', items: text } : text]);
  const required = variables.filter(({ isQuery }) => !isQuery).map(({ name }) => name);
  return {
    type: 'object',
    properties: Object.fromEntries(properties),
    ...(required.length > 0 && { required }),
    additionalProperties: false,
  };
}
