/** `BaseTool`: a tool with methods, as the hub's own specification writes it. */
import { Context } from './context.js';
/** One request to a tool; `context` is the way back to the caller. */
export class ToolRequest {
    method;
    params;
    tool;
    id;
    context;
    type = 'tool_request';
    constructor(method, 
    // biome-ignore lint/suspicious/noExplicitAny: as the specification writes it
    params = {}, tool = '', id = null, context = new Context()) {
        this.method = method;
        this.params = params;
        this.tool = tool;
        this.id = id;
        this.context = context;
    }
}
/** What a tool answers: a result, or an error. Any object of this form is one; its id is filled in by whoever sends it. */
export class ToolResponse {
    result;
    error;
    content;
    meta;
    isError;
}
export class BaseTool {
    name;
    version;
    /** Which methods there are; without it, those that a member `handleNAME` is there for. */
    capabilities;
    constructor(name, version) {
        this.name = name;
        this.version = version;
    }
    /** How the tool is: `status` is healthy, degraded or unhealthy. */
    // biome-ignore lint/suspicious/noExplicitAny: as the specification writes it
    async healthCheck() {
        return { status: 'healthy' };
    }
}
/** The methods that a tool has a member for: `handleMethod1` makes `method1`. */
export function handledMethods(tool) {
    const found = new Set();
    for (let each = tool; each !== BaseTool.prototype; each = Object.getPrototypeOf(each)) {
        for (const member of Object.getOwnPropertyNames(each)) {
            const name = /^handle([A-Z].*)$/.exec(member)?.[1];
            if (name !== undefined && member !== 'handleRequest')
                found.add(name.charAt(0).toLowerCase() + name.slice(1));
        }
    }
    return [...found];
}
