/** Contracts: newest versions that break the ones before, tools that will end, and the check of a lock file. */

import { useRef, useState } from 'preact/hooks';
import { hall } from '../../api/client';
import { useResource } from '../../api/resource';
import type { Contracts, LockCheck } from '../../api/types';
import { href } from '../../app/router';
import type { ScreenProps } from '../../app/sections';
import { Chip, Note, Time } from '../../ui/basics';
import { Icon } from '../../ui/icon';
import { checkJson, JsonInput } from '../../ui/json';
import { Marks } from '../../ui/marks';
import { Question } from '../../ui/question';
import { EmptyState, Loaded, PageHead } from '../../ui/states';
import { type Column, DataTable } from '../../ui/table';
import { number } from '../../words/format';
import { rich, t } from '../../words/messages';
import '../../words/en/contracts';

type Breaking = Contracts['breaking'][number];
type Deprecation = Contracts['deprecations'][number];

export function ContractsScreen(_: ScreenProps) {
  const contracts = useResource<Contracts>('api/contracts', { topics: ['tools'] });
  return (
    <>
      <PageHead title={t('titles.contracts')}>{t('contracts.about')}</PageHead>
      <section class="card" aria-labelledby="breaking">
        <header>
          <h2 id="breaking">{t('contracts.breaking')}</h2>
        </header>
        <Loaded
          of={contracts}
          empty={{
            when: (data) => data.breaking.length === 0,
            show: <EmptyState icon="check">{t('contracts.noBreaking')}</EmptyState>,
          }}
        >
          {(data) => (
            <DataTable
              label={t('contracts.breaking')}
              columns={breakingColumns()}
              rows={data.breaking}
              rowKey={(each) => each.to}
              twoLine
            />
          )}
        </Loaded>
      </section>
      <section class="card" aria-labelledby="ending">
        <header>
          <h2 id="ending">{t('contracts.ending')}</h2>
        </header>
        <Loaded
          of={contracts}
          empty={{
            when: (data) => data.deprecations.length === 0,
            show: <EmptyState icon="clock">{t('contracts.noEnding')}</EmptyState>,
          }}
        >
          {(data) => (
            <DataTable
              label={t('contracts.ending')}
              columns={endingColumns()}
              rows={data.deprecations}
              rowKey={(each) => each.id}
              twoLine
            />
          )}
        </Loaded>
      </section>
      <LockCard />
    </>
  );
}

const breakingColumns = (): Column<Breaking>[] => [
  {
    id: 'tool',
    head: t('contracts.newest'),
    cell: (each) => (
      <a href={href(['tools', each.to, 'versions'], { from: each.from })}>
        <Marks text={each.to} />
      </a>
    ),
  },
  { id: 'from', head: t('contracts.before'), class: 'second', cell: (each) => <Marks text={each.from} /> },
  {
    id: 'changes',
    head: t('contracts.changes'),
    class: 'third',
    cell: (each) => (
      <ul class="plain-list tiny">
        {each.changes
          .filter((change) => change.kind === 'breaking')
          .slice(0, 3)
          .map((change) => (
            <li key={`${change.path} ${change.reason}`}>
              <code>
                <Marks text={change.path || '/'} />
              </code>{' '}
              <Marks text={change.reason} />
            </li>
          ))}
      </ul>
    ),
  },
  { id: 'callers', head: t('contracts.hurt'), class: 'optional', cell: (each) => <CallersOf callers={each.callers} /> },
];

const endingColumns = (): Column<Deprecation>[] => [
  {
    id: 'tool',
    head: t('contracts.tool'),
    cell: (each) => (
      <a href={href(['tools', each.id, 'versions'])}>
        <Marks text={each.id} />
      </a>
    ),
  },
  { id: 'sunset', head: t('contracts.lastDay'), class: 'last', cell: (each) => <LastDay sunset={each.sunset} /> },
  {
    id: 'successor',
    head: t('contracts.successor'),
    class: 'second',
    cell: (each) =>
      each.successor ? (
        <a href={href(['tools', each.successor])}>
          <Marks text={each.successor} />
        </a>
      ) : (
        <span class="faint">{t('shared.none')}</span>
      ),
  },
  {
    id: 'since',
    head: t('contracts.since'),
    class: 'optional',
    cell: (each) => <Time at={each.deprecatedAt} as="day" />,
  },
  {
    id: 'callers',
    head: t('contracts.stillCall'),
    class: 'optional',
    cell: (each) => <CallersOf callers={each.callers} />,
  },
];

function LastDay({ sunset }: { sunset: string | null }) {
  if (sunset === null) return <span class="faint">{t('contracts.notSet')}</span>;
  const over = sunset < new Date().toISOString().slice(0, 10);
  return (
    <Chip tone={over ? 'failed' : 'refused'}>
      {over ? rich('contracts.ended', { day: <Time at={sunset} as="day" /> }) : <Time at={sunset} as="day" />}
    </Chip>
  );
}

const MOST_CALLERS = 3;

function CallersOf({ callers }: { callers: Breaking['callers'] }) {
  if (callers.length === 0) return <span class="faint">{t('contracts.nobody')}</span>;
  return (
    <>
      {callers.slice(0, MOST_CALLERS).map((each) => (
        <div key={each.caller}>
          <a href={href(['callers', each.caller])}>
            <Marks text={each.caller} />
          </a>{' '}
          <span class="faint tiny">{t('contracts.calls', { count: each.calls })}</span>
        </div>
      ))}
      {callers.length > MOST_CALLERS && (
        <span class="faint tiny">{t('contracts.moreCallers', { count: callers.length - MOST_CALLERS })}</span>
      )}
    </>
  );
}

function LockCard() {
  const [text, setText] = useState('');
  const file = useRef<HTMLInputElement>(null);
  const lock = checkJson(text);
  const upload = async () => {
    const chosen = file.current?.files?.[0];
    if (chosen) setText(await chosen.text());
  };
  return (
    <Question
      id="lock"
      title={t('contracts.lock')}
      about={t('contracts.lockWhy')}
      verb={t('contracts.check')}
      ready={text.trim() !== '' && lock.value !== undefined}
      ask={() => hall.post<LockCheck>('api/contracts/lock', { lock: lock.value })}
      answer={(found) => <LockAnswer found={found} />}
      beside={
        <>
          <input
            ref={file}
            type="file"
            class="sr"
            id="lock-upload"
            accept=".lock,.json"
            onChange={() => void upload()}
          />
          <label class="button" for="lock-upload">
            <Icon name="upload" />
            {t('contracts.upload')}
          </label>
        </>
      }
    >
      <JsonInput label={t('contracts.lockFile')} text={text} onInput={setText} rows={6} />
    </Question>
  );
}

function LockAnswer({ found }: { found: LockCheck }) {
  if (found.ok) {
    return (
      <Note tone="ok" live>
        {t('contracts.lockHolds', { count: found.checked })}
      </Note>
    );
  }
  return (
    <Note tone="failed" live>
      <p>{t('contracts.lockDrifts', { count: found.drift.length, checked: number(found.checked) })}</p>
      <ul class="plain-list">
        {found.drift.map((each) => (
          <li key={`${each.tool} ${each.what}`}>
            <code>
              <Marks text={each.tool} />
            </code>{' '}
            <Marks text={each.what} />
          </li>
        ))}
      </ul>
    </Note>
  );
}
