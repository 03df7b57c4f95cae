/** A tool server that joins no hall by itself: it answers whoever knows its token. */

import { Desk } from './desk.js';
import { type ListenOptions, listen } from './http-server.js';
import { type Servable, servedOf } from './served.js';
import { atMost } from './waiting.js';

const GRACE_MS = 30_000;

export interface ServeOptions extends ListenOptions {
  /** Calls that may run at once; 1000 unless said. */
  calls?: number;
}

export interface Serving {
  readonly url: string;
  /** Begin nothing new, let calls that run end (for at most 30 seconds), and stop. */
  close(): Promise<void>;
}

export async function serve(toolkits: Servable | readonly Servable[], options: ServeOptions = {}): Promise<Serving> {
  const desk = new Desk(servedOf(toolkits), options.calls);
  const listening = await listen(desk, options);
  const close = async () => {
    desk.draining = true;
    await atMost(GRACE_MS, desk.idle());
    desk.stopAll();
    await listening.stop();
  };
  let closing: Promise<void> | undefined;
  return {
    url: listening.url,
    close: () => {
      closing ??= close();
      return closing;
    },
  };
}
