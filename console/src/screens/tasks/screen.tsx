/** Tasks: calls that outlive their connection, what they wait for, how they ended; a running one can be cancelled. */

import type { ComponentChild } from 'preact';
import { useState } from 'preact/hooks';
import { hall, segments } from '../../api/client';
import { mayManage } from '../../api/me';
import { useResource } from '../../api/resource';
import type { Task, TaskDetails, TaskPage } from '../../api/types';
import { href, navigate, query } from '../../app/router';
import type { ScreenProps } from '../../app/sections';
import { Chip, Facts, Time, type Tone } from '../../ui/basics';
import { Ask } from '../../ui/dialog';
import { FilterLine } from '../../ui/filter-line';
import { Icon, type IconName } from '../../ui/icon';
import { Marks } from '../../ui/marks';
import { EmptyState, Loaded, PageHead } from '../../ui/states';
import { type Column, DataTable } from '../../ui/table';
import { number } from '../../words/format';
import { t } from '../../words/messages';
import '../../words/en/tasks';

const STATES = ['open', 'working', 'input_required', 'completed', 'failed', 'cancelled'];
const FILTERS = ['state', 'tool', 'caller'] as const;
const MOST = 200;
/** Tasks change without an event: they are read again so often, in seconds, while somebody looks. */
const SECONDS = 3;

export function TasksScreen({ path }: ScreenProps) {
  const filters = Object.fromEntries(FILTERS.map((name) => [name, query(name)]));
  const [chosen] = path;
  const isFiltered = Object.values(filters).some(Boolean);
  const page = useResource<TaskPage>('api/tasks', { query: { ...filters, limit: MOST }, every: SECONDS });
  return (
    <>
      <PageHead title={t('titles.tasks')}>{t('tasks.about')}</PageHead>
      <div class={chosen === undefined ? 'split-none' : 'split detail'}>
        <section class="card" aria-label={t('titles.tasks')}>
          <header>
            <FilterLine
              fields={FILTERS.map((name) => ({ name, ...(name === 'state' ? { values: () => STATES } : {}) }))}
              placeholder={t('tasks.placeholder')}
            />
          </header>
          <Loaded
            of={page}
            rows={8}
            empty={{
              when: ({ tasks }) => tasks.length === 0,
              show: <EmptyState icon="history">{t(isFiltered ? 'tasks.noneMatch' : 'tasks.none')}</EmptyState>,
            }}
          >
            {({ tasks, nextCursor }) => (
              <>
                <DataTable
                  label={t('titles.tasks')}
                  columns={columns(filters)}
                  rows={tasks}
                  rowKey={(task) => task.id}
                  chosen={chosen}
                  onChoose={(task) => navigate(href(['tasks', task.id], filters), true)}
                  twoLine
                />
                {nextCursor && <p class="in hint">{t('tasks.newest', { count: MOST })}</p>}
              </>
            )}
          </Loaded>
        </section>
        {chosen !== undefined && (
          <aside class="card" aria-labelledby="task">
            <TaskCard key={chosen} id={chosen} back={href(['tasks'], filters)} />
          </aside>
        )}
      </div>
    </>
  );
}

const TONES: Record<Task['state'], Tone> = {
  working: 'busy',
  input_required: 'person',
  completed: 'ok',
  failed: 'failed',
  cancelled: 'plain',
};
const ICONS: Record<Task['state'], IconName> = {
  working: 'clock',
  input_required: 'approval',
  completed: 'check',
  failed: 'warning',
  cancelled: 'stop',
};

function TaskState({ state }: { state: Task['state'] }) {
  return (
    <Chip tone={TONES[state]} icon={ICONS[state]}>
      {t(`tasks.states.${state}`)}
    </Chip>
  );
}

