/** Accounts: identities of other services that people have linked, and the services that can be linked. */

import { useState } from 'preact/hooks';
import { hall, segments } from '../../api/client';
import { mayManage } from '../../api/me';
import { useResource } from '../../api/resource';
import type { AccountRow, ProviderRow } from '../../api/types';
import type { ScreenProps } from '../../app/sections';
import { Chip, Note, Time } from '../../ui/basics';
import { Ask, Dialog, useAction } from '../../ui/dialog';
import { Icon } from '../../ui/icon';
import { Marks } from '../../ui/marks';
import { EmptyState, ErrorState, Loaded, PageHead } from '../../ui/states';
import { type Column, DataTable } from '../../ui/table';
import { rich, t } from '../../words/messages';
import { UsedBy } from './used-by';
import '../../words/en/accounts';
import '../../words/en/secrets';

interface LinkStarted {
  id: string;
  url: string;
}

export function AccountsScreen(_: ScreenProps) {
  const accounts = useResource<{ accounts: AccountRow[] }>('api/accounts', { every: 15 });
  const providers = useResource<{ providers: ProviderRow[] }>('api/providers');
  const [linking, setLinking] = useState<ProviderRow | null>(null);
  const [removing, setRemoving] = useState<AccountRow | null>(null);
  const [unrevoked, setUnrevoked] = useState<string | null>(null);
  const offered = providers.data?.providers ?? [];
  const again = (account: AccountRow) => setLinking(offered.find((each) => each.name === account.provider) ?? null);
  return (
    <>
      <PageHead title={t('titles.accounts')}>{t('accounts.about')}</PageHead>
      {unrevoked && (
        <Note tone="refused" live>
          <Marks text={t('accounts.unrevoked', { message: unrevoked })} />
        </Note>
      )}
      <section class="card" aria-labelledby="linked">
        <header>
          <h2 id="linked">{t('accounts.linked')}</h2>
        </header>
        <Loaded
          of={accounts}
          empty={{
            when: (data) => data.accounts.length === 0,
            show: <EmptyState icon="link">{t('accounts.empty')}</EmptyState>,
          }}
        >
          {(data) => (
            <DataTable
              label={t('accounts.linked')}
              columns={columns(again, setRemoving)}
              rows={data.accounts}
              rowKey={(account) => account.id}
              twoLine
            />
          )}
        </Loaded>
      </section>
      <section class="card" aria-labelledby="providers">
        <header>
          <h2 id="providers">{t('accounts.providers')}</h2>
        </header>
        <Loaded
          of={providers}
          rows={2}
          empty={{
            when: (data) => data.providers.length === 0,
            show: <EmptyState icon="plug">{t('accounts.noProviders')}</EmptyState>,
          }}
        >
          {(data) => (
            <ul class="choice-list">
              {data.providers.map((each) => (
                <li key={each.name}>
                  <span>
                    <strong class="anywhere">
                      <Marks text={each.displayName} />
                    </strong>
                    <br />
                    <span class="faint tiny anywhere">
                      <Marks text={each.scopes.join(', ') || t('accounts.noScopes')} />
                    </span>
                  </span>
                  <button type="button" class="button push" onClick={() => setLinking(each)}>
                    <Icon name="link" />
                    <span class="cut">{rich('accounts.link', { provider: <Marks text={each.displayName} /> })}</span>
                  </button>
                </li>
              ))}
            </ul>
          )}
        </Loaded>
      </section>
      {linking && <LinkDialog provider={linking} onClose={() => setLinking(null)} />}
      {removing && (
        <Ask
          title={t('accounts.removeTitle', { provider: removing.providerName })}
          verb={t('accounts.disconnect')}
          danger
          act={async () => {
            const done = await hall.delete<{ unrevoked: string | null }>(segments('api/accounts', removing.id));
            setUnrevoked(done.unrevoked);
            await accounts.reload();
          }}
          onClose={() => setRemoving(null)}
        >
          <p>{t('accounts.removeWhy', { provider: removing.providerName, user: removing.user })}</p>
        </Ask>
      )}
    </>
  );
}

