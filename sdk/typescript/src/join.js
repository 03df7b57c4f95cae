/** A tool server that joins a hall, and leaves it without losing a call. */
import { randomBytes } from 'node:crypto';
import { HttpChannel } from './channel.js';
import { Desk } from './desk.js';
import { listen } from './http-server.js';
import { Membership } from './membership.js';
import { servedOf } from './served.js';
import { SocketChannel } from './socket.js';
import { newToken } from './token.js';
import { atMost } from './waiting.js';
import { writeDeclaration } from './wire/declarations.js';
const GRACE_MS = 30_000; // for calls that run while the hall is away
const FLUSH_MS = 1_000; // for replies that are under way when the hall says that none is
/** Resolves once joined; a hall that is away is tried until it is there, one that refuses is not. */
export async function join(toolkits, options) {
    const desk = new Desk(servedOf(toolkits), options.calls);
    const token = newToken();
    const listening = options.socket ? null : await listen(desk, { ...address(options), token });
    const where = listening === null ? {} : { url: options.advertise ?? listening.url, token };
    const member = new Membership({
        open: opener(options, desk),
        params: joining(desk, options, where),
        status: async () => (await desk.health()).status,
        log: options.log ?? ((line) => console.error(line)),
        retry: { first: options.retry?.first ?? 1, most: options.retry?.most ?? 5 },
    });
    let leaving;
    const { promise: left, resolve } = deferred();
    const close = () => {
        leaving ??= leave(desk, member, listening).then(resolve);
        return leaving;
    };
    const unwatch = options.signals === false ? () => { } : onSignals(close);
    void left.then(unwatch);
    try {
        await member.joined;
    }
    catch (error) {
        await close();
        throw error;
    }
    return joinedAs(member, left, close, listening?.url);
}
function joinedAs(member, left, close, url) {
    return {
        ...(url !== undefined && { url }),
        left,
        close,
        get lease() {
            return member.lease;
        },
        get tools() {
            return member.tools;
        },
    };
}
async function leave(desk, member, listening) {
    desk.draining = true;
    const heard = await member.leave();
    await atMost(heard ? FLUSH_MS : GRACE_MS, desk.idle());
    desk.stopAll();
    member.close();
    await listening?.stop();
}
function opener(options, desk) {
    const key = options.key ?? process.env.TOOLHALL_KEY;
    if (options.socket)
        return () => SocketChannel.open(options.hall, key, desk);
    return async () => new HttpChannel(options.hall, key);
}
function joining(desk, options, where) {
    const tools = desk.served.map(({ declaration }) => writeDeclaration(declaration));
    const server = options.server ?? desk.served[0]?.declaration.name ?? 'tools';
    return { server, replica: randomBytes(16).toString('hex'), ...where, tools };
}
function address(options) {
    const { host, port, advertise } = options;
    if (advertise === undefined && (host === '0.0.0.0' || host === '::')) {
        throw new TypeError("say where the hall reaches this server: advertise: 'http://tools.example:9001'");
    }
    return { ...(host !== undefined && { host }), ...(port !== undefined && { port }) };
}
/** The first signal leaves, a second one ends the process as it always does. */
function onSignals(close) {
    const end = () => {
        unwatch();
        void close().then(() => process.exit(0));
    };
    const unwatch = () => {
        process.off('SIGTERM', end);
        process.off('SIGINT', end);
    };
    process.on('SIGTERM', end);
    process.on('SIGINT', end);
    return unwatch;
}
function deferred() {
    let resolve = () => { };
    const promise = new Promise((done) => {
        resolve = done;
    });
    return { promise, resolve };
}
