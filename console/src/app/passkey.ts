/** Passkeys of this browser: options from the hall in, a credential for the hall out. */

import { HallError, hall } from '../api/client';
import { t } from '../words/messages';

/** What the hall answers for a passkey: an id to send back, and the options of the browser. */
interface PasskeyOptions {
  id: string;
  publicKey: PublicKeyCredentialRequestOptionsJSON;
}

/** Whether the browser can use passkeys here (it cannot at an address that is not secure). */
export const hasPasskeys = (): boolean =>
  typeof globalThis.PublicKeyCredential?.parseRequestOptionsFromJSON === 'function';

/** Ask the hall for options at `path`, the person for a passkey, and return the body that proves it. */
export async function getPasskey(path: string): Promise<{ id: string; credential: unknown }> {
  const { id, publicKey } = await hall.post<PasskeyOptions>(path);
  try {
    const options = PublicKeyCredential.parseRequestOptionsFromJSON(publicKey);
    const credential = await navigator.credentials.get({ publicKey: options });
    return { id, credential: (credential as PublicKeyCredential).toJSON() };
  } catch (error) {
    throw new HallError(-1, 'passkey', t('session.passkeyFailed', { message: String((error as Error).message) }));
  }
}
