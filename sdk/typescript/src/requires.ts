/** What a tool, a resource or a prompt needs: secrets, accounts, a proven user. */

import type { JsonObject } from './json.js';

/** What a tool needs; it can read this and nothing else. */
export interface Requires {
  /** Ids in the hall's vault, for `ctx.secret(id)`. */
  secrets?: readonly string[];
  /** Providers, with scopes: `google:calendar.events`, for `ctx.account()`. */
  accounts?: readonly (string | { provider: string; scopes?: readonly string[] })[];
  /** Only for a caller that is a proven user: `ctx.userId`. */
  userId?: boolean;
}

/** What is required, in OXP's words. */
export function required(requires: Requires): JsonObject | null {
  const accounts = (requires.accounts ?? []).map((each) => (typeof each === 'string' ? account(each) : each));
  const written: JsonObject = {};
  if (accounts.length > 0) {
    written.authorization = accounts.map(({ provider, scopes = [] }) =>
      scopes.length > 0 ? { id: provider, oauth2: { scopes: [...scopes] } } : { id: provider },
    );
  }
  if (requires.secrets?.length) written.secrets = requires.secrets.map((id) => ({ id }));
  if (requires.userId) written.user_id = true;
  return Object.keys(written).length > 0 ? written : null;
}

/** `google:calendar.events contacts` is a provider and its scopes. */
function account(written: string): { provider: string; scopes: string[] } {
  const [provider = '', scopes = ''] = written.split(/:(.*)/s);
  return { provider, scopes: scopes.split(' ').filter(Boolean) };
}
