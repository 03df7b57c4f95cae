/** The Overview of a hall that is used: state, what needs the person, figures, doors, bars, changes, most called. */

import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { mayLook } from '../../api/me';
import { useResource } from '../../api/resource';
import type { Health, Needs, Overview, Window } from '../../api/types';
import { needs } from '../../app/badges';
import { href, query, setQuery } from '../../app/router';
import { Processes } from '../../ui/basics';
import { Legend, Meter, Sparkline, StackedBars } from '../../ui/charts';
import { Icon } from '../../ui/icon';
import { Marks } from '../../ui/marks';
import { Doors } from '../../ui/stages';
import { EmptyState, Loaded, PageHead } from '../../ui/states';
import { Segments } from '../../ui/tabs';
import { clock, dateTime, duration, hour, number, percent } from '../../words/format';
import { hasMessage, t } from '../../words/messages';
import { Changes } from './changes';
import { NeedsYou } from './needs';
import '../../words/en/overview';

const WINDOWS: readonly Window[] = ['15m', '1h', '24h', '7d'];
/** Figures are read again when calls end, and at least so often. */
const EVERY_SECONDS = 15;

export function HallOverview() {
  const chosen = WINDOWS.find((each) => each === query('window')) ?? '1h';
  const look = mayLook();
  const health = useResource<Health>(look ? 'health' : null, { topics: ['health', 'servers', 'tools'] });
  const overview = useResource<Overview>(look ? 'api/overview' : null, {
    query: { window: chosen },
    topics: ['calls', 'tools'],
    every: EVERY_SECONDS,
  });
  const state = stateOf(health.data, needs.value);
  return (
    <>
      <PageHead
        title={t(look ? `overview.${state}` : 'overview.plain')}
        actions={
          look && (
            <Segments
              label={t('overview.window')}
              options={WINDOWS.map((each) => [each, t(`overview.windows.${each}`)] as const)}
              chosen={chosen}
              onChoose={(window) => setQuery({ window: window === '1h' ? null : window })}
            />
          )
        }
      >
        {look && overview.data && <Sentence overview={overview.data} needs={needs.value} />}
      </PageHead>
      {needs.value && <NeedsYou needs={needs.value} />}
      {!look && (
        <section class="card">
          <EmptyState
            icon="overview"
            action={
              <a class="button" href={href(['calls'])}>
                {t('overview.plainCalls')}
              </a>
            }
          >
            {t('overview.plainWhy')}
          </EmptyState>
        </section>
      )}
      {look && (
        <div class="stack">
          <section class="card" aria-label={t('overview.figures')}>
            <Loaded of={overview} rows={3}>
              {(data) => <Figures data={data} />}
            </Loaded>
          </section>
          {overview.data && <Charts data={overview.data} />}
        </div>
      )}
    </>
  );
}

function stateOf(health: Health | undefined, known: Needs | null): 'well' | 'degraded' | 'unhealthy' {
  if (known?.audit.failing || health?.status === 'unhealthy') return 'unhealthy';
  return health?.status === 'degraded' || known?.audit.problem ? 'degraded' : 'well';
}

function Sentence({ overview, needs: known }: { overview: Overview; needs: Needs | null }) {
  const servers = known?.servers.count ?? 0;
  const pieces = [
    t('overview.processes', { count: overview.processes.running }),
    ...(servers ? [t('overview.servers', { count: servers })] : []),
    t('overview.tools', { count: overview.tools }),
  ];
  const { verifiedAt = null, problem = null } = known?.audit ?? {};
  return (
    <>
      {`${pieces.join(', ')}. `}
      {verifiedAt && !problem && <span>{t('overview.verified', { time: clock(verifiedAt) })} </span>}
      <Processes of={overview.processes} />
    </>
  );
}

function Figures({ data }: { data: Overview }) {
  const totals = data.buckets.map((each) => each.ok + each.refused + each.failed + each.asked);
  const refused = sum(data.buckets.map((each) => each.refused));
  const failed = sum(data.buckets.map((each) => each.failed));
  const minutes = (Date.parse(data.to) - Date.parse(data.from)) / 60_000;
  const shares = data.buckets.map((each, at) => (totals[at] ? each.ok / (totals[at] ?? 1) : 1));
  const good = data.outcomes.ok ?? sum(data.buckets.map((each) => each.ok));
  const none = data.calls === 0;
  const [added, addedUnit] = data.addedUs === null ? [t('overview.noValue'), ''] : split(duration(data.addedUs));
  return (
    <dl class="figures">
      <Figure name={t('overview.calls')} value={number(data.calls)} values={totals}>
        {t('overview.perMinute', {
          count: number(data.calls / Math.max(1, minutes), data.calls > 10 * minutes ? 0 : 1),
        })}
      </Figure>
      <Figure
        name={t('overview.wentWell')}
        value={none ? t('overview.noValue') : percent(good / data.calls)}
        values={none ? [] : shares}
      >
        {none ? t('overview.noneYet') : t('overview.wentWellWhy', { refused, failed })}
      </Figure>
      <Figure name={t('overview.added')} value={added} unit={addedUnit} values={[]}>
        {data.addedUs === null || data.p50Us === null
          ? t('overview.addedNone')
          : t('overview.addedWhy', { total: duration(data.p50Us) })}
      </Figure>
      <Figure name={t('overview.running')} value={number(data.running)} values={[]}>
        <Processes of={{ ...data.processes, seen: 1 }} />{' '}
        {data.p99Us === null ? t('overview.noneYet') : t('overview.runningWhy', { time: duration(data.p99Us) })}
      </Figure>
    </dl>
  );
}

