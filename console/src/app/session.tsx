/** Signing in: the page for nobody, the dialog over a page whose session ended, and the fresh proof that a change needs. */

import { useState } from 'preact/hooks';
import { BASE, HallError, hall } from '../api/client';
import { askWhoIAm, me } from '../api/me';
import type { Proof } from '../api/types';
import { Dialog, useAction } from '../ui/dialog';
import { Icon, Logo } from '../ui/icon';
import { ErrorState, Said } from '../ui/states';
import { t } from '../words/messages';
import { getPasskey, hasPasskeys } from './passkey';

/** Where one signs in; it leads back to the console. */
const SIGN_IN = `${BASE}sign-in`;

/** The whole page of somebody whom the hall does not know. */
export function SignInPage({ problem }: { problem: HallError }) {
  const nobody = problem.status === 401;
  return (
    <main class="no-script stack">
      <div class="brand">
        <Logo />
        Toolhall
      </div>
      <section class="card">
        <div class="in stack">
          <h1>{nobody ? t('session.nobody') : t('states.error', { asked: problem.asked })}</h1>
          <p class="soft">{nobody ? t('session.nobodyWhy') : <Said error={problem} />}</p>
          <div class="row">
            {nobody && (
              <a class="button main" href={SIGN_IN}>
                {t('session.signIn')}
              </a>
            )}
            <button type="button" class="button" onClick={() => void askWhoIAm()}>
              {t('shared.again')}
            </button>
          </div>
        </div>
      </section>
    </main>
  );
}

/** Over the page, so that nothing that was typed is lost. */
export function SessionEnded() {
  const again = useAction(async () => {
    if (!(await askWhoIAm())) throw new HallError(401, 'unauthenticated', t('session.nobodyWhy'));
  });
  return (
    <Dialog title={t('session.ended')} closable={false} onClose={() => undefined}>
      <div class="stack">
        <p>{t('session.endedWhy')}</p>
        {again.error && <ErrorState error={again.error} small />}
        <div class="actions">
          <a class="button main" href={SIGN_IN} target="_blank" rel="noreferrer">
            <Icon name="open" />
            {t('session.signIn')}
          </a>
          <button type="button" class="button" disabled={again.busy} onClick={again.run}>
            {t('session.retry')}
          </button>
        </div>
      </div>
    </Dialog>
  );
}

/** Whether the hall refused a change because it needs a fresh proof that the person is there. */
export const needsProof = (error: unknown): boolean => error instanceof HallError && error.code === 'proof_required';

/** Asks for a code or passkey; `onProven` does the change again. */
export function ProofDialog({ onProven, onClose }: { onProven: () => void; onClose: () => void }) {
  const [code, setCode] = useState('');
  const prove = async (body: unknown) => {
    const proof = await hall.post<Proof>('api/me/proof', body);
    if (me.value) me.value = { ...me.value, provenAt: proof.provenAt };
    onProven();
  };
  const byCode = useAction(() => prove({ code: code.trim() }));
  const byPasskey = useAction(async () => prove(await getPasskey('api/me/proof/options')));
  const error = byCode.error ?? byPasskey.error;
  return (
    <Dialog title={t('session.prove')} onClose={onClose}>
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          byCode.run();
        }}
      >
        <p>{t('session.proveWhy')}</p>
        {error && <ErrorState error={error} small />}
        <div class="field">
          <label for="proof-code">{t('session.code')}</label>
          <input
            id="proof-code"
            inputMode="numeric"
            autoComplete="one-time-code"
            value={code}
            onInput={(event) => setCode(event.currentTarget.value)}
          />
        </div>
        <div class="actions">
          {hasPasskeys() && (
            <button type="button" class="button" disabled={byPasskey.busy} onClick={byPasskey.run}>
              <Icon name="passkey" />
              {t('session.provePasskey')}
            </button>
          )}
          <button type="submit" class="button main" disabled={byCode.busy || !code.trim()}>
            {t('session.proveByCode')}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
