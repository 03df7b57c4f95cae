/** What resources and prompts have in common: options, and a declaration that is checked where it is written. */

import type { Completion } from './completion.js';
import type { Context } from './context.js';
import type { JsonObject } from './json.js';
import { type Requires, required } from './requires.js';
import type { Call, Kind } from './wire/calls.js';
import type { MethodDeclaration } from './wire/declarations.js';
import { Malformed } from './wire/fields.js';

const NAME = /^[A-Za-z0-9_-]{1,64}$/;

export interface Options<Name extends string> {
  /** Its own in the toolkit; tools, resources and prompts share one space of names. */
  name: Name;
  title?: string;
  description?: string;
  /** How risky it is, from 0 to 10. */
  level?: number;
  /** Seconds that it may take. */
  timeout?: number;
  tags?: readonly string[];
  requires?: Requires;
  meta?: JsonObject;
}

/** A resource or a prompt; a toolkit serves it. */
export class Definition<Name extends string = string> {
  constructor(
    readonly name: Name,
    readonly declaration: MethodDeclaration,
    readonly completions: Readonly<Record<string, Completion>>,
    readonly run: (call: Call, ctx: Context) => Promise<unknown>,
  ) {}
}

interface Parts extends Pick<Definition, 'completions' | 'run'> {
  input: JsonObject;
  resource: JsonObject | null;
  prompt: JsonObject | null;
}

/** The definition; a mistake is a TypeError that says what to change. */
export function declaredAs<Name extends string>(
  kind: Kind,
  options: Options<Name>,
  handler: unknown,
  partsOf: () => Parts,
): Definition<Name> {
  const { name, title, description, level, timeout, tags, requires, meta } = options;
  const refuse = (fix: string): never => {
    throw new TypeError(`${kind} ${JSON.stringify(name)}: ${fix}`);
  };
  if (!NAME.test(name ?? '')) refuse('give it a name of letters, digits, _ and -');
  if (typeof handler !== 'function') refuse(`give a function last: ${kind}(..., () => ...)`);
  for (const [argument, each] of Object.entries((options as { complete?: object }).complete ?? {})) {
    if (typeof each !== 'function' && !Array.isArray(each)) {
      refuse(`the completion of ${argument} is a list of texts or a function that returns one`);
    }
  }
  try {
    const { input, resource, prompt, completions, run } = partsOf();
    const about = { name, published: null, title: title ?? null, description: description ?? null };
    const limits = { level: level ?? null, timeout: timeout ?? null, tags: [...(tags ?? [])] };
    const needs = { requirements: required(requires ?? {}), meta: meta ?? null };
    const declaration: MethodDeclaration = {
      ...about,
      ...limits,
      ...needs,
      input,
      output: { kind: 'unstated' },
      effect: 'reads',
      annotations: null,
      resource,
      prompt,
    };
    return new Definition(name, declaration, completions, run);
  } catch (error) {
    if (error instanceof Malformed) return refuse(error.message);
    throw error;
  }
}
