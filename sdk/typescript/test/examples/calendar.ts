// calendar.ts
import { ToolError, tool, toolkit } from '@toolhall/sdk';
import { z } from 'zod';

const create = tool({
  name: 'create',
  description: 'Create an event.',
  input: z.object({ title: z.string(), guests: z.array(z.string()).default([]) }),
  output: z.object({ id: z.string(), title: z.string() }),
  effect: 'writes',
  requires: { secrets: ['CALENDAR_KEY'] },
  async run({ title, guests }, ctx) {
    if (title === '') throw new ToolError('an event needs a title', { prompt: 'Ask the user for one.' });
    const key = ctx.secret('CALENDAR_KEY');
    guests.forEach((guest, index) => {
      ctx.progress(index + 1, guests.length, `invited ${guest}`);
    });
    return { id: `event-${key.length}`, title };
  },
});

const sum = tool({
  name: 'hours',
  description: 'Add up hours.',
  input: { type: 'object', properties: { hours: { type: 'array', items: { type: 'number' } } }, required: ['hours'] },
  output: { type: 'number' },
  effect: 'reads',
  run: ({ hours }) => hours.reduce((sum, each) => sum + each, 0),
});

export const calendar = toolkit({ name: 'Calendar', version: '1.2.0', level: 3, tools: [create, sum] });
