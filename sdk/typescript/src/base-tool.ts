/** `BaseTool`: a tool with methods, as the hub's own specification writes it. */

import type { Definition } from './beside-tools.js';
import type { Content } from './content.js';
import { Context } from './context.js';
import type { ToolError } from './errors.js';
import type { JsonObject } from './json.js';
import { semantic } from './version.js';
import type { Id } from './wire/fields.js';

/** One request to a tool; `context` is the way back to the caller. */
export class ToolRequest {
  readonly type = 'tool_request';

  constructor(
    readonly method: string,
    // biome-ignore lint/suspicious/noExplicitAny: as the specification writes it
    readonly params: Record<string, any> = {},
    readonly tool = '',
    readonly id: Id = null,
    readonly context: Context = new Context(),
  ) {}
}

/** What a tool answers: a result, or an error. Any object of this form is one; its id is filled in by whoever sends it. */
export class ToolResponse {
  result?: unknown;
  error?: ToolError | { code?: string; message: string; details?: JsonObject } | string | null;
  content?: Content[];
  meta?: JsonObject;
  isError?: boolean;
}

/** Names, or objects: `{name, description, params}` for a method. */
export interface Capabilities {
  methods: readonly (string | JsonObject)[];
  resources?: readonly (string | JsonObject)[];
}

export abstract class BaseTool {
  /** Which methods there are; without it, those that a member `handleNAME` is there for. */
  readonly capabilities?: Capabilities;
  /** What `resource(...)` made; their functions may use `this`. */
  readonly resources?: readonly Definition[];
  /** What `prompt(...)` made. */
  readonly prompts?: readonly Definition[];

  constructor(
    protected name: string,
    protected version: string,
  ) {
    semantic(version, name);
  }

  /** Answer one request; only methods that the tool has come here. */
  abstract handleRequest(request: ToolRequest): Promise<ToolResponse>;

  /** How the tool is: `status` is healthy, degraded or unhealthy. */
  // biome-ignore lint/suspicious/noExplicitAny: as the specification writes it
  async healthCheck(): Promise<Record<string, any>> {
    return { status: 'healthy' };
  }
}

/** The methods that a tool has a member for: `handleMethod1` makes `method1`. */
export function handledMethods(tool: BaseTool): string[] {
  const found = new Set<string>();
  for (let each: object = tool; each !== BaseTool.prototype; each = Object.getPrototypeOf(each) as object) {
    for (const member of Object.getOwnPropertyNames(each)) {
      const name = /^handle([A-Z].*)$/.exec(member)?.[1];
      if (name !== undefined && member !== 'handleRequest') found.add(name.charAt(0).toLowerCase() + name.slice(1));
    }
  }
  return [...found];
}
