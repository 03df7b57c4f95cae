/** What can go wrong between a hall and whoever speaks to it. */

import type { JsonObject } from './json.js';

const PASSING = ['UNAVAILABLE', 'RATE_LIMITED', 'TIMEOUT', 'INTERNAL_ERROR', 'CIRCUIT_OPEN'];

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

/** Whether the same may be asked again a little later. */
export function passes(error: unknown): boolean {
  return error instanceof HallError && error.passes;
}

/** The hall cannot be reached, or does not answer. */
export class HallAway extends Error {
  override name = 'HallAway';
}
