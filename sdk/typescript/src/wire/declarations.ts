/** A toolkit as `join` declares it: the hub's own form, and one key of ours for what it cannot say. */

import { isObject, type Json, type JsonObject, stated } from '../json.js';
import type { Kind } from './calls.js';
import { Malformed, objectIn, oneOf, optionalNumber, optionalObject, optionalText, textIn, textsIn } from './fields.js';
import { PROMPT_KEY, RESOURCE_KEY, readPromptKey, readResourceKey } from './kinds.js';

export const TOOL_KEY = 'dev.toolhall/tool';
export const TOOLKIT_KEY = 'dev.toolhall/toolkit';

export type Effect = 'reads' | 'writes' | 'destroys';
const EFFECTS: readonly Effect[] = ['reads', 'writes', 'destroys'];
const VERSION = /^(?:\d+\.\d+\.\d+(?:[-+][0-9A-Za-z.+-]+)?|\d+)$/;
const HIGHEST = 10;

/** What comes back: not said, nothing, or values of a schema. */
export type Output = { kind: 'unstated' } | { kind: 'none' } | { kind: 'schema'; schema: JsonObject };

export interface MethodDeclaration {
  name: string;
  published: string | null;
  title: string | null;
  description: string | null;
  input: JsonObject;
  output: Output;
  effect: Effect | null;
  level: number | null;
  timeout: number | null;
  tags: string[];
  annotations: JsonObject | null;
  requirements: JsonObject | null;
  meta: JsonObject | null;
  /** What makes it a resource, in the hall's words: `uri`, `mime_type`, `completes` and others. */
  resource: JsonObject | null;
  /** What makes it a prompt: `completes`. */
  prompt: JsonObject | null;
}

export function kindOf({ resource, prompt }: MethodDeclaration): Kind {
  return resource !== null ? 'resource' : prompt !== null ? 'prompt' : 'tool';
}

export interface Declaration {
  name: string;
  version: string;
  title: string | null;
  description: string | null;
  resources: JsonObject[] | null;
  tools: MethodDeclaration[];
}

export function writeDeclaration(declaration: Declaration): JsonObject {
  const { name, version, title, description, resources } = declaration;
  const capabilities = { methods: declaration.tools.map(writeMethod), ...(resources && { resources }) };
  const about = stated({ title, description });
  const more = Object.keys(about).length > 0 ? { [TOOLKIT_KEY]: about } : {};
  return { tool: { name, version, capabilities, ...more } };
}

export function readDeclaration(document: Json): Declaration {
  const tool = objectIn(objectIn(document, 'a declaration').tool, 'tool');
  const version = textIn(tool, 'version');
  if (!VERSION.test(version)) throw new Malformed('version must be three numbers such as 1.2.0, a date or a count');
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

export function writeMethod(method: MethodDeclaration): JsonObject {
  const { name, description, input, published, title, effect, level, timeout, tags } = method;
  const { annotations, requirements, meta, output } = method;
  // Of a resource and a prompt the effect follows from what they are.
  const some = {
    name: published,
    title,
    effect: kindOf(method) === 'tool' ? effect : null,
    level,
    timeout,
    tags: tags.length > 0 ? tags : null,
  };
  const more = stated({ ...some, annotations, requirements, meta });
  if (output.kind !== 'unstated') more.returns = output.kind === 'none' ? null : output.schema;
  const beyond = Object.keys(more).length > 0 ? { [TOOL_KEY]: more } : {};
  const kind = stated({ [RESOURCE_KEY]: method.resource, [PROMPT_KEY]: method.prompt });
  return { name, ...stated({ description }), params: input, ...beyond, ...kind };
}

function readMethods(listed: Json | undefined): MethodDeclaration[] {
  const methods = readListed(listed, 'methods').map(readMethod);
  if (methods.length === 0) throw new Malformed('declare at least one method');
  const names = methods.map((each) => each.name);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) {
    throw new Malformed(
      `two methods have the same name, ${twice.slice(0, 64)}; resources and prompts count: rename one`,
    );
  }
  return methods;
}

function readMethod(method: JsonObject): MethodDeclaration {
  const more = optionalObject(method, TOOL_KEY) ?? {};
  const input = readParams(optionalObject(method, 'params') ?? {});
  const [resource, prompt] = [readResourceKey(method, input), readPromptKey(method, input)];
  if (resource !== null && prompt !== null) throw new Malformed('a method is a resource or a prompt, not both');
  const effect = more.effect === undefined ? null : oneOf(more, 'effect', EFFECTS);
  const reads = resource !== null || prompt !== null;
  if (reads && effect !== null && effect !== 'reads') throw new Malformed('a resource or a prompt only reads');
  return {
    name: textIn(method, 'name'),
    published: optionalText(more, 'name'),
    title: optionalText(more, 'title'),
    description: optionalText(method, 'description'),
    input,
    output: readOutput(more),
    effect: reads ? 'reads' : effect,
    level: readLevel(more),
    timeout: optionalNumber(more, 'timeout'),
    tags: textsIn(more, 'tags'),
    annotations: optionalObject(more, 'annotations'),
    requirements: optionalObject(more, 'requirements'),
    meta: optionalObject(more, 'meta'),
    resource,
    prompt,
  };
}

function readParams(params: JsonObject): JsonObject {
  const type = params.type ?? 'object';
  if (type === 'object') return { ...params, type };
  throw new Malformed('params must be a schema of type object');
}

function readOutput(more: JsonObject): Output {
  if (more.returns === undefined) return { kind: 'unstated' };
  return more.returns === null ? { kind: 'none' } : { kind: 'schema', schema: objectIn(more.returns, 'returns') };
}

function readLevel(more: JsonObject): number | null {
  const level = optionalNumber(more, 'level');
  if (level === null || (Number.isInteger(level) && level >= 0 && level <= HIGHEST)) return level;
  throw new Malformed(`level must be a whole number from 0 to ${HIGHEST}`);
}

/** Names alone stand for objects that have nothing but a name. */
function readListed(listed: Json | undefined, name: string): JsonObject[] {
  if (!Array.isArray(listed)) throw new Malformed(`${name} must be a list`);
  return listed.map((each) => (typeof each === 'string' ? { name: each } : isObject(each) ? each : fail(name)));
}

function fail(name: string): never {
  throw new Malformed(`${name} must hold names or objects`);
}
