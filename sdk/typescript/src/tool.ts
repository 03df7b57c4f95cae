/** Tools and toolkits as an author writes them. */

import type { Definition } from './beside-tools.js';
import type { Content, Reply } from './content.js';
import type { Context } from './context.js';
import type { JsonObject } from './json.js';
import type { Requires } from './requires.js';
import type { Schema, Sent, Taken } from './schema.js';
import { semantic } from './version.js';
import type { Effect } from './wire/declarations.js';

/** Hints for a client's user interface, in MCP's words. */
export interface ToolAnnotations {
  title?: string;
  readOnlyHint?: boolean;
  destructiveHint?: boolean;
  idempotentHint?: boolean;
  openWorldHint?: boolean;
}

/** `null`: the tool returns nothing. */
type OutputSchema = Schema | null | undefined;

/** What `run` may return: the value, content, or both in a reply. */
export type Returned<O extends OutputSchema> = O extends null
  ? // biome-ignore lint/suspicious/noConfusingVoidType: it is what a function returns
    void
  : (O extends Schema ? Taken<O> : unknown) | Content | Content[] | Reply<O extends Schema ? Taken<O> : unknown>;

export interface ToolSpec<Name extends string, I extends Schema, O extends OutputSchema> {
  name: Name;
  description?: string;
  input: I;
  output?: O;
  /** The name that models see; made from the toolkit's and the tool's unless said. */
  published?: string;
  title?: string;
  effect?: Effect;
  /** How risky it is, from 0 to 10. */
  level?: number;
  /** Seconds that a call may take. */
  timeout?: number;
  tags?: readonly string[];
  annotations?: ToolAnnotations;
  requires?: Requires;
  meta?: JsonObject;
  run(args: Taken<I>, ctx: Context): Returned<O> | Promise<Returned<O>>;
}

/** A tool; `Args` and `Result` are what its callers send and get. */
export interface Tool<Name extends string = string, Args = unknown, Result = unknown> {
  readonly name: Name;
  readonly spec: AnySpec;
  /** For types only; nothing is there. */
  readonly types?: { args: Args; result: Result };
}

/** A spec whose schemas are not known any more. */
export type AnySpec = Omit<ToolSpec<string, Schema, OutputSchema>, 'run'> & {
  run(args: unknown, ctx: Context): unknown;
};

type ResultOf<O extends OutputSchema> = O extends null ? undefined : O extends Schema ? Taken<O> : unknown;

export function tool<const Name extends string, const I extends Schema, const O extends OutputSchema = undefined>(
  spec: ToolSpec<Name, I, O>,
): Tool<Name, Sent<I>, ResultOf<O>> {
  return { name: spec.name, spec: spec as unknown as AnySpec };
}

export interface ToolkitSpec<Name extends string, Tools extends readonly Tool[]> {
  name: Name;
  /** Three numbers, such as 1.2.0. */
  version: string;
  title?: string;
  description?: string;
  /** Of every tool that does not say its own. */
  level?: number;
  /** Those that `resource(...)` made; a plain object is only listed, for clients that speak the hub's own protocol. */
  resources?: readonly (Definition | JsonObject)[];
  /** Those that `prompt(...)` made. */
  prompts?: readonly Definition[];
  tools: Tools;
}

export class Toolkit<Name extends string = string, Tools extends readonly Tool[] = readonly Tool[]> {
  readonly name: Name;
  readonly version: string;
  readonly tools: Tools;

  constructor(readonly spec: ToolkitSpec<Name, Tools>) {
    this.name = spec.name;
    this.version = semantic(spec.version, spec.name);
    this.tools = spec.tools;
  }
}

export function toolkit<const Name extends string, const Tools extends readonly Tool[]>(
  spec: ToolkitSpec<Name, Tools>,
): Toolkit<Name, Tools> {
  return new Toolkit(spec);
}
