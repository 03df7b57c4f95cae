/** What a call brought for its tool; it can be read only as far as the tool declared it. */
import { isObject } from './json.js';
const NOTHING = { secrets: {}, accounts: {}, user_id: null };
export class Supply {
    #supplied;
    #secrets;
    #accounts;
    constructor(supplied = NOTHING, requirements = null) {
        this.#supplied = supplied;
        this.#secrets = idsIn(requirements?.secrets);
        this.#accounts = idsIn(requirements?.authorization);
    }
    get userId() {
        return this.#supplied.user_id;
    }
    secret(id) {
        if (!this.#secrets.includes(id))
            throw new Error(`declare the secret first: requires: { secrets: ['${id}'] }`);
        if (Object.hasOwn(this.#supplied.secrets, id))
            return this.#supplied.secrets[id];
        throw new Error(`the hall did not send the secret '${id}'`);
    }
    account(provider = this.#only()) {
        if (!this.#accounts.includes(provider)) {
            throw new Error(`declare the account first: requires: { accounts: ['${provider}'] }`);
        }
        if (!Object.hasOwn(this.#supplied.accounts, provider)) {
            throw new Error(`the hall did not send an account at '${provider}'`);
        }
        const { token, scopes, expires_at } = this.#supplied.accounts[provider];
        return { token, scopes, expiresAt: expires_at };
    }
    #only() {
        const [first, ...others] = this.#accounts;
        if (first === undefined || others.length > 0)
            throw new Error('say which account: ctx.account(provider)');
        return first;
    }
}
function idsIn(listed) {
    const each = Array.isArray(listed) ? listed : [];
    return each.filter(isObject).flatMap(({ id }) => (typeof id === 'string' ? [id] : []));
}
