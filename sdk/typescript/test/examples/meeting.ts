// meeting.ts
import { tool } from '@toolhall/sdk';
import { z } from 'zod';

export const cancel = tool({
  name: 'cancel',
  description: 'Cancel an event, if the person agrees.',
  input: z.object({ id: z.string() }),
  effect: 'destroys',
  async run({ id }, ctx) {
    const given = await ctx.ask(`Cancel ${id}?`, z.object({ reason: z.string() }));
    if (given.action !== 'accept') return 'nothing was cancelled';
    ctx.info({ id, reason: given.value.reason });
    return `cancelled: ${given.value.reason}`;
  },
});
