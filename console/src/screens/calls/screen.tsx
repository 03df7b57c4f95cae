/** Calls: every call, live, with a filter that is the address, and one call with its stages beside the list. */

import { useEffect, useState } from 'preact/hooks';
import { hall } from '../../api/client';
import { mayLook } from '../../api/me';
import { useResource } from '../../api/resource';
import type { AuditRecord, CallerRow, Overview, ToolPage, Window } from '../../api/types';
import { STAGES } from '../../api/types';
import { useKeys } from '../../app/keys';
import { href, navigate, query, route, setQuery } from '../../app/router';
import type { ScreenProps } from '../../app/sections';
import { Chip, LevelMeter, Outcome, Processes, Time } from '../../ui/basics';
import { StackedBars } from '../../ui/charts';
import { type FilterField, FilterLine } from '../../ui/filter-line';
import { Icon } from '../../ui/icon';
import { Marks } from '../../ui/marks';
import { EmptyState, Loaded, PageHead } from '../../ui/states';
import { type Column, DataTable } from '../../ui/table';
import { duration, hour } from '../../words/format';
import { t } from '../../words/messages';
import { AuditFoot } from './audit-foot';
import { CallCard, ToolName } from './call-card';
import { type LiveCalls, useLiveCalls } from './live-calls';
import { keyOf } from './record-list';
import '../../words/en/calls';

const FILTERS = [
  'tool',
  'caller',
  'outcome',
  'stage',
  'level',
  'dialect',
  'server',
  'grant',
  'verdict',
  'since',
  'until',
];

export function CallsScreen({ path }: ScreenProps) {
  const chosen = path[0];
  const [paused, setPaused] = useState(false);
  const scrolled = useScrolled();
  const filters = Object.fromEntries(FILTERS.map((name) => [name, route.value.query.get(name)]));
  const calls = useLiveCalls(filters, paused || scrolled || chosen !== undefined);
  const pause = () => setPaused(!paused);
  const look = mayLook();
  useKeys({
    pause: () => (look ? pause() : false),
    close: () => (chosen === undefined ? false : navigate(address(undefined), true)),
  });
  return (
    <>
      <PageHead
        title={t('titles.calls')}
        actions={
          <>
            {look ? (
              <button type="button" class="button" aria-pressed={paused} onClick={pause}>
                <Icon name={paused ? 'play' : 'pause'} />
                {paused ? t('calls.goOn') : t('calls.pause')}
                <kbd>P</kbd>
              </button>
            ) : (
              <button type="button" class="button" onClick={() => void calls.reload()}>
                <Icon name="refresh" />
                {t('calls.readAgain')}
              </button>
            )}
            <button type="button" class="button" disabled={!calls.rows.length} onClick={() => download(calls.rows)}>
              <Icon name="download" />
              {t('calls.export')}
            </button>
          </>
        }
      >
        {t(look ? 'calls.about' : 'calls.aboutOwn')}
      </PageHead>
      {look && <CallsChart />}
      <div class={chosen === undefined ? 'split-none' : 'split detail'}>
        <CallList calls={calls} chosen={chosen} paused={paused} />
        {chosen !== undefined && (
          <aside class="card" aria-labelledby="call">
            <CallCard key={chosen} id={chosen} />
          </aside>
        )}
      </div>
    </>
  );
}

const address = (call: string | undefined): string =>
  href(call === undefined ? ['calls'] : ['calls', call], Object.fromEntries(route.peek().query));

