/** Names whose values are secrets: nobody may be asked for one in a form, which passes through the client's logs. */
import { isObject } from './json.js';
const ANYWHERE = /passw(or)?d|passphrase|passcode|secret|credential|bearer|cookie|token(?!i[sz])|(api|access|private|auth|client|session)key|(otp|pin|recovery|security|verification)code|creditcard|cardnumber/;
const ALONE = new Set(['auth', 'cvc', 'cvv', 'otp', 'pass', 'pin', 'pw', 'pwd', 'ssn', 'totp']);
export function refuseSecrets(schema) {
    const fields = isObject(schema.properties) ? Object.keys(schema.properties) : [];
    const secret = fields.find(isSecretName);
    if (secret === undefined)
        return;
    throw new TypeError(`field '${secret}' asks for a secret; send the person to a page with ctx.visit instead`);
}
function isSecretName(name) {
    const words = name.match(/[A-Z]+(?![a-z])|[A-Z]?[a-z]+/g) ?? [];
    const joined = name.replace(/[^A-Za-z0-9]/g, '').toLowerCase();
    return ANYWHERE.test(joined) || words.some((word) => ALONE.has(word.toLowerCase()));
}
