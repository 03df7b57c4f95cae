/** What makes a method of a declaration a resource or a prompt: one key of ours for each. */

import { isObject, type Json, type JsonObject } from '../json.js';
import { anyTextIn, Malformed, oneOf, optionalNumber, optionalObject, optionalText, textsIn } from './fields.js';
import { variablesOf } from './uri-template.js';

export const RESOURCE_KEY = 'dev.toolhall/resource';
export const PROMPT_KEY = 'dev.toolhall/prompt';
const MIME_TYPE = /^[A-Za-z0-9!#$&^_.+-]{1,127}\/[A-Za-z0-9!#$&^_.+-]{1,127}(?:;[\x20-\x7e]{1,255})?$/;
const LONGEST_FRESH = 365 * 86_400;
const FLAGS = ['shared', 'listed'];
const NOT_ITS_OWN = ['exact', 'any_path', 'as_tool', 'template', 'skill']; // for the hall's own code only

/** What `dev.toolhall/resource` says of a method with these parameters; null where it is not there. */
export function readResourceKey(method: JsonObject, params: JsonObject): JsonObject | null {
  const info = optionalObject(method, RESOURCE_KEY);
  if (info === null) return null;
  const uri = anyTextIn(info, 'uri');
  const variables = variablesOf(uri);
  const names = variables.map(({ name }) => name);
  const [parameters, required] = [namesIn(params.properties), textsIn(params, 'required')];
  const extra = parameters.find((name) => !names.includes(name));
  if (extra !== undefined)
    refuse(`the parameter ${extra} is no variable of ${uri}; write it into the URI: {?${extra}}`);
  const missing = names.find((name) => !parameters.includes(name));
  if (missing !== undefined) refuse(`the URI ${uri} has the variable ${missing}; add a parameter of that name`);
  const asked = variables.find(({ name, isQuery }) => isQuery && required.includes(name));
  if (asked !== undefined) refuse(`${asked.name} is in the query, which may be missing; do not require it`);
  readCompletes(info, names);
  const mimeType = optionalText(info, 'mime_type');
  if (mimeType !== null && !MIME_TYPE.test(mimeType)) refuse(`${mimeType} is no MIME type; write text/markdown, say`);
  readAmount(info, 'size', Number.MAX_SAFE_INTEGER);
  readAmount(info, 'fresh', LONGEST_FRESH);
  readNotes(optionalObject(info, 'notes') ?? {});
  for (const flag of FLAGS) if (typeof (info[flag] ?? false) !== 'boolean') refuse(`${flag} is true or false`);
  for (const flag of NOT_ITS_OWN) if (info[flag]) refuse(`${flag} is for the hall's own code; leave it out`);
  return info;
}

/** What `dev.toolhall/prompt` says of a method with these parameters; null where it is not there. */
export function readPromptKey(method: JsonObject, params: JsonObject): JsonObject | null {
  const info = optionalObject(method, PROMPT_KEY);
  if (info !== null) readCompletes(info, namesIn(params.properties));
  return info;
}

function readCompletes(info: JsonObject, known: string[]): void {
  const unknown = textsIn(info, 'completes').find((name) => !known.includes(name));
  if (unknown === undefined) return;
  refuse(
    `there is no argument ${unknown} to complete; there ${known.length > 0 ? `are ${known.join(', ')}` : 'is none'}`,
  );
}

function readAmount(info: JsonObject, key: string, most: number): void {
  const value = optionalNumber(info, key) ?? 0;
  if (!(value >= 0 && value <= most)) refuse(`${key} is a number from 0 to ${most}`);
}

function readNotes(notes: JsonObject): void {
  const priority = optionalNumber(notes, 'priority') ?? 0;
  if (!(priority >= 0 && priority <= 1)) refuse('the priority in notes is a number from 0 to 1');
  for (const each of textsIn(notes, 'audience')) oneOf({ audience: each }, 'audience', ['user', 'assistant']);
  optionalText(notes, 'last_modified');
}

function namesIn(properties: Json | undefined): string[] {
  return isObject(properties) ? Object.keys(properties) : [];
}

function refuse(fix: string): never {
  throw new Malformed(fix);
}
