/** How a tool says that it could not do it, and how a call ends when it is not the tool's word. */
import { stated } from './json.js';
/** The tool could not do it; the message is meant for the model. */
export class ToolError extends Error {
    name = 'ToolError';
    code;
    details;
    constructor(message, options = {}) {
        super(message ?? 'the tool failed', 'cause' in options ? { cause: options.cause } : undefined);
        const { code, details, retryAfter, canRetry, prompt } = options;
        this.code = code ?? 'TOOL_ERROR';
        const retry = canRetry || retryAfter !== undefined ? true : undefined;
        this.details = { ...details, ...stated({ retry_after: retryAfter, can_retry: retry, prompt }) };
    }
}
export function badArguments(problems) {
    const listed = problems.map(({ path, reason }) => `${path || '/'}: ${reason}`).join('; ');
    const details = { problems: problems };
    return new ToolError(`the arguments do not match the tool's input schema: ${listed}`, {
        code: 'INVALID_PARAMS',
        details,
    });
}
export function unsupported(feature) {
    const message = `this tool needs a client that supports ${feature}`;
    return new ToolError(message, { code: 'UNSUPPORTED', details: { feature } });
}
export const notStarted = () => new ToolError('the tool server takes no calls now', { code: 'UNAVAILABLE', details: { started: false } });
export const noSuchTool = () => new ToolError('unknown tool', { code: 'TOOL_NOT_FOUND' });
export const noSuchMethod = () => new ToolError('this tool server has no such method', { code: 'METHOD_NOT_FOUND' });
export const timedOut = () => new ToolError('the tool did not finish in time', { code: 'TIMEOUT' });
export const cancelled = () => new ToolError('the call was cancelled', { code: 'CANCELLED' });
export const badOutput = () => new ToolError('the tool returned something other than it promises', { code: 'BAD_OUTPUT' });
/** The tool crashed: what its exception says stays in the log, because it may quote anything. */
export const crashed = () => new ToolError("the tool failed; the tool server's log has the details", { code: 'INTERNAL_ERROR' });
