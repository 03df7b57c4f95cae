/** Connections that have not shown the token yet: few, short, and never in the way of the hall's. */

import type { Socket } from 'node:net';

const MOST_VISITORS = 64;

/**
 * A connection is a visitor until a request on it brings the token. A visitor is ended after a while, whatever it
 * sends, and when there are too many, the oldest one of the address that has most of them makes way for the new one.
 * So whoever opens connections and does nothing with them ends its own, and the hall always gets in.
 */
export class Visitors {
  readonly #waiting = new Map<Socket, NodeJS.Timeout>(); // in order of arrival

  constructor(private readonly patience: number) {}

  enter(socket: Socket): void {
    if (this.#waiting.size >= MOST_VISITORS) this.#oldestOfBusiest(socket.remoteAddress)?.destroy();
    const timer = setTimeout(() => socket.destroy(), this.patience);
    timer.unref();
    this.#waiting.set(socket, timer);
    socket.once('close', () => this.prove(socket));
  }

  /** It is the hall's, or gone. */
  prove(socket: Socket): void {
    clearTimeout(this.#waiting.get(socket));
    this.#waiting.delete(socket);
  }

  #oldestOfBusiest(newcomer: string | undefined): Socket | undefined {
    const counts = new Map<string | undefined, number>([[newcomer, 1]]);
    for (const { remoteAddress } of this.#waiting.keys()) {
      counts.set(remoteAddress, (counts.get(remoteAddress) ?? 0) + 1);
    }
    const most = Math.max(...counts.values());
    const sockets = [...this.#waiting.keys()];
    const oldest = sockets.find(({ remoteAddress }) => counts.get(remoteAddress) === most) ?? sockets[0];
    if (oldest !== undefined) this.prove(oldest);
    return oldest;
  }
}
