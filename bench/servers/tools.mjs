// The benchmark's tool on the TypeScript SDK, as a tool server: node tools.mjs HALL_URL, where the SDK is installed.

import { join, tool, toolkit } from '@toolhall/sdk';

const number = { type: 'number' };

const add = tool({
  name: 'add',
  description: 'Add two numbers.',
  level: 1,
  input: { type: 'object', properties: { a: number, b: number }, required: ['a', 'b'], additionalProperties: false },
  output: { type: 'object', properties: { result: number }, required: ['result'] },
  run: ({ a, b }) => ({ result: a + b }),
});

const { url } = await join(toolkit({ name: 'tools', version: '0.1.0', tools: [add] }), { hall: process.argv[2] });
console.log(JSON.stringify({ url, pid: process.pid }));
