/** How each client is told about a hall: the file and its text, or the command. The same forms as `toolhall install`. */

import type { JsonObject } from '../../api/types';

export interface Connection {
  /** The address of MCP. */
  mcp: string;
  /** The base of the hall, for curl. */
  base: string;
  /** The name of the environment variable that holds the key; null where none is needed. */
  keyVariable: string | null;
  /** What curl calls; null: it lists the tools. */
  call: { toolkit: string; tool: string; arguments: JsonObject } | null;
}

export interface ClientForm {
  id: string;
  title: string;
  /** Where the text goes: a file, or a shell. */
  into: { file: string } | 'python' | 'shell';
  text: string;
  /** A command that does the same. */
  command?: string;
}

const json = (value: unknown): string => JSON.stringify(value, null, 2);
/** The name of the entry in each client's file. */
const NAME = 'toolhall';

/** The forms of all clients for one hall. */
export function clientForms({ mcp, base, keyVariable, call }: Connection): ClientForm[] {
  const bearer = (variable: string) => (keyVariable ? { headers: { Authorization: `Bearer ${variable}` } } : {});
  const key = keyVariable ?? '';
  const header = keyVariable ? ` --header "Authorization: Bearer $${key}"` : '';
  return [
    {
      id: 'claude-code',
      title: 'Claude Code',
      into: { file: '.mcp.json' },
      text: json({ mcpServers: { [NAME]: { type: 'http', url: mcp, ...bearer(`\${${key}}`) } } }),
      command: `claude mcp add --transport http ${NAME} ${mcp}${header}`,
    },
    {
      id: 'cursor',
      title: 'Cursor',
      into: { file: '.cursor/mcp.json' },
      text: json({ mcpServers: { [NAME]: { url: mcp, ...bearer(`\${env:${key}}`) } } }),
    },
    {
      id: 'vscode',
      title: 'VS Code',
      into: { file: '.vscode/mcp.json' },
      text: json({ servers: { [NAME]: { type: 'http', url: mcp, ...bearer(`\${env:${key}}`) } } }),
    },
    {
      id: 'codex',
      title: 'Codex',
      into: { file: '~/.codex/config.toml' },
      text: `[mcp_servers.${NAME}]\nurl = "${mcp}"${keyVariable ? `\nbearer_token_env_var = "${key}"` : ''}`,
    },
    { id: 'python', title: 'Python', into: 'python', text: python(mcp, keyVariable) },
    {
      id: 'curl',
      title: 'curl',
      into: 'shell',
      text: curl(base, keyVariable, call),
    },
  ];
}

function curl(base: string, keyVariable: string | null, call: Connection['call']): string {
  const bearer = keyVariable ? ` -H "Authorization: Bearer $${keyVariable}"` : '';
  if (!call) return `curl -s ${base}/tools${bearer}`;
  const path = [call.toolkit, call.tool].map(encodeURIComponent).join('/');
  const body = JSON.stringify(call.arguments).replaceAll("'", "'\\''");
  return `curl -s ${base}/tools/${path}${bearer} \\\n  -H "Content-Type: application/json" -d '${body}'`;
}

function python(mcp: string, keyVariable: string | null): string {
  const headers = keyVariable ? `, headers={"Authorization": f"Bearer {os.environ['${keyVariable}']}"}` : '';
  return `import asyncio
${keyVariable ? 'import os\n' : ''}
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client


async def main():
    async with streamablehttp_client("${mcp}"${headers}) as (read, write, _):
        async with ClientSession(read, write) as session:
            await session.initialize()
            print([tool.name for tool in (await session.list_tools()).tools])


asyncio.run(main())`;
}