const columns = (again: (account: AccountRow) => void, remove: (account: AccountRow) => void): Column<AccountRow>[] => [
  {
    id: 'provider',
    head: t('accounts.provider'),
    class: 'anywhere',
    cell: (account) => (
      <strong>
        <Marks text={account.providerName} cut={96} />
      </strong>
    ),
  },
  { id: 'user', head: t('accounts.user'), class: 'second', cell: (account) => <Marks text={account.user} /> },
  {
    id: 'scopes',
    head: t('accounts.scopes'),
    class: 'optional anywhere',
    cell: (account) => (
      <span class="tiny">
        <Marks text={account.scopes.join(', ')} cut={120} />
      </span>
    ),
  },
  { id: 'used-by', head: t('secrets.usedBy'), class: 'optional', cell: (account) => <UsedBy tools={account.usedBy} /> },
  { id: 'used', head: t('secrets.used'), class: 'optional', cell: (account) => <Time at={account.usedAt} /> },
  {
    id: 'state',
    head: t('secrets.state'),
    class: 'last',
    cell: (account) =>
      account.state === 'broken' ? (
        <Chip tone="failed" icon="warning">
          {t('accounts.broken')}
        </Chip>
      ) : (
        <Chip tone="ok" icon="check">
          {t('accounts.works')}
        </Chip>
      ),
  },
  {
    id: 'actions',
    head: <span class="sr">{t('secrets.actions')}</span>,
    class: 'end third',
    cell: (account) => (
      <span class="row nowrap">
        {account.state === 'broken' && (
          <button type="button" class="button low" onClick={() => again(account)}>
            {t('accounts.again')}
          </button>
        )}
        <button
          type="button"
          class="button low danger"
          aria-label={t('accounts.disconnectOf', { provider: account.providerName, user: account.user })}
          onClick={() => remove(account)}
        >
          {t('accounts.disconnect')}
        </button>
      </span>
    ),
  },
];

function LinkDialog({ provider, onClose }: { provider: ProviderRow; onClose: () => void }) {
  const [scopes, setScopes] = useState(provider.scopes.join(' '));
  const [started, setStarted] = useState<LinkStarted | null>(null);
  const start = useAction(async () => {
    const body = { provider: provider.name, scopes: scopes.split(/[\s,]+/).filter(Boolean), how: 'browser' };
    setStarted(await hall.post<LinkStarted>('api/accounts', body));
  });
  return (
    <Dialog title={t('accounts.link', { provider: provider.displayName })} onClose={onClose}>
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          start.run();
        }}
      >
        <p>{t('accounts.linkWhy', { provider: provider.displayName })}</p>
        {start.error && <ErrorState error={start.error} small />}
        {started ? (
          <Note tone="info" live>
            {t('accounts.goThere', { provider: provider.displayName })}
          </Note>
        ) : (
          <div class="field">
            <label for="link-scopes">{t('accounts.scopes')}</label>
            <input
              id="link-scopes"
              aria-describedby="link-scopes-hint"
              value={scopes}
              onInput={(event) => setScopes(event.currentTarget.value)}
            />
            <p class="hint" id="link-scopes-hint">
              {mayManage() ? t('accounts.scopesHintManager') : t('accounts.scopesHint')}
            </p>
          </div>
        )}
        <div class="actions">
          <button type="button" class="button" onClick={onClose}>
            {t('shared.close')}
          </button>
          {started ? (
            <a class="button main" href={started.url} target="_blank" rel="noreferrer">
              <Icon name="open" />
              {t('accounts.open')}
            </a>
          ) : (
            <button type="submit" class="button main" disabled={start.busy}>
              {t('accounts.begin')}
            </button>
          )}
        </div>
      </form>
    </Dialog>
  );
}
