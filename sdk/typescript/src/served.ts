/** Toolkits and tools of both kinds, ready to be declared and called. */

import { BaseTool, type Capabilities, handledMethods, ToolRequest, type ToolResponse } from './base-tool.js';
import { Definition } from './beside-tools.js';
import type { Completion } from './completion.js';
import { Reply } from './content.js';
import type { Context } from './context.js';
import { ToolError } from './errors.js';
import { isObject, type Json, type JsonObject } from './json.js';
import { required } from './requires.js';
import { jsonSchemaOf, taken } from './schema.js';
import type { AnySpec, Toolkit } from './tool.js';
import type { Call } from './wire/calls.js';
import {
  type Declaration,
  type MethodDeclaration,
  readDeclaration,
  writeDeclaration,
  writeMethod,
} from './wire/declarations.js';

export type Servable = Toolkit | BaseTool;

export interface Method {
  declaration: MethodDeclaration;
  run(call: Call, ctx: Context): Promise<unknown>;
  /** Of its arguments. */
  completions: Readonly<Record<string, Completion>>;
}

export interface Served {
  declaration: Declaration;
  methods: ReadonlyMap<string, Method>;
  health(): Promise<unknown>;
}

/** One or many, each looked through now, so that a mistake shows before anything is called. */
export function servedOf(given: Servable | readonly Servable[]): Served[] {
  const listed = (Array.isArray(given) ? given : [given]) as readonly Servable[];
  const served = listed.map((each) => (each instanceof BaseTool ? ofBaseTool(each) : ofToolkit(each)));
  const names = served.map(({ declaration }) => `${declaration.name}@${declaration.version}`);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) throw new TypeError(`${twice} is there twice: give one of them another version`);
  return served;
}

function ofToolkit(kit: Toolkit): Served {
  const { name, version, title, description, resources = [], prompts = [], level } = kit.spec;
  const beside = [...resources.filter((each) => each instanceof Definition), ...prompts];
  const listed = resources.filter((each): each is JsonObject => !(each instanceof Definition));
  const tools = [...kit.tools.map(({ spec }) => declared(spec, level)), ...beside.map((each) => ofKit(each, level))];
  const stated = { name, version, title: title ?? null, description: description ?? null, tools };
  const declaration = checked(writeDeclaration({ ...stated, resources: listed.length > 0 ? listed : null }));
  const runs = kit.tools.map(
    ({ spec }) =>
      async (call: Call, ctx: Context) =>
        await spec.run(await taken(spec.input, call.params), ctx),
  );
  return {
    declaration,
    methods: methodsOf(declaration, beside, (index) => runs[index]),
    health: async () => 'healthy',
  };
}

/** With the level of its toolkit, where it says none. */
function ofKit({ declaration }: Definition, level: number | undefined): MethodDeclaration {
  return { ...declaration, level: declaration.level ?? level ?? null };
}

function declared(spec: AnySpec, level: number | undefined): MethodDeclaration {
  const { name, output } = spec;
  return {
    name,
    published: spec.published ?? null,
    title: spec.title ?? null,
    description: spec.description ?? null,
    input: jsonSchemaOf(spec.input, 'input'),
    output:
      output === undefined
        ? { kind: 'unstated' }
        : output === null
          ? { kind: 'none' }
          : { kind: 'schema', schema: jsonSchemaOf(output, 'output') },
    effect: spec.effect ?? null,
    level: spec.level ?? level ?? null,
    timeout: spec.timeout ?? null,
    tags: [...(spec.tags ?? [])],
    annotations: spec.annotations ? { ...spec.annotations } : null,
    requirements: required(spec.requires ?? {}),
    meta: spec.meta ?? null,
    resource: null,
    prompt: null,
  };
}

function ofBaseTool(tool: BaseTool): Served {
  // Its own name and version are protected, as the specification writes them.
  const { name, version } = tool as unknown as { name: string; version: string };
  const capabilities: Capabilities = tool.capabilities ?? { methods: handledMethods(tool) };
  const beside = [...(tool.resources ?? []), ...(tool.prompts ?? [])];
  const methods = [...capabilities.methods, ...beside.map((each) => writeMethod(each.declaration))];
  const declaration = checked({
    tool: { name, version, capabilities: { ...capabilities, methods } as unknown as Json },
  });
  const run = async (call: Call, ctx: Context) =>
    resultOf(await tool.handleRequest(new ToolRequest(call.method, call.params, call.tool, call.id, ctx)));
  const health = async () => await tool.healthCheck();
  return { declaration, methods: methodsOf(declaration, beside, () => run), health };
}

function resultOf(response: ToolResponse): unknown {
  if (response === undefined || response === null) return undefined;
  const { result, error, content, meta, isError } = response;
  if (error instanceof ToolError) throw error;
  if (typeof error === 'string') throw new ToolError(error);
  if (isObject(error)) {
    const { message, code, details } = error as { message: string; code?: string; details?: JsonObject };
    throw new ToolError(message, { ...(code !== undefined && { code }), ...(details && { details }) });
  }
  if (content === undefined && meta === undefined && isError === undefined) return result;
  return new Reply({
    ...(content && { content }),
    ...(result !== undefined && { value: result }),
    ...(meta && { meta }),
    ...(isError && { isError }),
  });
}

/** Each by its name; what stands beside the tools runs by itself. */
function methodsOf(
  declaration: Declaration,
  beside: readonly Definition[],
  runOf: (index: number) => Method['run'] | undefined,
): ReadonlyMap<string, Method> {
  const own = new Map<string, Definition>(beside.map((each) => [each.name, each]));
  return new Map(
    declaration.tools.map((each, index) => {
      const { run = runOf(index) as Method['run'], completions = {} } = own.get(each.name) ?? {};
      return [each.name, { declaration: each, run, completions }];
    }),
  );
}

/** As the hall will read it. */
function checked(document: JsonObject): Declaration {
  try {
    return readDeclaration(JSON.parse(JSON.stringify(document)) as Json);
  } catch (error) {
    const name = (document.tool as JsonObject).name;
    throw new TypeError(`${String(name)}: ${error instanceof Error ? error.message : 'it cannot be declared'}`);
  }
}
