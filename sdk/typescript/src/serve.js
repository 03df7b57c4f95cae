/** A tool server that joins no hall by itself: it answers whoever knows its token. */
import { Desk } from './desk.js';
import { listen } from './http-server.js';
import { servedOf } from './served.js';
import { atMost } from './waiting.js';
const GRACE_MS = 30_000;
export async function serve(toolkits, options = {}) {
    const desk = new Desk(servedOf(toolkits), options.calls);
    const listening = await listen(desk, options);
    const close = async () => {
        desk.draining = true;
        await atMost(GRACE_MS, desk.idle());
        desk.stopAll();
        await listening.stop();
    };
    let closing;
    return {
        url: listening.url,
        close: () => {
            closing ??= close();
            return closing;
        },
    };
}