const sum = (values: number[]): number => values.reduce((total, each) => total + each, 0);

/** A figure and its unit, which is smaller. */
function split(text: string): [string, string] {
  const [, value, unit] = /^(\S+)\s+(.*)$/.exec(text.replace(/\u00a0/g, ' ')) ?? [];
  return value !== undefined && unit !== undefined ? [value, unit] : [text, ''];
}

interface FigureProps {
  name: string;
  value: string;
  unit?: string;
  values: number[];
  children: ComponentChildren;
}

function Figure({ name, value, unit, values, children }: FigureProps) {
  return (
    <div>
      <dt>{name}</dt>
      <dd class="value">
        {value} {unit && <small class="num">{unit}</small>}
      </dd>
      <dd class="detail">{children}</dd>
      <dd>
        <Sparkline values={values} />
      </dd>
    </div>
  );
}

function Charts({ data }: { data: Overview }) {
  const bucketTitle = `overview.callsBy.${data.bucketSeconds}`;
  const since = data.from;
  return (
    <>
      <section class="card">
        <header>
          <h2>{t('overview.howFar')}</h2>
          <span class="push" />
          <Legend
            parts={[
              ['ok', t('overview.passed')],
              ['refused', t('outcomes.refused')],
              ['asked', t('outcomes.asked')],
              ['failed', t('outcomes.failed')],
            ]}
          />
        </header>
        <Doors stopped={data.stopped} since={data.window} />
      </section>
      <div class="columns wider-first">
        <section class="card">
          <header>
            <h2>{hasMessage(bucketTitle) ? t(bucketTitle) : t('overview.calls')}</h2>
            <span class="push" />
            <Legend
              parts={[
                ['ok', t('outcomes.ok')],
                ['refused', t('outcomes.refused')],
                ['asked', t('outcomes.asked')],
                ['failed', t('outcomes.failed')],
              ]}
            />
          </header>
          <div class="in">
            {data.calls === 0 ? (
              <EmptyState icon="calls">{t('overview.quiet')}</EmptyState>
            ) : (
              <StackedBars
                label={t('charts.bars', { count: data.calls, from: dateTime(since), to: dateTime(data.to) })}
                bars={data.buckets.map((each) => ({
                  at: each.at,
                  parts: [
                    ['ok', each.ok],
                    ['refused', each.refused],
                    ['asked', each.asked],
                    ['failed', each.failed],
                  ],
                }))}
                time={data.window === '7d' ? dateTime : hour}
              />
            )}
          </div>
        </section>
        <Changes events={data.changes} />
      </div>
      <div class="columns">
        <TopTools rows={data.topTools} />
        <TopCallers rows={data.topCallers} />
      </div>
    </>
  );
}

function TopTools({ rows }: { rows: Overview['topTools'] }) {
  const worst = Math.max(1, ...rows.map((each) => each.calls));
  return (
    <section class="card">
      <header>
        <h2>{t('overview.topTools')}</h2>
        <a class="push small" href={href(['tools'])}>
          {t('overview.allTools')}
        </a>
      </header>
      <TopTable
        head={[t('overview.tool'), t('overview.failedColumn')]}
        rows={rows.map((each) => [each.tool, href(['tools', each.tool]), each.calls / worst, each.calls, each.failed])}
      />
    </section>
  );
}

function TopCallers({ rows }: { rows: Overview['topCallers'] }) {
  const worst = Math.max(1, ...rows.map((each) => each.calls));
  return (
    <section class="card">
      <header>
        <h2>{t('overview.topCallers')}</h2>
        <a class="push small" href={href(['callers'])}>
          {t('overview.allCallers')}
        </a>
      </header>
      <TopTable
        head={[t('overview.caller'), t('overview.refusedColumn')]}
        rows={rows.map((each) => [
          each.caller,
          href(['callers', each.caller]),
          each.calls / worst,
          each.calls,
          each.refused,
        ])}
      />
    </section>
  );
}

const SHOWN_AT_FIRST = 5;

interface TopProps {
  head: [string, string];
  /** Name, address, share of the first, calls, and how many of them did not go well. */
  rows: [string, string, number, number, number][];
}

function TopTable({ head, rows }: TopProps) {
  const [all, showAll] = useState(false);
  if (!rows.length) return <EmptyState icon="calls">{t('overview.noneYet')}</EmptyState>;
  return (
    <div class="in">
      <table class="rows">
        <thead>
          <tr>
            <th scope="col">{head[0]}</th>
            <th scope="col" class="end">
              {t('overview.calls')}
            </th>
            <th scope="col" class="end">
              {head[1]}
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, all ? undefined : SHOWN_AT_FIRST).map(([name, address, share, calls, bad]) => (
            <tr key={name}>
              <td>
                <a href={address}>
                  <Marks text={name} cut={80} />
                </a>
                <Meter share={share} />
              </td>
              <td class="end num">{number(calls)}</td>
              <td class="end num">{number(bad)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > SHOWN_AT_FIRST && (
        <button type="button" class="button bare low" aria-expanded={all} onClick={() => showAll(!all)}>
          <Icon name={all ? 'up' : 'down'} />
          {t(all ? 'shared.less' : 'shared.more')}
        </button>
      )}
    </div>
  );
}