function CallList({ calls, chosen, paused }: { calls: LiveCalls; chosen: string | undefined; paused: boolean }) {
  const of = {
    data: calls.state === 'loading' ? undefined : calls.state === 'ready' || calls.rows.length ? calls : undefined,
    state: calls.state,
    error: calls.error,
    reload: calls.reload,
  };
  return (
    <section class="card" aria-label={t('titles.calls')}>
      <header>
        <FilterLine fields={fields()} plain="tool" placeholder={t('calls.placeholder')} />
        <span class="push">
          {calls.waiting > 0 ? (
            <button type="button" class="button low" onClick={() => toNewest(calls)}>
              <Icon name="up" />
              {t('shared.newer', { count: calls.waiting })}
            </button>
          ) : (
            mayLook() && <Chip tone={paused ? 'plain' : 'ok'}>{paused ? t('calls.paused') : t('calls.live')}</Chip>
          )}
        </span>
      </header>
      <Loaded
        of={of}
        rows={12}
        empty={{
          when: ({ rows }) => rows.length === 0,
          show: (
            <EmptyState
              icon="calls"
              action={
                isFiltered() && (
                  <a class="button" href={href(['calls'])}>
                    {t('filters.clear')}
                  </a>
                )
              }
            >
              {isFiltered() ? t('calls.noneMatch') : t('calls.none')}
            </EmptyState>
          ),
        }}
      >
        {({ rows }) => (
          <DataTable
            label={t('titles.calls')}
            class="calls"
            columns={columns()}
            rows={rows}
            rowKey={keyOf}
            chosen={chosenKey(rows, chosen)}
            onChoose={(record) => navigate(address(record.call), chosen !== undefined)}
            onEnd={calls.hasMore ? calls.more : () => undefined}
            twoLine
          />
        )}
      </Loaded>
      {mayLook() && <AuditFoot />}
    </section>
  );
}

function chosenKey(rows: readonly AuditRecord[], call: string | undefined): string | undefined {
  const row = rows.find((each) => each.call === call);
  return row && keyOf(row);
}

function toNewest(calls: LiveCalls): void {
  calls.show();
  scrollTo(0, 0);
}

const isFiltered = (): boolean => FILTERS.some((name) => route.value.query.get(name));

const columns = (): Column<AuditRecord>[] => [
  {
    id: 'time',
    head: t('calls.time'),
    class: 'second last mono tiny nowrap',
    cell: (record) => <Time at={record.at} />,
  },
  {
    id: 'ended',
    head: t('calls.ended'),
    class: 'last',
    cell: (record) => <Outcome outcome={record.phase ?? record.outcome} />,
  },
  {
    id: 'tool',
    head: t('calls.tool'),
    cell: (record) => (
      <a href={address(record.call)} class="cut">
        <ToolName of={record} />
      </a>
    ),
  },
  {
    id: 'caller',
    head: t('calls.caller'),
    class: 'second nowrap',
    cell: (record) => (
      <>
        <Marks text={record.caller} cut={48} />{' '}
        <span class="faint optional">
          <DialectWord dialect={record.dialect} />
        </span>
      </>
    ),
  },
  {
    id: 'level',
    head: t('calls.level'),
    class: 'optional',
    cell: (record) =>
      record.level === undefined ? <span class="faint">–</span> : <LevelMeter level={record.level} short />,
  },
  {
    id: 'took',
    head: t('calls.took'),
    class: 'optional end num nowrap',
    cell: (record) => (record.durationUs === undefined ? '–' : duration(record.durationUs)),
  },
];

function DialectWord({ dialect }: { dialect: string }) {
  const [name = '', rest] = dialect.split('/');
  if (rest === 'management') return <>{t('calls.management')}</>;
  if (rest === 'console') return <>{t('calls.console')}</>;
  return <Marks text={name === 'openapi' ? 'REST' : (name.split('@')[0] ?? name)} />;
}

// A list that is read does not move: it follows only as long as its head is seen.
function useScrolled(): boolean {
  const [scrolled, setScrolled] = useState(false);
  useEffect(() => {
    const follow = () => setScrolled(scrollY > 240);
    addEventListener('scroll', follow, { passive: true });
    return () => removeEventListener('scroll', follow);
  }, []);
  return scrolled;
}

const OUTCOMES = [
  'ok',
  'refused',
  'failed',
  'asked',
  'tool_error',
  'Denied',
  'BadArguments',
  'NotFound',
  'Limited',
  'NeedsVerification',
  'NeedsRequirement',
  'TimedOut',
  'Cancelled',
  'Crashed',
  'ToolFailed',
  'BadOutput',
  'Unavailable',
];
const DIALECTS = ['mcp*', 'oxp', 'hub', 'machine', 'openapi', '*/console', '*/management'];

