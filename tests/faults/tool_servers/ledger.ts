/** A toolkit whose every effect can be counted; `ledger.py` holds the same one in Python. */

import { appendFileSync } from 'node:fs';
import { setTimeout as later } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { type Context, join, tool, toolkit } from '@toolhall/sdk';

type Line = { nonce: string; pause: number; tell: boolean };

const INPUT = {
  type: 'object',
  properties: { nonce: { type: 'string' }, pause: { type: 'number' }, tell: { type: 'boolean' } },
  required: ['nonce', 'pause', 'tell'],
  additionalProperties: false,
} as const;
const OUTPUT = { type: 'string' } as const;

async function written({ nonce, pause, tell }: Line, ctx: Context): Promise<string> {
  if (tell) ctx.progress(0, 1, 'about to write');
  await later(pause * 500, undefined, { signal: ctx.signal });
  appendFileSync(process.env.LEDGER ?? '', `${nonce} ${process.pid}\n`);
  await later(pause * 500, undefined, { signal: ctx.signal });
  return nonce;
}

const ledger = toolkit({
  name: 'TsLedger',
  version: '1.0.0',
  tools: [
    tool({ name: 'write', input: INPUT, output: OUTPUT, effect: 'writes', timeout: 5, run: written }),
    tool({ name: 'keep', input: INPUT, output: OUTPUT, effect: 'writes', timeout: 25, run: written }),
  ],
});

const { values } = parseArgs({
  options: {
    join: { type: 'string', default: '' },
    socket: { type: 'boolean', default: false },
    port: { type: 'string', default: '0' },
    advertise: { type: 'string' },
  },
});
const { socket, port, advertise } = values;
const joined = await join(ledger, {
  hall: values.join,
  socket,
  port: Number(port),
  ...(advertise !== undefined && { advertise }),
});
console.log(JSON.stringify({ url: joined.url ?? values.join, pid: process.pid }));
