/** Secrets: what tools need and nobody sees again; names, owners, use, and whether they open. */

import { useState } from 'preact/hooks';
import { hall, segments } from '../../api/client';
import { mayManage } from '../../api/me';
import { useResource } from '../../api/resource';
import type { SecretRow } from '../../api/types';
import type { ScreenProps } from '../../app/sections';
import { Chip, Note, Time } from '../../ui/basics';
import { Ask, Dialog, useAction } from '../../ui/dialog';
import { Icon } from '../../ui/icon';
import { Marks } from '../../ui/marks';
import { EmptyState, ErrorState, Loaded, PageHead } from '../../ui/states';
import { type Column, DataTable } from '../../ui/table';
import { t } from '../../words/messages';
import { UsedBy } from '../accounts/used-by';
import '../../words/en/secrets';

type Open = { what: 'set'; name: string; user: string } | { what: 'remove'; secret: SecretRow } | { what: 'rotate' };

export function SecretsScreen(_: ScreenProps) {
  const secrets = useResource<{ secrets: SecretRow[] }>('api/secrets');
  const [open, setOpen] = useState<Open | null>(null);
  const close = () => setOpen(null);
  const changed = async () => {
    close();
    await secrets.reload();
  };
  const add = (
    <button type="button" class="button main" onClick={() => setOpen({ what: 'set', name: '', user: '' })}>
      <Icon name="plus" />
      {t('secrets.set')}
    </button>
  );
  return (
    <>
      <PageHead
        title={t('titles.secrets')}
        actions={
          mayManage() && (
            <>
              <button type="button" class="button" onClick={() => setOpen({ what: 'rotate' })}>
                <Icon name="refresh" />
                {t('secrets.rotate')}
              </button>
              {add}
            </>
          )
        }
      >
        {t('secrets.about')}
      </PageHead>
      <section class="card" aria-label={t('titles.secrets')}>
        <Loaded
          of={secrets}
          scope="admin"
          empty={{
            when: (data) => data.secrets.length === 0,
            show: (
              <EmptyState icon="secret" action={add}>
                {t('secrets.empty')}
              </EmptyState>
            ),
          }}
        >
          {(data) => (
            <DataTable
              label={t('titles.secrets')}
              columns={columns(setOpen)}
              rows={data.secrets}
              rowKey={(secret) => `${secret.name} ${secret.user ?? ''}`}
              twoLine
            />
          )}
        </Loaded>
      </section>
      {open?.what === 'set' && <SetDialog start={open} onClose={close} onDone={changed} />}
      {open?.what === 'remove' && (
        <Ask
          title={t('secrets.removeTitle', { name: open.secret.name })}
          verb={t('shared.remove')}
          danger
          act={async () => {
            await hall.delete(segments('api/secrets', open.secret.name), { query: { user: open.secret.user } });
            await secrets.reload();
          }}
          onClose={close}
        >
          <p>{t('secrets.removeWhy', { count: open.secret.usedBy.length })}</p>
        </Ask>
      )}
      {open?.what === 'rotate' && <RotateDialog onClose={close} onDone={secrets.reload} />}
    </>
  );
}

const columns = (open: (what: Open) => void): Column<SecretRow>[] => [
  {
    id: 'name',
    head: t('secrets.name'),
    cell: (secret) => (
      <code>
        <Marks text={secret.name} />
      </code>
    ),
  },
  {
    id: 'owner',
    head: t('secrets.owner'),
    class: 'second',
    cell: (secret) =>
      secret.user === null ? <span class="soft">{t('secrets.ofHall')}</span> : <Marks text={secret.user} />,
  },
  { id: 'used-by', head: t('secrets.usedBy'), class: 'optional', cell: (secret) => <UsedBy tools={secret.usedBy} /> },
  { id: 'used', head: t('secrets.used'), class: 'optional', cell: (secret) => <Time at={secret.usedAt} /> },
  {
    id: 'changed',
    head: t('secrets.changed'),
    class: 'optional',
    cell: (secret) => <Time at={secret.changedAt ?? secret.createdAt} as="dateTime" />,
  },
  {
    id: 'state',
    head: t('secrets.state'),
    class: 'last',
    cell: (secret) =>
      secret.usable ? (
        <Chip tone="ok" icon="check">
          {t('secrets.usable')}
        </Chip>
      ) : (
        <Chip tone="failed" icon="warning">
          {t('secrets.unusable')}
        </Chip>
      ),
  },
  {
    id: 'actions',
    head: <span class="sr">{t('secrets.actions')}</span>,
    class: 'end third',
    cell: (secret) =>
      mayManage() && (
        <span class="row nowrap">
          <button
            type="button"
            class="button low"
            aria-label={t('secrets.replaceOf', { name: secret.name })}
            onClick={() => open({ what: 'set', name: secret.name, user: secret.user ?? '' })}
          >
            {t('secrets.replace')}
          </button>
          <button
            type="button"
            class="button low danger"
            aria-label={t('secrets.removeOf', { name: secret.name })}
            onClick={() => open({ what: 'remove', secret })}
          >
            {t('shared.remove')}
          </button>
        </span>
      ),
  },
];

