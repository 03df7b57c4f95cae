/** C13, the pure part: a copied call says the same as the form, to a shell, to Python and to Node. */

import { execFileSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { type CopiedCall, copyAs, formsOf } from '../../src/copyas/forms';
import { pythonLiteral, scriptLiteral, shellWord } from '../../src/copyas/quote';
import { type Exact, readJson, sameJson, writeJson } from '../../src/json/exact';
import { restRequest } from '../../src/run/target';
import { Random, randomJson } from '../forms/random';

const values: Exact[] = Array.from({ length: 400 }, (_, seed) => randomJson(new Random(seed), 4));
const call: CopiedCall = {
  kind: 'tool',
  uri: null,
  hall: 'https://hall.example.org/a',
  mcp: 'https://hall.example.org/a/mcp',
  hallName: 'hall',
  toolkit: 'Calendar',
  tool: "it's a/b",
  version: '1.0.0+x',
  published: 'Calendar_create',
  arguments: { title: "it's" },
  needsKey: true,
};

describe('literals', () => {
  it('a shell reads each word as it is', () => {
    const words = values.map((value) => writeJson(value, 2));
    const said = execFileSync('sh', ['-c', `printf '%s\\0' ${words.map(shellWord).join(' ')}`], { encoding: 'utf8' });
    expect(said.split('\0').slice(0, -1)).toEqual(words);
  });

  it('Python reads each value as it is', () => {
    // What has numbers that Python would write otherwise is copied as text, so those are left out here.
    const plain = values.filter((value) => !/1e400|1\.0|-0\b|1e\+?21|1e-7/.test(writeJson(value)));
    const script = `import json\nprint(json.dumps([${plain.map((value) => pythonLiteral(value)).join(',\n')}]))\n`;
    const said = readJson(execFileSync('python3', ['-'], { input: script, encoding: 'utf8' })).value;
    expect(sameJson(said, plain)).toBe(true);
  });

  it('Node reads each value as it is', () => {
    const plain = values.filter((value) => !/1e400|1\.0|-0\b|12345678901234567890/.test(writeJson(value)));
    const script = `process.stdout.write(JSON.stringify([${plain.map((value) => scriptLiteral(value)).join(',\n')}]))`;
    const said = readJson(execFileSync(process.execPath, ['-'], { input: script, encoding: 'utf8' })).value;
    expect(sameJson(said, plain)).toBe(true);
  });
});

describe('forms', () => {
  it('the address holds the names as parts of a path', () => {
    expect(restRequest(call, call.arguments).url).toBe(
      'https://hall.example.org/a/tools/Calendar/it%27s%20a%2Fb?version=1.0.0%2Bx',
    );
  });

  it('curl', () => {
    expect(copyAs('curl', call)).toBe(
      `curl -sS \\\n  '${restRequest(call, call.arguments).url}' \\\n  -H "Authorization: Bearer $TOOLHALL_KEY" \\\n  -H 'Content-Type: application/json' \\\n  --data-raw '{\n  "title": "it'\\''s"\n}'`,
    );
  });

  // biome-ignore lint/suspicious/noTemplateCurlyInString: clients replace it
  const key = 'Bearer ${TOOLHALL_KEY}';
  it('a client gets the MCP endpoint and the name of the key, never a key', () => {
    expect(JSON.parse(copyAs('client', call))).toEqual({
      mcpServers: { hall: { type: 'http', url: call.mcp, headers: { Authorization: key } } },
    });
    expect(copyAs('client', { ...call, needsKey: false })).not.toContain('TOOLHALL_KEY');
  });

  it('a resource is read at its URI, and sends no body', () => {
    const uri = 'shop://orders/{number}{?part}';
    const read: CopiedCall = {
      ...call,
      kind: 'resource',
      uri,
      arguments: { number: 17, part: 'a&b' },
      needsKey: false,
    };
    const url = 'https://hall.example.org/a/resources/read?uri=shop%3A%2F%2Forders%2F17%3Fpart%3Da%2526b';
    expect(copyAs('curl', read)).toBe(`curl -sS \\\n  '${url}'`);
    expect(copyAs('typescript', read)).toContain(`await fetch("${url}");`);
    expect(copyAs('python', read)).toContain('print(response.read())');
  });

  it('a prompt is got by its name', () => {
    const got: CopiedCall = { ...call, kind: 'prompt', published: 'say it' };
    expect(copyAs('curl', got)).toContain("'https://hall.example.org/a/prompts/say%20it'");
    expect(copyAs('curl', got)).toContain('--data-raw');
  });

  it('only tools are written as model APIs call them', () => {
    expect(formsOf('tool')).toContain('openai');
    expect(formsOf('resource')).toEqual(['curl', 'python', 'typescript', 'client']);
  });

  it('model APIs get the published name', () => {
    expect(JSON.parse(copyAs('openai', call)).tool_calls[0].function).toEqual({
      name: 'Calendar_create',
      arguments: '{"title":"it\'s"}',
    });
    expect(JSON.parse(copyAs('anthropic', call)).content[0]).toMatchObject({
      name: 'Calendar_create',
      input: { title: "it's" },
    });
  });
});
