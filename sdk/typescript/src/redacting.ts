/** Keeps what was lent to a call out of logs and errors, whatever an exception quotes. */

import type { CallContext } from './wire/calls.js';

const SHORTEST = 4; // shorter ones are in too many words
const HIDDEN = '[redacted]';

/** The same text without the secrets and tokens of this call. */
export function redacted(text: string, lent: Pick<CallContext, 'secrets' | 'accounts'>): string {
  const tokens = Object.values(lent.accounts).map((each) => each.token);
  const values = [...Object.values(lent.secrets), ...tokens].filter((each) => each.length >= SHORTEST);
  // Also as JSON, a URL and a header spell them; the longest first, because one may hold another.
  const spelled = values.flatMap((each) => [
    each,
    JSON.stringify(each).slice(1, -1),
    encodeURIComponent(Buffer.from(each).toString()),
    Buffer.from(each).toString('base64'),
  ]);
  const all = [...new Set(spelled)].sort((one, other) => other.length - one.length);
  return all.reduce((left, each) => left.replaceAll(each, HIDDEN), text);
}
