/** Who calls a tool, and what happened to it. */

import type { ComponentChild } from 'preact';
import { useResource } from '../../api/resource';
import type { ToolDetail, ToolEvent } from '../../api/types';
import { href } from '../../app/router';
import { Chip, Time } from '../../ui/basics';
import { Marks } from '../../ui/marks';
import { EmptyState, Loaded } from '../../ui/states';
import { type Column, DataTable } from '../../ui/table';
import { number } from '../../words/format';
import { hasMessage, rich, t } from '../../words/messages';
import { WhatWord } from '../overview/changes';
import { toolPath } from './tool';
import '../../words/en/tool-callers';
import '../../words/en/tools';

interface CallerOfTool {
  caller: string;
  calls: number;
  last: string;
  versions: string[];
  dialects: string[];
}
interface CallersOfTool {
  callers: CallerOfTool[];
  others: number;
}

const keyOf = (tool: ToolDetail) => `${tool.toolkit}.${tool.tool}`;
const words = (each: readonly string[]) =>
  each.map((word) => (
    <Chip key={word}>
      <Marks text={word} cut={40} />
    </Chip>
  ));

/** Callers of all versions, by calls. */
export function CallersTab({ tool }: { tool: ToolDetail }) {
  const resource = useResource<CallersOfTool>(toolPath(keyOf(tool), '/callers'));
  const columns: Column<CallerOfTool>[] = [
    {
      id: 'caller',
      head: t('toolCallers.caller'),
      cell: (row) => (
        <a href={href(['callers', row.caller])}>
          <Marks text={row.caller} cut={120} />
        </a>
      ),
    },
    { id: 'calls', head: t('toolCallers.calls'), class: 'end num', cell: (row) => number(row.calls) },
    { id: 'last', head: t('toolCallers.last'), class: 'last', cell: (row) => <Time at={row.last} /> },
    {
      id: 'versions',
      head: t('toolCallers.versions'),
      class: 'second',
      cell: (row) => <span class="row">{words(row.versions)}</span>,
    },
    {
      id: 'dialects',
      head: t('toolCallers.dialects'),
      class: 'optional',
      cell: (row) => <span class="row">{words(row.dialects)}</span>,
    },
    {
      id: 'see',
      head: <span class="sr">{t('toolCallers.seeCalls')}</span>,
      class: 'end optional',
      cell: (row) => (
        <a
          href={href(['calls'], { tool: `${keyOf(tool)}*`, caller: row.caller })}
          aria-label={`${t('toolCallers.seeCalls')}: ${row.caller}`}
        >
          {t('toolCallers.seeCalls')}
        </a>
      ),
    },
  ];
  return (
    <section class="card" aria-label={t('tools.tabs.callers')}>
      <Loaded
        of={resource}
        empty={{
          when: ({ callers }) => callers.length === 0,
          show: <EmptyState icon="calls">{t('toolCallers.none')}</EmptyState>,
        }}
      >
        {({ callers, others }) => (
          <>
            <DataTable
              label={t('tools.tabs.callers')}
              columns={columns}
              rows={[...callers].sort((one, other) => other.calls - one.calls)}
              rowKey={(row) => row.caller}
              twoLine
            />
            {others > 0 && <p class="in small soft">{t('toolCallers.others', { count: others })}</p>}
          </>
        )}
      </Loaded>
    </section>
  );
}

/** What an event says of itself, such as the last day; each after its name, if that has a word here. */
function detailWords(detail: ToolEvent['detail']): ComponentChild[] {
  const stated = Object.entries(detail).filter(([, value]) => value !== null);
  return stated.map(([name, value], place) => {
    const text = (
      <Marks text={typeof value === 'string' ? value : JSON.stringify(value)} cut={name === 'document' ? 20 : 300} />
    );
    const key = `toolHistory.details.${name}`;
    return (
      <span key={name}>
        {place > 0 && ', '}
        {hasMessage(key)
          ? rich(key, { value: text })
          : rich('toolHistory.detail', { name: <Marks text={name} cut={80} />, value: text })}
      </span>
    );
  });
}

/** Registered, activated, deprecated: by whom and when; also of versions that are gone. */
export function HistoryTab({ tool }: { tool: ToolDetail }) {
  const resource = useResource<{ events: ToolEvent[] }>(toolPath(keyOf(tool), '/history'), {
    query: { limit: 500 },
    topics: ['tools'],
  });
  const columns: Column<ToolEvent & { key: string }>[] = [
    {
      id: 'when',
      head: t('toolHistory.when'),
      class: 'nowrap last',
      cell: (row) => <Time at={row.at} as="dateTime" />,
    },
    {
      id: 'what',
      head: t('toolHistory.what'),
      cell: (row) => (
        <>
          <strong>
            <WhatWord what={row.what} />
          </strong>{' '}
          <span class="soft anywhere">{detailWords(row.detail)}</span>
        </>
      ),
    },
    {
      id: 'version',
      head: t('toolHistory.version'),
      class: 'mono small optional',
      cell: (row) => <Marks text={row.id.split('@')[1] ?? row.id} cut={40} />,
    },
    { id: 'who', head: t('toolHistory.who'), class: 'second', cell: (row) => <Marks text={row.by} cut={80} /> },
  ];
  return (
    <section class="card" aria-label={t('tools.tabs.history')}>
      <Loaded
        of={resource}
        empty={{
          when: ({ events }) => events.length === 0,
          show: <EmptyState icon="history">{t('toolHistory.none')}</EmptyState>,
        }}
      >
        {({ events }) => (
          <DataTable
            label={t('tools.tabs.history')}
            columns={columns}
            rows={events.map((event, index) => ({ ...event, key: String(index) }))}
            rowKey={(row) => row.key}
            twoLine
          />
        )}
      </Loaded>
    </section>
  );
}
