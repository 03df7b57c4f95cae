/** What a call brought for its tool; it can be read only as far as the tool declared it. */

import { isObject, type Json, type JsonObject } from './json.js';
import type { CallContext, LentToken } from './wire/calls.js';

/** An account as one call may use it. */
export interface Account {
  token: string;
  scopes: readonly string[];
  expiresAt: number | null;
}

type Supplied = Pick<CallContext, 'secrets' | 'accounts' | 'user_id'>;
const NOTHING: Supplied = { secrets: {}, accounts: {}, user_id: null };

export class Supply {
  readonly #supplied: Supplied;
  readonly #secrets: readonly string[];
  readonly #accounts: readonly string[];

  constructor(supplied: Supplied = NOTHING, requirements: JsonObject | null = null) {
    this.#supplied = supplied;
    this.#secrets = idsIn(requirements?.secrets);
    this.#accounts = idsIn(requirements?.authorization);
  }

  get userId(): string | null {
    return this.#supplied.user_id;
  }

  secret(id: string): string {
    if (!this.#secrets.includes(id)) throw new Error(`declare the secret first: requires: { secrets: ['${id}'] }`);
    if (Object.hasOwn(this.#supplied.secrets, id)) return this.#supplied.secrets[id] as string;
    throw new Error(`the hall did not send the secret '${id}'`);
  }

  account(provider = this.#only()): Account {
    if (!this.#accounts.includes(provider)) {
      throw new Error(`declare the account first: requires: { accounts: ['${provider}'] }`);
    }
    if (!Object.hasOwn(this.#supplied.accounts, provider)) {
      throw new Error(`the hall did not send an account at '${provider}'`);
    }
    const { token, scopes, expires_at } = this.#supplied.accounts[provider] as LentToken;
    return { token, scopes, expiresAt: expires_at };
  }

  #only(): string {
    const [first, ...others] = this.#accounts;
    if (first === undefined || others.length > 0) throw new Error('say which account: ctx.account(provider)');
    return first;
  }
}

function idsIn(listed: Json | undefined): string[] {
  const each = Array.isArray(listed) ? listed : [];
  return each.filter(isObject).flatMap(({ id }) => (typeof id === 'string' ? [id] : []));
}
