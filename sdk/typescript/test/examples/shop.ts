// shop.ts
import { Message, prompt, resource, toolkit } from '@toolhall/sdk';
import { z } from 'zod';

const open = new Map([['17', { total: 20 }]]);

const policy = resource('shop://policy', { name: 'policy', mimeType: 'text/markdown', fresh: 300 }, () => '# Refunds');

const order = resource(
  'shop://orders/{number}{?lang}',
  {
    name: 'order',
    description: 'One order.',
    complete: { number: () => [...open.keys()], lang: ['de', 'en'] },
  },
  ({ number, lang = 'en' }) => {
    const found = open.get(number); // undefined: there is no such resource
    return found && { number, lang, ...found };
  },
);

const refund = prompt(
  'refund',
  {
    title: 'Write a refund letter',
    input: z.object({ number: z.int(), tone: z.enum(['kind', 'short']).default('kind') }),
    complete: { number: (typed) => [...open.keys()].filter((each) => each.includes(typed)) },
  },
  ({ number, tone }) => [Message.user(`Order ${number}.`), `Write a ${tone} letter.`],
);

export const shop = toolkit({
  name: 'Shop',
  version: '1.0.0',
  tools: [],
  resources: [policy, order],
  prompts: [refund],
});
