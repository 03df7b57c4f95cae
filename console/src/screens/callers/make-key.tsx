/** `MakeKey`: a dialog that makes an API key, shows it once, and gives it as a client wants it. */

import { useState } from 'preact/hooks';
import { BASE, hall } from '../../api/client';
import { me } from '../../api/me';
import type { ApiKey } from '../../api/types';
import { needsProof, ProofDialog } from '../../app/session';
import { CopyButton, Note } from '../../ui/basics';
import { Dialog, useAction } from '../../ui/dialog';
import { ErrorState } from '../../ui/states';
import { t } from '../../words/messages';
import '../../words/en/callers';

const SCOPES = ['tools:*', 'observe', 'approve', 'admin', 'act_as', 'serve:*', 'trusted'] as const;
const ENDS = ['30d', '90d', '365d', 'never'] as const;
type Made = ApiKey & { secret: string };

export function MakeKey({ onClose, onMade }: { onClose: () => void; onMade: () => Promise<void> }) {
  const [name, setName] = useState('');
  const [owner, setOwner] = useState('');
  const [scopes, setScopes] = useState<readonly string[]>(['tools:*']);
  const [ends, setEnds] = useState<(typeof ENDS)[number]>('90d');
  const [shared, setShared] = useState(false);
  const [made, setMade] = useState<Made | null>(null);
  const [proving, setProving] = useState(false);
  const make = useAction(async () => {
    try {
      const person = owner.trim() ? { owner: owner.trim() } : {};
      setMade(await hall.post<Made>('api/keys', { name: name.trim(), ...person, shared, scopes, expires: ends }));
    } catch (error) {
      if (!needsProof(error)) throw error;
      setProving(true);
      return;
    }
    await onMade();
  });
  const toggle = (scope: string) =>
    setScopes(scopes.includes(scope) ? scopes.filter((each) => each !== scope) : [...scopes, scope]);
  if (made) return <Shown made={made} onClose={onClose} />;
  if (proving) {
    const proven = () => {
      setProving(false);
      make.run();
    };
    return <ProofDialog onProven={proven} onClose={() => setProving(false)} />;
  }
  return (
    <Dialog title={t('callers.make')} onClose={onClose}>
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          make.run();
        }}
      >
        {make.error && <ErrorState error={make.error} small />}
        <div class="field">
          <label for="key-name">{t('callers.keyName')}</label>
          <input
            id="key-name"
            autoComplete="off"
            spellcheck={false}
            maxLength={64}
            aria-describedby="key-name-hint"
            value={name}
            onInput={(event) => setName(event.currentTarget.value)}
          />
          <p class="hint" id="key-name-hint">
            {t('callers.keyNameHint')}
          </p>
        </div>
        <div class="field">
          <label for="key-owner">{t('callers.keyOwner')}</label>
          <input
            id="key-owner"
            autoComplete="off"
            value={owner}
            onInput={(event) => setOwner(event.currentTarget.value)}
          />
        </div>
        <fieldset class="choices">
          <legend>{t('callers.keyScopes')}</legend>
          {SCOPES.map((scope) => (
            <label key={scope} class="check">
              <input type="checkbox" checked={scopes.includes(scope)} onChange={() => toggle(scope)} />
              <span>
                <code>{scope}</code> <span class="faint">{t(`callers.scopeWords.${scope}`)}</span>
              </span>
            </label>
          ))}
        </fieldset>
        <div class="field">
          <label for="key-ends">{t('callers.keyEnds')}</label>
          <select
            id="key-ends"
            value={ends}
            onChange={(event) => setEnds(event.currentTarget.value as (typeof ENDS)[number])}
          >
            {ENDS.map((each) => (
              <option key={each} value={each}>
                {t(`callers.endWords.${each}`)}
              </option>
            ))}
          </select>
        </div>
        <label class="check">
          <input type="checkbox" checked={shared} onChange={() => setShared(!shared)} />
          <span>{t('callers.keyShared')}</span>
        </label>
        <div class="actions">
          <button type="button" class="button" onClick={onClose}>
            {t('shared.cancel')}
          </button>
          <button type="submit" class="button main" disabled={make.busy || !name.trim() || scopes.length === 0}>
            {t('callers.makeNow')}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function Shown({ made, onClose }: { made: Made; onClose: () => void }) {
  const base = (me.value?.publicUrl ?? new URL(BASE, location.href).href).replace(/\/$/, '');
  const server = { url: `${base}/mcp`, headers: { Authorization: `Bearer ${made.secret}` } };
  const configuration = JSON.stringify({ mcpServers: { [me.value?.hall ?? 'toolhall']: server } }, null, 2);
  return (
    <Dialog title={t('callers.madeTitle', { name: made.name })} onClose={onClose} closable={false}>
      <div class="stack">
        <Note tone="refused">{t('callers.once')}</Note>
        <div class="copyable">
          <pre class="exact secret">{made.secret}</pre>
          <CopyButton text={made.secret} />
        </div>
        <p>{t('callers.asClient')}</p>
        <div class="copyable">
          <pre class="exact">{configuration}</pre>
          <CopyButton text={configuration} />
        </div>
        <div class="actions">
          <button type="button" class="button main" onClick={onClose}>
            {t('callers.kept')}
          </button>
        </div>
      </div>
    </Dialog>
  );
}
