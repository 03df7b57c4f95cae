/** Upstreams: servers of somebody else whose tools are offered; how they are, and what of theirs waits for a look. */

import { useState } from 'preact/hooks';
import { HallError, hall, segments } from '../../api/client';
import { mayManage } from '../../api/me';
import { useResource } from '../../api/resource';
import type { UpstreamCheck, UpstreamReview, UpstreamRow } from '../../api/types';
import { href, navigate } from '../../app/router';
import type { ScreenProps } from '../../app/sections';
import { Chip, Facts, Note, Time, type Tone } from '../../ui/basics';
import { Ask, Dialog, useAction } from '../../ui/dialog';
import { Icon, type IconName } from '../../ui/icon';
import { JsonView } from '../../ui/json';
import { Marks, MarksInWords } from '../../ui/marks';
import { EmptyState, ErrorState, Loaded, PageHead } from '../../ui/states';
import { type Column, DataTable } from '../../ui/table';
import { number } from '../../words/format';
import { t } from '../../words/messages';
import { ChangeList, FindingList } from '../review/screen';
import { Field } from '../secrets/screen';
import '../../words/en/upstreams';

export function UpstreamsScreen({ path }: ScreenProps) {
  const upstreams = useResource<{ upstreams: UpstreamRow[] }>('api/upstreams', { topics: ['upstreams'], every: 30 });
  const [adding, setAdding] = useState(false);
  const chosen = path[0];
  const add = mayManage() && (
    <button type="button" class="button main" onClick={() => setAdding(true)}>
      <Icon name="plus" />
      {t('upstreams.add')}
    </button>
  );
  return (
    <>
      <PageHead title={t('titles.upstreams')} actions={add}>
        {t('upstreams.about')}
      </PageHead>
      <section class="card" aria-label={t('titles.upstreams')}>
        <Loaded
          of={upstreams}
          empty={{
            when: (data) => data.upstreams.length === 0,
            show: <EmptyState icon="plug">{t('upstreams.empty')}</EmptyState>,
          }}
        >
          {(data) => (
            <DataTable
              label={t('titles.upstreams')}
              columns={columns()}
              rows={data.upstreams}
              rowKey={(row) => row.name}
              chosen={chosen}
              onChoose={(row) => navigate(href(['upstreams', row.name]), true)}
              twoLine
            />
          )}
        </Loaded>
      </section>
      {upstreams.data?.upstreams
        .filter((row) => row.name === chosen)
        .map((row) => (
          <UpstreamCard key={row.name} row={row} reload={upstreams.reload} />
        ))}
      {adding && (
        <AddDialog
          onClose={() => setAdding(false)}
          onDone={async (name) => {
            setAdding(false);
            await upstreams.reload();
            navigate(href(['upstreams', name]));
          }}
        />
      )}
    </>
  );
}

const STATES: Record<UpstreamRow['state'], [Tone, IconName]> = {
  new: ['busy', 'clock'],
  connecting: ['busy', 'clock'],
  ready: ['ok', 'check'],
  away: ['failed', 'cross'],
  refused: ['failed', 'warning'],
  waiting: ['refused', 'key'],
  off: ['plain', 'stop'],
};

function State({ state }: { state: UpstreamRow['state'] }) {
  const [tone, icon] = STATES[state];
  return (
    <Chip tone={tone} icon={icon}>
      {t(`upstreams.states.${state}`)}
    </Chip>
  );
}

const columns = (): Column<UpstreamRow>[] => [
  {
    id: 'name',
    head: t('upstreams.name'),
    cell: (row) => (
      <a href={href(['upstreams', row.name])}>
        <Marks text={row.name} />
      </a>
    ),
  },
  { id: 'state', head: t('upstreams.state'), class: 'last', cell: (row) => <State state={row.state} /> },
  { id: 'target', head: t('upstreams.target'), class: 'second', cell: (row) => <Marks text={row.target} cut={80} /> },
  {
    id: 'tools',
    head: t('upstreams.tools'),
    class: 'end optional',
    cell: (row) => <span class="num">{number(row.tools)}</span>,
  },
  {
    id: 'reviews',
    head: t('upstreams.reviews'),
    class: 'end optional',
    cell: (row) => <span class="num">{number(row.waiting)}</span>,
  },
];