function fields(): FilterField[] {
  const starting = (values: readonly string[]) => (text: string) =>
    values.filter((each) => each.toLowerCase().startsWith(text.toLowerCase()));
  return [
    { name: 'tool', values: toolNames },
    { name: 'caller', values: callerNames },
    { name: 'outcome', values: starting(OUTCOMES) },
    { name: 'stage', values: starting(STAGES) },
    { name: 'level', values: starting(['1', '4', '7', '8', '9', '10']) },
    { name: 'dialect', values: starting(DIALECTS) },
    { name: 'server' },
    { name: 'grant' },
    { name: 'verdict', values: starting(['allow', 'deny', 'verify']) },
    { name: 'since', values: starting(['15m', '1h', '24h', '7d']) },
    { name: 'until', values: starting(['15m', '1h']) },
  ];
}

async function toolNames(text: string): Promise<string[]> {
  if (!mayLook()) return [];
  const page = await hall
    .get<ToolPage>('api/tools', { query: { query: text.replace(/[.*]+$/, ''), limit: 8 } })
    .catch(() => null);
  const tools = page?.tools ?? [];
  return [
    ...new Set([...tools.map((each) => `${each.toolkit}.*`), ...tools.map((each) => `${each.toolkit}.${each.tool}`)]),
  ];
}

async function callerNames(text: string): Promise<string[]> {
  if (!mayLook()) return [];
  const answer = await hall.get<{ callers: CallerRow[] }>('api/callers').catch(() => ({ callers: [] as CallerRow[] }));
  return answer.callers.map((each) => each.name).filter((each) => each.startsWith(text));
}

const WINDOWS = ['15m', '1h', '24h', '7d'];

/** All calls of a window by outcome; a range of it can be picked. */
function CallsChart() {
  const since = query('since');
  const window = (WINDOWS.includes(since) ? since : '1h') as Window;
  const overview = useResource<Overview>('api/overview', { query: { window }, every: 10 });
  const buckets = overview.data?.buckets ?? [];
  const seconds = overview.data?.bucketSeconds ?? 60;
  const pick = (from: number, to: number) => {
    const start = buckets[from]?.at;
    const last = buckets[to - 1]?.at;
    if (start === undefined || last === undefined) return;
    const end = new Date(Date.parse(last) + seconds * 1000).toISOString();
    setQuery({ since: `${start.slice(0, 19)}Z`, until: `${end.slice(0, 19)}Z` }, false);
  };
  return (
    <section class="card" aria-labelledby="chart">
      <header>
        <h2 id="chart">{t(`calls.chart.${window}`)}</h2>
        {overview.data && <Processes of={overview.data.processes} />}
        {!WINDOWS.includes(since) && since && (
          <button type="button" class="button low push" onClick={() => setQuery({ since: '1h', until: null }, false)}>
            {t('calls.unpick')}
          </button>
        )}
      </header>
      <div class="in">
        <Loaded of={overview} rows={2}>
          {() => (
            <StackedBars
              label={t(`calls.chart.${window}`)}
              bars={buckets.map((each) => ({
                at: each.at,
                parts: [
                  ['ok', each.ok],
                  ['asked', each.asked],
                  ['refused', each.refused],
                  ['failed', each.failed],
                ],
              }))}
              time={(at) => hour(at)}
              low
              onPick={pick}
              picked={pickedRange(buckets, seconds, since, query('until'))}
            />
          )}
        </Loaded>
      </div>
    </section>
  );
}

function pickedRange(
  buckets: Overview['buckets'],
  seconds: number,
  since: string,
  until: string,
): [number, number] | null {
  const [start, end] = [Date.parse(since), Date.parse(until)];
  if (Number.isNaN(start) || Number.isNaN(end)) return null;
  const inside = buckets
    .map((each, index) => [Date.parse(each.at), index] as const)
    .filter(([at]) => at + seconds * 1000 > start && at < end)
    .map(([, index]) => index);
  return inside.length ? [inside[0] as number, (inside.at(-1) as number) + 1] : null;
}

function download(rows: readonly AuditRecord[]): void {
  const lines = rows.map((each) => `${JSON.stringify(each)}\n`);
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob(lines, { type: 'application/jsonl' }));
  link.download = `calls-${new Date().toISOString().slice(0, 19).replaceAll(':', '')}.jsonl`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
