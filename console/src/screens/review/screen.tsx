/** Review: definitions that came from outside and are not served before somebody has read them. */

import { useEffect, useState } from 'preact/hooks';
import { HallError, hall, segments } from '../../api/client';
import { useResource } from '../../api/resource';
import type { Finding, ToolDetail, ToolDiff, ToolPage, ToolSummary } from '../../api/types';
import { href, navigate } from '../../app/router';
import type { ScreenProps } from '../../app/sections';
import { Chip, Effect, Facts, LevelMeter, Time } from '../../ui/basics';
import { Ask, useAction } from '../../ui/dialog';
import { Icon } from '../../ui/icon';
import { JsonView } from '../../ui/json';
import { Marks, MarksInWords } from '../../ui/marks';
import { EmptyState, ErrorState, Loaded, PageHead } from '../../ui/states';
import { type Column, DataTable } from '../../ui/table';
import { t } from '../../words/messages';
import '../../words/en/review';

export function ReviewScreen({ path }: ScreenProps) {
  const waiting = useResource<ToolPage>('api/tools', { query: { state: 'quarantined' }, topics: ['tools'] });
  const chosen = path[0];
  const first = waiting.data?.tools[0]?.id;
  useEffect(() => {
    if (chosen === undefined && first !== undefined) navigate(href(['review', first]), true);
  }, [chosen, first]);
  const next = async () => {
    await waiting.reload();
    navigate(href(['review']), true);
  };
  return (
    <>
      <PageHead title={t('titles.review')}>{t('review.about')}</PageHead>
      <div class="split inbox">
        <section class="card" aria-label={t('review.waiting')}>
          <Loaded
            of={waiting}
            scope="admin"
            empty={{
              when: (data) => data.tools.length === 0,
              show: <EmptyState icon="review">{t('review.empty')}</EmptyState>,
            }}
          >
            {(data) => (
              <DataTable
                label={t('review.waiting')}
                columns={columns()}
                rows={data.tools}
                rowKey={(tool) => tool.id}
                chosen={chosen}
                onChoose={(tool) => navigate(href(['review', tool.id]), true)}
                twoLine
              />
            )}
          </Loaded>
        </section>
        {chosen === undefined ? (
          <aside class="card" aria-label={t('review.definition')}>
            <EmptyState icon="review">{t('review.choose')}</EmptyState>
          </aside>
        ) : (
          <Definition key={chosen} id={chosen} onDone={next} />
        )}
      </div>
    </>
  );
}

const columns = (): Column<ToolSummary>[] => [
  {
    id: 'tool',
    head: t('review.tool'),
    cell: (tool) => (
      <a href={href(['review', tool.id])}>
        <Marks text={tool.id} />
      </a>
    ),
  },
  { id: 'origin', head: t('review.origin'), class: 'second', cell: (tool) => <Origin tool={tool} /> },
  { id: 'came', head: t('review.came'), class: 'last', cell: (tool) => <Time at={tool.registeredAt} /> },
];

function Origin({ tool }: { tool: ToolSummary }) {
  return <Marks text={[tool.origin, tool.originDetail].filter(Boolean).join(': ')} cut={80} />;
}

function Definition({ id, onDone }: { id: string; onDone: () => Promise<void> }) {
  const tool = useResource<ToolDetail>(segments('api/tools', id));
  return (
    <aside class="card question" aria-labelledby="definition">
      <Loaded of={tool} rows={8}>
        {(data) => (
          <>
            <header>
              <h2 id="definition">
                <Marks text={data.id} />
              </h2>
            </header>
            <div class="in stack">
              <p class="row">
                <Effect effect={data.effect} />
                <LevelMeter level={data.effectiveLevel} />
              </p>
              <Facts facts={factsOf(data)} />
              <section class="stack tight" aria-labelledby="document">
                <h3 id="document">{t('review.document')}</h3>
                <JsonView value={data.document} label={t('review.document')} depth={99} />
                <MarksInWords texts={[JSON.stringify(data.document)]} />
              </section>
              <Findings findings={data.findings} />
              <Changes id={data.id} />
              <Decide tool={data} onDone={onDone} reload={tool.reload} />
            </div>
          </>
        )}
      </Loaded>
    </aside>
  );
}