interface CardProps {
  row: UpstreamRow;
  reload: () => Promise<void>;
}

function UpstreamCard({ row, reload }: CardProps) {
  const [removing, setRemoving] = useState(false);
  const [check, setCheck] = useState<UpstreamCheck | null>(null);
  const path = segments('api/upstreams', row.name);
  const isOff = row.state === 'off';
  const checking = useAction(async () => {
    setCheck(await hall.post<UpstreamCheck>(`${path}/check`));
    await reload();
  });
  const syncing = useAction(() => hall.post(`${path}/sync`).finally(reload));
  const switching = useAction(() => hall.post(`${path}/${isOff ? 'on' : 'off'}`).finally(reload));
  return (
    <section class="card" aria-labelledby="upstream">
      <header>
        <h2 id="upstream">
          <Marks text={row.name} />
        </h2>
        <a class="push" href={href(['tools'], { toolkit: row.name })}>
          {t('upstreams.tools')}
        </a>
        {mayManage() && (
          <>
            <button type="button" class="button low" disabled={checking.busy} onClick={checking.run}>
              {t('upstreams.check')}
            </button>
            {!isOff && (
              <button type="button" class="button low" disabled={syncing.busy} onClick={syncing.run}>
                {t('upstreams.sync')}
              </button>
            )}
            <button type="button" class="button low" disabled={switching.busy} onClick={switching.run}>
              {t(isOff ? 'upstreams.on' : 'upstreams.off')}
            </button>
            {row.source === 'store' && (
              <button type="button" class="button low danger" onClick={() => setRemoving(true)}>
                {t('shared.remove')}
              </button>
            )}
          </>
        )}
      </header>
      <div class="in stack">
        {[checking, syncing, switching].map(
          ({ error }, at) => error && <ErrorState key={['check', 'sync', 'switch'][at]} error={error} small />,
        )}
        {row.reason && (
          <Note>
            <Marks text={row.reason} />
          </Note>
        )}
        <Facts facts={factsOf(row)} />
        {check && <Steps check={check} />}
        {row.waiting > 0 && mayManage() && <Waiting key={row.waiting} path={path} reload={reload} />}
      </div>
      {removing && (
        <Ask
          title={t('upstreams.removeTitle', { name: row.name })}
          verb={t('shared.remove')}
          danger
          act={async () => {
            await hall.delete(path);
            navigate(href(['upstreams']), true);
            await reload();
          }}
          onClose={() => setRemoving(false)}
        >
          <p>{t('upstreams.removeWhy')}</p>
        </Ask>
      )}
    </section>
  );
}

const factsOf = (row: UpstreamRow) =>
  [
    [t('upstreams.state'), <State key="state" state={row.state} />],
    [t('upstreams.since'), row.since && <Time key="since" at={row.since} />],
    [t('upstreams.target'), <Marks key="target" text={row.target} />],
    [
      t('upstreams.source'),
      <>
        {t(`upstreams.sources.${row.source === 'command line' ? 'typed' : row.source}`)} <Marks text={row.where} />
      </>,
    ],
    [t('upstreams.server'), row.server && <Marks key="server" text={`${row.server.name} ${row.server.version}`} />],
    [t('upstreams.revision'), row.revision && <Marks key="revision" text={`MCP ${row.revision}`} />],
    [t('upstreams.synced'), <Time key="synced" at={row.lastSync} />],
    [t('upstreams.next'), row.nextTry && <Time key="next" at={row.nextTry} />],
    [t('upstreams.sessions'), number(row.sessions)],
    [t('upstreams.children'), row.children ? number(row.children) : null],
    [t('upstreams.lost'), row.lostCalls ? number(row.lostCalls) : null],
    [t('upstreams.settings'), <JsonView key="settings" value={row.settings} label={t('upstreams.settings')} />],
  ] as const;

