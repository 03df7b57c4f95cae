/** What can go wrong between a hall and whoever speaks to it. */

import type { JsonObject } from './json.js';

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
    return ['UNAVAILABLE', 'RATE_LIMITED', 'TIMEOUT', 'INTERNAL_ERROR'].includes(this.code);
  }
}

/** The hall cannot be reached, or does not answer. */
export class HallAway extends Error {
  override name = 'HallAway';
}
