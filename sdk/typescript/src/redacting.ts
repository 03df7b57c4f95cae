/** Keeps what was lent to a call out of logs and errors, whatever an exception quotes. */

import type { Json, JsonObject } from './json.js';
import { formsOf } from './secret-forms.js';
import type { CallContext } from './wire/calls.js';

const SHORTEST = 4; // shorter ones are in too many words
const HIDDEN = '[redacted]';
// Members that programs look for: a secret that is such a word by chance does not rename them.
const WORDS = new Set(['can_retry', 'feature', 'path', 'problems', 'prompt', 'reason', 'retry_after']);

export class Redactor {
  readonly #forms: readonly (string | RegExp)[];

  constructor(lent: Pick<CallContext, 'secrets' | 'accounts'>) {
    const tokens = Object.values(lent.accounts).map((each) => each.token);
    const values = new Set([...Object.values(lent.secrets), ...tokens].filter((each) => each.length >= SHORTEST));
    // The longest first, because one may hold another.
    this.#forms = [...values].sort((one, other) => other.length - one.length).flatMap(formsOf);
  }

  /** The same text without the secrets and tokens of the call. */
  text(text: string): string {
    return this.#forms.reduce<string>((left, form) => left.replaceAll(form, HIDDEN), text);
  }

  object(members: JsonObject): JsonObject {
    const entries = Object.entries(members);
    return Object.fromEntries(
      entries.map(([key, value]) => [WORDS.has(key) ? key : this.text(key), this.value(value)]),
    );
  }

  value(value: Json): Json {
    if (typeof value === 'string') return this.text(value);
    if (typeof value === 'number') return this.text(String(value)) === String(value) ? value : HIDDEN;
    if (typeof value !== 'object' || value === null) return value;
    return Array.isArray(value) ? value.map((each) => this.value(each)) : this.object(value);
  }
}
