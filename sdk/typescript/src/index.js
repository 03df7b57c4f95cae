/** Write tools in TypeScript, and let them join a hall. */
export { BaseTool, ToolRequest, ToolResponse } from './base-tool.js';
export { connect, } from './connect.js';
export { audio, image, link, Reply, reply, resource, text } from './content.js';
export { Context } from './context.js';
export { ToolError } from './errors.js';
export { HallAway, HallError } from './hall-error.js';
export { join } from './join.js';
export { serve } from './serve.js';
export { Supply } from './supply.js';
export { Toolkit, tool, toolkit, } from './tool.js';
export * as wire from './wire/index.js';