function Steps({ check }: { check: UpstreamCheck }) {
  return (
    <section class="stack tight" aria-labelledby="steps" aria-live="polite">
      <h3 id="steps">{t('upstreams.checked')}</h3>
      <ol class="plain-list">
        {check.steps.map((step) => (
          <li key={step.name}>
            <Chip tone={step.ok ? 'ok' : 'failed'} icon={step.ok ? 'check' : 'cross'}>
              <Marks text={step.name} />
            </Chip>{' '}
            <Marks text={step.detail} />{' '}
            <span class="faint num">{t('upstreams.seconds', { seconds: number(step.seconds) })}</span>
            {step.fix && (
              <p>
                <Marks text={step.fix} />
              </p>
            )}
          </li>
        ))}
      </ol>
    </section>
  );
}

/** The digest of all that was on the screen goes with the yes: what changed meanwhile is not served. */
function Waiting({ path, reload }: { path: string; reload: () => Promise<void> }) {
  const review = useResource<UpstreamReview>(`${path}/review`);
  const accept = useAction(async () => {
    try {
      await hall.post(`${path}/review`, { digest: review.data?.digest });
    } catch (error) {
      if (error instanceof HallError && error.status === 409) await review.reload();
      throw error;
    }
    await reload();
  });
  return (
    <section class="stack" aria-labelledby="waiting">
      <h3 id="waiting">{t('upstreams.review')}</h3>
      <p class="soft">{t('upstreams.reviewWhy')}</p>
      <Loaded of={review} scope="admin" rows={4}>
        {(data) => (
          <>
            {data.tools.map((each) => (
              <section key={each.id} class="stack tight" aria-label={each.id}>
                <h4 class="row">
                  <Marks text={each.id} />
                  {each.was === null ? <Chip tone="busy">{t('upstreams.fresh')}</Chip> : <Marks text={each.was} />}
                </h4>
                <ChangeList changes={each.changes} />
                <FindingList findings={each.findings} />
                <JsonView value={each.document} label={each.id} depth={99} />
                <MarksInWords texts={[JSON.stringify(each.document)]} />
              </section>
            ))}
            {data.withheld.length > 0 && (
              <>
                <h4>{t('upstreams.withheld')}</h4>
                <ul class="plain-list">
                  {data.withheld.map((each) => (
                    <li key={each.tool}>
                      <Marks text={`${each.tool}: ${each.reason}`} />
                    </li>
                  ))}
                </ul>
              </>
            )}
            {accept.error && <ErrorState error={accept.error} small />}
            {data.tools.length > 0 && (
              <div class="row">
                <button type="button" class="button main tall" disabled={accept.busy} onClick={accept.run}>
                  <Icon name="check" />
                  {t('upstreams.accept', { count: data.tools.length })}
                </button>
              </div>
            )}
          </>
        )}
      </Loaded>
    </section>
  );
}

interface AddProps {
  onClose: () => void;
  onDone: (name: string) => Promise<void>;
}

function AddDialog({ onClose, onDone }: AddProps) {
  const [name, setName] = useState('');
  const [url, setUrl] = useState('');
  const add = useAction(async () => {
    await hall.post('api/upstreams', { name: name.trim(), settings: { url: url.trim() } });
    await onDone(name.trim());
  });
  return (
    <Dialog title={t('upstreams.add')} onClose={onClose}>
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          add.run();
        }}
      >
        <p>{t('upstreams.addWhy')}</p>
        {add.error && <ErrorState error={add.error} small />}
        <Field
          id="upstream-name"
          label={t('upstreams.nameLabel')}
          hint={t('upstreams.nameHint')}
          value={name}
          onInput={setName}
        />
        <Field
          id="upstream-url"
          label={t('upstreams.url')}
          hint={t('upstreams.urlHint')}
          value={url}
          onInput={setUrl}
        />
        <div class="actions">
          <button type="button" class="button" onClick={onClose}>
            {t('shared.cancel')}
          </button>
          <button type="submit" class="button main" disabled={add.busy || !name.trim() || !url.trim()}>
            {t('upstreams.addNow')}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