interface SetProps {
  start: { name: string; user: string };
  onClose: () => void;
  onDone: () => Promise<void>;
}

function SetDialog({ start, onClose, onDone }: SetProps) {
  const [name, setName] = useState(start.name);
  const [user, setUser] = useState(start.user);
  const [value, setValue] = useState('');
  const replaces = start.name !== '';
  const save = useAction(async () => {
    await hall.put(segments('api/secrets', name.trim()), { value }, { query: { user: user.trim() } });
    await onDone();
  });
  return (
    <Dialog title={replaces ? t('secrets.replaceOf', { name }) : t('secrets.set')} onClose={onClose}>
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          save.run();
        }}
      >
        {save.error && <ErrorState error={save.error} small />}
        {!replaces && (
          <>
            <Field
              id="secret-name"
              label={t('secrets.name')}
              hint={t('secrets.nameHint')}
              value={name}
              onInput={setName}
            />
            <Field
              id="secret-user"
              label={t('secrets.owner')}
              hint={t('secrets.ownerHint')}
              value={user}
              onInput={setUser}
            />
          </>
        )}
        <Field
          id="secret-value"
          label={t('secrets.value')}
          hint={t('secrets.valueHint')}
          value={value}
          onInput={setValue}
          hidden
        />
        <div class="actions">
          <button type="button" class="button" onClick={onClose}>
            {t('shared.cancel')}
          </button>
          <button type="submit" class="button main" disabled={save.busy || !name.trim() || !value}>
            {t('shared.save')}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

interface FieldProps {
  id: string;
  label: string;
  hint: string;
  value: string;
  onInput: (value: string) => void;
  /** Of a value that nobody may read over the shoulder. */
  hidden?: boolean;
}

export function Field({ id, label, hint, value, onInput, hidden }: FieldProps) {
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <input
        id={id}
        {...(hidden ? { type: 'password' as const } : { type: 'text' as const })}
        autoComplete="off"
        spellcheck={false}
        aria-describedby={`${id}-hint`}
        value={value}
        onInput={(event) => onInput(event.currentTarget.value)}
      />
      <p class="hint" id={`${id}-hint`}>
        {hint}
      </p>
    </div>
  );
}

function RotateDialog({ onClose, onDone }: { onClose: () => void; onDone: () => Promise<void> }) {
  const [rotated, setRotated] = useState<number | null>(null);
  const rotate = useAction(async () => {
    setRotated((await hall.post<{ rotated: number }>('api/secrets/rotate')).rotated);
    await onDone();
  });
  return (
    <Dialog title={t('secrets.rotate')} onClose={onClose}>
      <div class="stack">
        <p>{t('secrets.rotateWhy')}</p>
        {rotate.error && <ErrorState error={rotate.error} small />}
        {rotated !== null && (
          <Note tone="ok" live>
            {t('secrets.rotated', { count: rotated })}
          </Note>
        )}
        <div class="actions">
          <button type="button" class="button" onClick={onClose}>
            {t('shared.close')}
          </button>
          {rotated === null && (
            <button type="button" class="button main" disabled={rotate.busy} onClick={rotate.run}>
              {t('secrets.rotateNow')}
            </button>
          )}
        </div>
      </div>
    </Dialog>
  );
}
