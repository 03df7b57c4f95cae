/** What can go wrong between a hall and whoever speaks to it. */

import type { JsonObject } from './json.js';

const PASSING = ['UNAVAILABLE', 'RATE_LIMITED', 'TIMEOUT', 'INTERNAL_ERROR', 'CIRCUIT_OPEN'];
const BUSY = [429, 502, 503, 504]; // of a hall, or of a proxy before it
const NO_HALL = [401, 403, 404, 405, 421]; // no hall says these without a message

/** The hall's own word: it refuses. */
export class HallError extends Error {
  override name = 'HallError';

  constructor(
    readonly code: string,
    message: string,
    readonly details: JsonObject = {},
  ) {
    super(message);
  }

  /** It may say something else a moment later. */
  get passes(): boolean {
    return PASSING.includes(this.code);
  }
}

/** A server answered, but not as a hall does: what to make of that, and of the address that it has. */
export function notAHall(url: URL, status: number): Error {
  const said = `${url.origin}${url.pathname} answered with status ${status}`;
  if (BUSY.includes(status)) return new HallError('UNAVAILABLE', `${said} and no message`);
  if (status >= 300 && status < 400) {
    return new HallError(
      'UNSUPPORTED',
      `${said}: it sends on to another address; if you trust that one, write it instead`,
    );
  }
  const asked = `${said} and no message of a hall; is it a hall? Its address is like http://127.0.0.1:8000`;
  return NO_HALL.includes(status) ? new HallError('UNSUPPORTED', asked) : new HallAway(asked);
}

/** Whether the same may be asked again a little later. */
export function passes(error: unknown): boolean {
  return error instanceof HallError && error.passes;
}

/** The hall cannot be reached, or does not answer. */
export class HallAway extends Error {
  override name = 'HallAway';
}
