/** Callers and keys: who can call, how they prove it, and what they did; keys are made and revoked here. */

import { useState } from 'preact/hooks';
import { hall, segments } from '../../api/client';
import { mayManage } from '../../api/me';
import { useResource } from '../../api/resource';
import type { ApiKey, CallerRow } from '../../api/types';
import { href, navigate, query, setQuery } from '../../app/router';
import type { ScreenProps } from '../../app/sections';
import { Chip, Facts, Time, type Tone } from '../../ui/basics';
import { Ask } from '../../ui/dialog';
import { FilterLine } from '../../ui/filter-line';
import { Icon, type IconName } from '../../ui/icon';
import { Marks } from '../../ui/marks';
import { EmptyState, Loaded, PageHead } from '../../ui/states';
import { type Column, DataTable } from '../../ui/table';
import { number, percent, span } from '../../words/format';
import { t } from '../../words/messages';
import { MakeKey } from './make-key';
import '../../words/en/callers';

const DAY = 86_400_000;
/** A key that ends within so many days, or was not used for so many, is named. */
const SOON_DAYS = 14;
const IDLE_DAYS = 30;

export function CallersScreen({ path }: ScreenProps) {
  const callers = useResource<{ callers: CallerRow[] }>('api/callers', { every: 30 });
  const [revoking, setRevoking] = useState<ApiKey | null>(null);
  const making = query('new') === 'key';
  const name = query('name').toLowerCase();
  const chosen = path[0];
  const shown = (callers.data?.callers ?? []).filter((each) => each.name.toLowerCase().includes(name));
  const row = callers.data?.callers.find((each) => each.name === chosen);
  const make = (
    <button type="button" class="button main" onClick={() => setQuery({ new: 'key' })}>
      <Icon name="plus" />
      {t('callers.make')}
    </button>
  );
  return (
    <>
      <PageHead title={t('titles.callers')} actions={mayManage() && make}>
        {t('callers.about')}
      </PageHead>
      <div class={chosen === undefined ? 'split-none' : 'split detail'}>
        <section class="card" aria-label={t('titles.callers')}>
          <header>
            <FilterLine fields={[]} plain="name" placeholder={t('callers.placeholder')} />
          </header>
          <Loaded
            of={callers}
            rows={8}
            empty={{
              when: () => shown.length === 0,
              show: (
                <EmptyState icon="key" action={mayManage() && !name && make}>
                  {name ? t('callers.noneMatch') : t('callers.none')}
                </EmptyState>
              ),
            }}
          >
            {() => (
              <DataTable
                label={t('titles.callers')}
                columns={columns()}
                rows={shown}
                rowKey={(each) => each.name}
                chosen={chosen}
                onChoose={(each) => navigate(href(['callers', each.name], { name: query('name') }), true)}
                twoLine
              />
            )}
          </Loaded>
        </section>
        {chosen !== undefined && (
          <aside class="card" aria-labelledby="caller">
            {row ? (
              <CallerCard caller={row} onRevoke={setRevoking} />
            ) : (
              callers.data && <EmptyState icon="key">{t('callers.unknown', { name: chosen })}</EmptyState>
            )}
          </aside>
        )}
      </div>
      {making && mayManage() && <MakeKey onClose={() => setQuery({ new: null })} onMade={callers.reload} />}
      {revoking && (
        <Ask
          title={t('callers.revokeTitle', { name: revoking.name })}
          verb={t('callers.revoke')}
          danger
          act={async () => {
            await hall.delete(segments('api/keys', revoking.id));
            await callers.reload();
          }}
          onClose={() => setRevoking(null)}
        >
          <p>{t('callers.revokeWhy')}</p>
        </Ask>
      )}
    </>
  );
}

const columns = (): Column<CallerRow>[] => [
  {
    id: 'name',
    head: t('callers.name'),
    cell: (caller) => (
      <a href={href(['callers', caller.name], { name: query('name') })}>
        <Marks text={caller.name} cut={96} />
      </a>
    ),
  },
  { id: 'proof', head: t('callers.proof'), class: 'second', cell: (caller) => proofWords(caller.proof) },
  {
    id: 'owner',
    head: t('callers.owner'),
    class: 'optional',
    cell: (caller) => (caller.owner ? <Marks text={caller.owner} /> : <span class="faint">–</span>),
  },
  { id: 'scopes', head: t('callers.scopes'), class: 'optional', cell: (caller) => <Scopes scopes={caller.scopes} /> },
  { id: 'state', head: t('callers.state'), class: 'optional', cell: (caller) => <KeysState keys={caller.keys} /> },
  { id: 'last', head: t('callers.last'), class: 'last nowrap', cell: (caller) => <Time at={caller.lastAt} /> },
  {
    id: 'calls',
    head: t('callers.calls'),
    class: 'optional end num',
    cell: (caller) => number(caller.calls),
  },
  {
    id: 'refused',
    head: t('callers.refused'),
    class: 'optional end num',
    cell: (caller) => (caller.calls ? percent(caller.refused / caller.calls) : '–'),
  },
];

