/** What a run asks of the hall: a tool is called, a resource read, a prompt got, over MCP or over REST. */

import type { ToolSummary } from '../api/types';
import { type Exact, type ExactObject, isObject } from '../json/exact';
import { encodePart, expandUri, textOf } from './uri';

/** What is asked for, and where. */
export interface Target {
  kind: ToolSummary['kind'];
  /** The address of the hall, without a slash at its end. */
  hall: string;
  toolkit: string;
  tool: string;
  /** Null for the newest. */
  version: string | null;
  /** The name that models and MCP clients use. */
  published: string;
  /** The URI of a resource, or its template. */
  uri: string | null;
}

export interface McpRequest {
  method: 'tools/call' | 'resources/read' | 'prompts/get';
  /** What the header Mcp-Name repeats. */
  name: string;
  params: ExactObject;
}

export function mcpRequest(target: Target, args: Exact): McpRequest {
  const { kind, published: name } = target;
  if (kind === 'resource') {
    const uri = readUri(target, args);
    return { method: 'resources/read', name: uri, params: { uri } };
  }
  if (kind === 'prompt') return { method: 'prompts/get', name, params: { name, arguments: texts(args) } };
  return { method: 'tools/call', name, params: { name, arguments: args } };
}

export interface RestRequest {
  method: 'GET' | 'POST';
  url: string;
  /** Undefined for what is only read. */
  body: Exact | undefined;
}

export function restRequest(target: Target, args: Exact): RestRequest {
  const { kind, hall, toolkit, tool, published, version } = target;
  if (kind === 'resource') {
    return { method: 'GET', url: `${hall}/resources/read?uri=${encodePart(readUri(target, args))}`, body: undefined };
  }
  if (kind === 'prompt') return { method: 'POST', url: `${hall}/prompts/${encodePart(published)}`, body: args };
  const query = version === null ? '' : `?version=${encodePart(version)}`;
  return { method: 'POST', url: `${hall}/tools/${encodePart(toolkit)}/${encodePart(tool)}${query}`, body: args };
}

/** The URI that is read with these values. */
export function readUri(target: Pick<Target, 'uri'>, args: Exact): string {
  return expandUri(target.uri ?? '', args);
}

/** What asks for completions of one variable or argument: `completion/complete` has texts only. */
export function completeRequest(target: Target, argument: string, typed: string, given: Exact): Exact {
  const others = Object.entries(texts(given)).filter(([name]) => name !== argument);
  return {
    ...(target.kind === 'resource' ? { resource: target.uri ?? '' } : { prompt: target.published }),
    argument,
    typed,
    given: Object.fromEntries(others),
  };
}

/** Arguments as texts: prompts and completions have nothing else. */
function texts(args: Exact): { [name: string]: string } {
  const members = isObject(args) ? Object.entries(args) : [];
  return Object.fromEntries(members.map(([name, value]) => [name, textOf(value)]));
}
