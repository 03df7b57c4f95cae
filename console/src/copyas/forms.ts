/** A call, read or prompt as others write it: curl, Python, TypeScript, a client's configuration, and two model APIs. */

import { type Exact, isObject, quoteJson, writeJson } from '../json/exact';
import { restRequest, type Target } from '../run/target';
import { isPortable, pythonLiteral, scriptLiteral, shellWord } from './quote';

/** What is called, and where. */
export interface CopiedCall extends Target {
  /** The address of its MCP endpoint. */
  mcp: string;
  /** The name that a client's configuration gives the hall. */
  hallName: string;
  arguments: Exact;
  /** Whether a key has to be sent. */
  needsKey: boolean;
}

export const FORMS = ['curl', 'python', 'typescript', 'client', 'openai', 'anthropic'] as const;
export type Form = (typeof FORMS)[number];

/** The forms of what is asked for: models call tools only. */
export function formsOf(kind: Target['kind']): readonly Form[] {
  return kind === 'tool' ? FORMS : FORMS.slice(0, 4);
}

/** The variable of the environment that holds the key. */
export const KEY_VARIABLE = 'TOOLHALL_KEY';

/** A call in one form, ready to be pasted. */
export function copyAs(form: Form, call: CopiedCall): string {
  return WRITERS[form](call);
}

const WRITERS: Record<Form, (call: CopiedCall) => string> = {
  curl: asCurl,
  python: asPython,
  typescript: asTypeScript,
  client: asClient,
  openai: asOpenAi,
  anthropic: asAnthropic,
};

function asCurl(call: CopiedCall): string {
  const { url, body } = restRequest(call, call.arguments);
  const lines = ['curl -sS', shellWord(url)];
  if (call.needsKey) lines.push(`-H "Authorization: Bearer $${KEY_VARIABLE}"`);
  if (body !== undefined)
    lines.push("-H 'Content-Type: application/json'", `--data-raw ${shellWord(writeJson(body, 2))}`);
  return lines.join(' \\\n  ');
}

function asPython(call: CopiedCall): string {
  const { url, body } = restRequest(call, call.arguments);
  const portable = body === undefined || isPortable(body);
  const headers = [
    ...(body === undefined ? [] : ['"Content-Type": "application/json"']),
    ...(call.needsKey ? [`"Authorization": "Bearer " + os.environ["${KEY_VARIABLE}"]`] : []),
  ];
  return [
    ...(body === undefined ? [] : ['import json']),
    ...(call.needsKey ? ['import os'] : []),
    'import urllib.request',
    '',
    ...(body === undefined ? [] : [`arguments = ${portable ? pythonLiteral(body) : pythonLiteral(writeJson(body))}`]),
    'request = urllib.request.Request(',
    `    ${pythonLiteral(url)},`,
    ...(body === undefined ? [] : [`    data=${portable ? 'json.dumps(arguments).encode()' : 'arguments.encode()'},`]),
    ...(headers.length > 0 ? [`    headers={${headers.join(', ')}},`] : []),
    ')',
    'with urllib.request.urlopen(request) as response:',
    `    print(${body === undefined ? 'response.read()' : 'json.load(response)'})`,
    '',
  ].join('\n');
}

function asTypeScript(call: CopiedCall): string {
  const { url, body } = restRequest(call, call.arguments);
  const headers = [
    ...(body === undefined ? [] : ['"Content-Type": "application/json"']),
    ...(call.needsKey ? [`Authorization: \`Bearer \${process.env.${KEY_VARIABLE}}\``] : []),
  ];
  const sent =
    body === undefined
      ? []
      : [`  body: ${isPortable(body) ? `JSON.stringify(${scriptLiteral(body, '  ')})` : quoteJson(writeJson(body))},`];
  const options = [
    ...(body === undefined ? [] : ['  method: "POST",']),
    ...(headers.length > 0 ? [`  headers: { ${headers.join(', ')} },`] : []),
    ...sent,
  ];
  return [
    ...(options.length > 0
      ? [`const response = await fetch(${quoteJson(url)}, {`, ...options, '});']
      : [`const response = await fetch(${quoteJson(url)});`]),
    'if (!response.ok) throw new Error(await response.text());',
    `console.log(await response.${call.kind === 'tool' ? 'json' : 'text'}());`,
    '',
  ].join('\n');
}

function asClient(call: CopiedCall): string {
  const headers = call.needsKey ? { headers: { Authorization: `Bearer \${${KEY_VARIABLE}}` } } : {};
  return writeJson({ mcpServers: { [call.hallName]: { type: 'http', url: call.mcp, ...headers } } }, 2);
}

function asOpenAi(call: CopiedCall): string {
  const called = { name: call.published, arguments: writeJson(call.arguments) };
  return writeJson({ role: 'assistant', tool_calls: [{ id: 'call_1', type: 'function', function: called }] }, 2);
}

function asAnthropic(call: CopiedCall): string {
  const used = {
    type: 'tool_use',
    id: 'toolu_1',
    name: call.published,
    input: isObject(call.arguments) ? call.arguments : {},
  };
  return writeJson({ role: 'assistant', content: [used] }, 2);
}