const PROOFS = { local: 1, key: 1, shared: 1, token: 1, none: 1 } as const;

const proofWords = (proof: string): string =>
  proof in PROOFS ? t(`callers.proofs.${proof as keyof typeof PROOFS}`) : proof;

function Scopes({ scopes }: { scopes: string[] }) {
  return (
    <span class="row tight">
      {scopes.map((each) => (
        <Chip key={each} tone={each === 'admin' ? 'refused' : 'plain'}>
          <Marks text={each} cut={96} />
        </Chip>
      ))}
    </span>
  );
}

/** What is to be said of a key: revoked, ended, ends soon, not used; null if it is simply good. */
function keyState(key: ApiKey): [Tone, IconName, string] | null {
  const now = Date.now();
  if (key.revokedAt) return ['failed', 'cross', t('callers.revoked')];
  if (key.expiresAt) {
    const left = Date.parse(key.expiresAt) - now;
    if (left <= 0) return ['failed', 'cross', t('callers.expired')];
    if (left < SOON_DAYS * DAY) return ['refused', 'clock', t('callers.endsIn', { time: span(left / 1000) })];
  }
  if (now - Date.parse(key.lastUsedAt ?? key.createdAt) > IDLE_DAYS * DAY)
    return ['refused', 'clock', t('callers.idle')];
  return null;
}

function KeysState({ keys }: { keys: ApiKey[] }) {
  const good = keys.filter((each) => !each.revokedAt);
  const said =
    good.map(keyState).find((each) => each !== null) ?? (good.length ? null : (keys.map(keyState)[0] ?? null));
  if (said === null) return <span class="faint">{keys.length ? t('callers.good') : '–'}</span>;
  return (
    <Chip tone={said[0]} icon={said[1]}>
      {said[2]}
    </Chip>
  );
}

function CallerCard({ caller, onRevoke }: { caller: CallerRow; onRevoke: (key: ApiKey) => void }) {
  return (
    <>
      <header>
        <h2 id="caller" class="anywhere">
          <Marks text={caller.name} />
        </h2>
        <a
          class="button bare low push"
          href={href(['callers'], { name: query('name') })}
          aria-label={t('callers.close')}
        >
          <Icon name="cross" />
        </a>
      </header>
      <div class="in stack">
        <Facts
          facts={[
            [t('callers.proof'), proofWords(caller.proof)],
            [t('callers.owner'), caller.owner && <Marks text={caller.owner} />],
            [t('callers.scopes'), <Scopes key="scopes" scopes={caller.scopes} />],
            [t('callers.last'), <Time key="last" at={caller.lastAt} />],
            [t('callers.calls'), number(caller.calls)],
            [t('callers.refused'), number(caller.refused)],
          ]}
        />
        <div class="row">
          <a class="button low" href={href(['calls'], { caller: caller.name })}>
            {t('callers.itsCalls')}
          </a>
          <a class="button low" href={href(['calls'], { caller: caller.name, outcome: 'refused' })}>
            {t('callers.itsRefusals')}
          </a>
          <a class="button low" href={href(['grants', 'why'], { caller: caller.name })}>
            {t('callers.mayCall')}
          </a>
        </div>
        {caller.keys.length > 0 && (
          <section class="stack" aria-labelledby="keys">
            <h3 id="keys">{t('callers.keys')}</h3>
            {caller.keys.map((key) => (
              <KeyEntry key={key.id} of={key} onRevoke={() => onRevoke(key)} />
            ))}
          </section>
        )}
      </div>
    </>
  );
}

function KeyEntry({ of, onRevoke }: { of: ApiKey; onRevoke: () => void }) {
  const said = keyState(of);
  return (
    <div class="stack tight">
      <p class="row">
        <code>{of.id}</code>
        {said && (
          <Chip tone={said[0]} icon={said[1]}>
            {said[2]}
          </Chip>
        )}
        {of.shared && <Chip>{t('callers.shared')}</Chip>}
      </p>
      <Facts
        facts={[
          [t('callers.scopes'), <Scopes key="scopes" scopes={of.scopes} />],
          [t('callers.made'), <Time key="made" at={of.createdAt} as="dateTime" />],
          [t('callers.madeBy'), <Marks key="by" text={of.by} />],
          [t('callers.ends'), of.expiresAt ? <Time at={of.expiresAt} as="dateTime" /> : t('shared.never')],
          [t('callers.lastUsed'), <Time key="used" at={of.lastUsedAt} />],
        ]}
      />
      {mayManage() && !of.revokedAt && (
        <div class="row">
          <button
            type="button"
            class="button low danger"
            aria-label={t('callers.revokeOf', { id: of.id })}
            onClick={onRevoke}
          >
            {t('callers.revoke')}
          </button>
        </div>
      )}
    </div>
  );
}
