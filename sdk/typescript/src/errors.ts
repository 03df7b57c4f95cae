/** How a tool says that it could not do it, and how a call ends when it is not the tool's word. */

import { type Json, type JsonObject, stated } from './json.js';

export interface ToolErrorOptions {
  /** One of the hub's codes, or one of your own; TOOL_ERROR unless said. */
  code?: string;
  /** For programs. Never put a secret here. */
  details?: JsonObject;
  /** In how many seconds the same call may succeed. */
  retryAfter?: number;
  /** It may succeed later, but nobody knows when. */
  canRetry?: boolean;
  /** What else the model should read. */
  prompt?: string;
  /** Stays in this process. */
  cause?: unknown;
}

/** The tool could not do it; the message is meant for the model. */
export class ToolError extends Error {
  override name = 'ToolError';
  readonly code: string;
  readonly details: JsonObject;

  constructor(message?: string, options: ToolErrorOptions = {}) {
    super(message ?? 'the tool failed', 'cause' in options ? { cause: options.cause } : undefined);
    const { code, details, retryAfter, canRetry, prompt } = options;
    this.code = code ?? 'TOOL_ERROR';
    const retry = canRetry || retryAfter !== undefined ? true : undefined;
    this.details = { ...details, ...stated({ retry_after: retryAfter, can_retry: retry, prompt }) };
  }
}

/** One thing wrong with arguments: where, and what to change; never the value itself. */
export interface Problem {
  path: string;
  reason: string;
}

/** Throw it for arguments that fit the schema, and still cannot be taken. */
export function badArguments(problems: Problem[]): ToolError {
  const listed = problems.map(({ path, reason }) => `${path || '/'}: ${reason}`).join('; ');
  const details = { problems: problems as unknown as Json };
  return new ToolError(`the arguments do not match the tool's input schema: ${listed}`, {
    code: 'INVALID_PARAMS',
    details,
  });
}

export function unsupported(feature: string): ToolError {
  const message = `this tool needs a client that supports ${feature}`;
  return new ToolError(message, { code: 'UNSUPPORTED', details: { feature } });
}

export const notStarted = (): ToolError =>
  new ToolError('the tool server takes no calls now', { code: 'UNAVAILABLE', details: { started: false } });
export const noSuchTool = (): ToolError => new ToolError('unknown tool', { code: 'TOOL_NOT_FOUND' });
export const noSuchMethod = (): ToolError =>
  new ToolError('this tool server has no such method', { code: 'METHOD_NOT_FOUND' });
export const timedOut = (): ToolError => new ToolError('the tool did not finish in time', { code: 'TIMEOUT' });
export const cancelled = (): ToolError => new ToolError('the call was cancelled', { code: 'CANCELLED' });
export const badOutput = (message: string): ToolError => new ToolError(message, { code: 'BAD_OUTPUT' });

/** The tool crashed: what its exception says stays in the log, because it may quote anything. */
export const crashed = (): ToolError =>
  new ToolError("the tool failed; the tool server's log has the details", { code: 'INTERNAL_ERROR' });
