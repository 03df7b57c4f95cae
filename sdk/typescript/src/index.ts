/** Write tools in TypeScript, and let them join a hall. */

export { BaseTool, type Capabilities, ToolRequest, ToolResponse } from './base-tool.js';
export { Definition } from './beside-tools.js';
export type { Completion } from './completion.js';
export {
  type ArgsOf,
  type CallOptions,
  type Client,
  type ConnectOptions,
  connect,
  type ResultOf,
  type Toolkits,
  type ToolName,
} from './connect.js';
export { audio, type Content, embedded, image, link, Reply, reply, text } from './content.js';
export { Context, type ContextParts, type Feature, type Given, type Link, type SampleOptions } from './context.js';
export { badArguments, type Problem, ToolError, type ToolErrorOptions } from './errors.js';
export { HallAway, HallError } from './hall-error.js';
export type { Health, Status } from './health.js';
export { type Joined, type JoinOptions, join } from './join.js';
export type { Json, JsonObject, JsonSchema } from './json.js';
export { Message } from './message.js';
export { type PromptOptions, prompt, type Said } from './prompt.js';
export type { Requires } from './requires.js';
export { type ResourceOptions, resource, type Variables } from './resource.js';
export type { BothSchemas, Schema, Sent, Taken } from './schema.js';
export { type ServeOptions, type Serving, serve } from './serve.js';
export type { Servable } from './served.js';
export type { DescribedSchema, StandardSchema } from './standard-schema.js';
export { type Account, Supply } from './supply.js';
export {
  type Tool,
  type ToolAnnotations,
  Toolkit,
  type ToolkitSpec,
  type ToolSpec,
  tool,
  toolkit,
} from './tool.js';
export * as wire from './wire/index.js';