const columns = (filters: Record<string, string>): Column<Task>[] => [
  {
    id: 'tool',
    head: t('tasks.tool'),
    cell: (task) => (
      <a href={href(['tasks', task.id], filters)}>
        <Marks text={task.tool} cut={120} />
      </a>
    ),
  },
  { id: 'state', head: t('tasks.state'), class: 'last', cell: (task) => <TaskState state={task.state} /> },
  { id: 'caller', head: t('tasks.caller'), class: 'second', cell: (task) => <Marks text={task.caller} cut={96} /> },
  { id: 'created', head: t('tasks.created'), class: 'third nowrap', cell: (task) => <Time at={task.createdAt} /> },
  {
    id: 'expires',
    head: t('tasks.expires'),
    class: 'optional nowrap',
    cell: (task) => <Time at={task.expiresAt} as="dateTime" />,
  },
];

function TaskCard({ id, back }: { id: string; back: string }) {
  const path = segments('api/tasks', id);
  const task = useResource<TaskDetails>(path, { every: SECONDS });
  const [cancelling, setCancelling] = useState(false);
  if (task.error?.status === 404) return <EmptyState icon="history">{t('tasks.unknown', { id })}</EmptyState>;
  return (
    <Loaded of={task} rows={8}>
      {(data) => (
        <>
          <header>
            <h2 id="task">
              <Marks text={data.tool} cut={120} />
            </h2>
            <a class="button bare low push" href={back} aria-label={t('tasks.close')}>
              <Icon name="cross" />
            </a>
          </header>
          <div class="in stack">
            <p>
              <TaskState state={data.state} />
            </p>
            <Questions task={data} />
            <Facts facts={factsOf(data)} />
            <div class="row">
              <a class="button low" href={href(['tools', data.tool])}>
                {t('tasks.openTool')}
              </a>
              <a class="button low" href={href(['calls'], { tool: data.tool, caller: data.caller })}>
                {t('tasks.calls')}
              </a>
              {mayManage() && (data.state === 'working' || data.state === 'input_required') && (
                <button type="button" class="button low danger" onClick={() => setCancelling(true)}>
                  {t('tasks.cancel')}
                </button>
              )}
            </div>
          </div>
          {cancelling && (
            <Ask
              title={<Marks text={t('tasks.cancelTitle', { caller: data.caller.slice(0, 96) })} />}
              verb={t('tasks.cancel')}
              danger
              act={async () => {
                await hall.post(`${path}/cancel`);
                await task.reload();
              }}
              onClose={() => setCancelling(false)}
            >
              <p>{t('tasks.cancelWhy')}</p>
            </Ask>
          )}
        </>
      )}
    </Loaded>
  );
}

function Questions({ task: { state, questions } }: { task: Task }) {
  if (state !== 'input_required') return null;
  return (
    <section class="stack tight" aria-labelledby="questions">
      <h3 id="questions">{t('tasks.questions')}</h3>
      {questions === null ? (
        <p class="soft">{t('tasks.sealed')}</p>
      ) : (
        <ul class="plain-list">
          {questions.map((each, index) => (
            <li key={index}>
              <Marks text={each} cut={1_000} />
            </li>
          ))}
        </ul>
      )}
      <p class="hint">{t('tasks.answered')}</p>
    </section>
  );
}

function factsOf(task: TaskDetails): [string, ComponentChild][] {
  return [
    [t('tasks.task'), <code key="id">{task.id}</code>],
    [t('tasks.caller'), <Marks key="caller" text={task.caller} cut={200} />],
    [t('tasks.actingFor'), task.actingFor && <Marks key="for" text={task.actingFor} cut={200} />],
    [t('tasks.error'), task.error && <code key="error">{task.error}</code>],
    [t('tasks.created'), <Time key="created" at={task.createdAt} as="dateTime" />],
    [t('tasks.changed'), <Time key="changed" at={task.updatedAt} as="dateTime" />],
    [t('tasks.expires'), <Time key="expires" at={task.expiresAt} as="dateTime" />],
    [t('tasks.attempts'), number(task.attempts)],
    [t('tasks.dialect'), <Marks key="dialect" text={task.dialect} cut={60} />],
  ];
}