const factsOf = (tool: ToolDetail) =>
  [
    [t('review.origin'), <Origin key="origin" tool={tool} />],
    [t('review.by'), <Marks key="by" text={tool.by} />],
    [t('review.came'), <Time key="came" at={tool.registeredAt} />],
    [
      t('review.published'),
      <code key="name">
        <Marks text={tool.name} />
      </code>,
    ],
    [
      t('review.digest'),
      <code key="digest" class="tiny anywhere">
        {tool.digests.document}
      </code>,
    ],
  ] as const;

const SEVERITIES: Record<string, 'failed' | 'refused' | 'plain'> = { error: 'failed', warning: 'refused' };

function Findings({ findings }: { findings: Finding[] }) {
  return (
    <section class="stack tight" aria-labelledby="findings">
      <h3 id="findings">{t('review.findings')}</h3>
      {findings.length === 0 && <p class="soft">{t('review.noFindings')}</p>}
      <FindingList findings={findings} />
    </section>
  );
}

export function FindingList({ findings }: { findings: Finding[] }) {
  return (
    <ul class="plain-list">
      {findings.map((each) => (
        <li key={`${each.rule} ${each.path}`}>
          <Chip tone={SEVERITIES[each.severity] ?? 'plain'}>
            <Marks text={each.rule} />
          </Chip>{' '}
          <code>
            <Marks text={each.path || '/'} />
          </code>{' '}
          <Marks text={each.fix} />
        </li>
      ))}
    </ul>
  );
}

const KINDS = { breaking: 'failed', feature: 'busy', fix: 'plain' } as const;

/** What differs from the version that is served now. */
function Changes({ id }: { id: string }) {
  const diff = useResource<ToolDiff>(`${segments('api/tools', id)}/diff`);
  return (
    <section class="stack tight" aria-labelledby="changes">
      <h3 id="changes">{t('review.changes')}</h3>
      <Loaded of={diff} rows={2}>
        {(data) =>
          data.from === null ? (
            <p class="soft">{t('review.firstVersion')}</p>
          ) : (
            <>
              {data.changes.length === 0 && <p class="soft">{t('review.noChanges', { from: data.from })}</p>}
              <ChangeList changes={data.changes} />
            </>
          )
        }
      </Loaded>
    </section>
  );
}

export function ChangeList({ changes }: { changes: ToolDiff['changes'] }) {
  return (
    <ul class="plain-list">
      {changes.map((each) => (
        <li key={`${each.kind} ${each.path} ${each.reason}`}>
          <Chip tone={KINDS[each.kind]}>{t(`review.kinds.${each.kind}`)}</Chip>{' '}
          <code>
            <Marks text={each.path || '/'} />
          </code>{' '}
          <Marks text={each.reason} />
        </li>
      ))}
    </ul>
  );
}

interface DecideProps {
  tool: ToolDetail;
  onDone: () => Promise<void>;
  reload: () => Promise<void>;
}

/** The digest that was on the screen goes with the decision: what changed meanwhile is not served. */
function Decide({ tool, onDone, reload }: DecideProps) {
  const [refusing, setRefusing] = useState(false);
  const path = segments('api/tools', tool.id);
  const serve = useAction(async () => {
    try {
      await hall.post(`${path}/activate`, { seen: tool.digests.document });
    } catch (error) {
      if (error instanceof HallError && error.status === 409) await reload();
      throw error;
    }
    await onDone();
  });
  return (
    <section class="stack tight" aria-labelledby="decide">
      <h3 id="decide">{t('review.decide')}</h3>
      {serve.error && <ErrorState error={serve.error} small />}
      <div class="row">
        <button type="button" class="button main tall" disabled={serve.busy} onClick={serve.run}>
          <Icon name="check" />
          {t('review.serve')}
        </button>
        <button type="button" class="button danger tall" onClick={() => setRefusing(true)}>
          <Icon name="cross" />
          {t('review.refuse')}
        </button>
      </div>
      {refusing && (
        <Ask
          title={t('review.refuseTitle', { tool: tool.id })}
          verb={t('review.refuse')}
          danger
          act={async () => {
            await hall.delete(path);
            await onDone();
          }}
          onClose={() => setRefusing(false)}
        >
          <p>{t('review.refuseWhy')}</p>
        </Ask>
      )}
    </section>
  );
}
