/** Limits: what callers and tools may use, how full it is, whom it held back, and what another limit would have done. */

import { useState } from 'preact/hooks';
import { hall } from '../../api/client';
import { useResource } from '../../api/resource';
import type { LimitPreview, Limits } from '../../api/types';
import { href } from '../../app/router';
import type { ScreenProps } from '../../app/sections';
import { Facts, Note, Processes, Time } from '../../ui/basics';
import { useAction } from '../../ui/dialog';
import { Icon } from '../../ui/icon';
import { Marks } from '../../ui/marks';
import { EmptyState, ErrorState, Loaded, PageHead } from '../../ui/states';
import { type Column, DataTable } from '../../ui/table';
import { number, percent } from '../../words/format';
import { t } from '../../words/messages';
import '../../words/en/limits';

type Fill = Limits['fullest'][number];
type Refused = Limits['refused'][number];
type Rate = Limits['perTool'];

export function LimitsScreen(_: ScreenProps) {
  const limits = useResource<Limits>('api/limits', { every: 5 });
  return (
    <>
      <PageHead title={t('titles.limits')} actions={limits.data && <Processes of={limits.data.processes} />}>
        {t('limits.about')}
      </PageHead>
      <div class="columns">
        <section class="card" aria-labelledby="effective">
          <header>
            <h2 id="effective">{t('limits.effective')}</h2>
          </header>
          <div class="in">
            <Loaded of={limits}>{(data) => <Facts facts={factsOf(data)} />}</Loaded>
          </div>
        </section>
        <PreviewCard />
      </div>
      <section class="card" aria-labelledby="fullest">
        <header>
          <h2 id="fullest">{t('limits.fullest')}</h2>
        </header>
        <Loaded
          of={limits}
          empty={{
            when: (data) => data.fullest.length === 0,
            show: <EmptyState icon="limit">{t('limits.noneFull')}</EmptyState>,
          }}
        >
          {(data) => (
            <DataTable
              label={t('limits.fullest')}
              columns={fillColumns()}
              rows={data.fullest}
              rowKey={(each) => `${each.kind} ${each.key}`}
            />
          )}
        </Loaded>
      </section>
      <section class="card" aria-labelledby="refused">
        <header>
          <h2 id="refused">{t('limits.refused')}</h2>
        </header>
        <Loaded
          of={limits}
          empty={{
            when: (data) => data.refused.length === 0,
            show: <EmptyState icon="check">{t('limits.noneRefused')}</EmptyState>,
          }}
        >
          {(data) => (
            <DataTable
              label={t('limits.refused')}
              columns={refusedColumns()}
              rows={data.refused}
              rowKey={(each) => each.caller}
            />
          )}
        </Loaded>
      </section>
    </>
  );
}

const rateWords = (rate: Rate): string =>
  rate === null ? t('limits.unlimited') : t('limits.rate', { rate: number(rate.rate, 2), burst: number(rate.burst) });

function factsOf({ perCaller, perTool, perPair, concurrency, costs }: Limits) {
  const costWords = Object.entries(costs).map(([tools, cost]) => t('limits.cost', { tools, cost: number(cost, 2) }));
  return [
    [t('limits.perCaller'), rateWords(perCaller)],
    [t('limits.perTool'), rateWords(perTool)],
    [t('limits.perPair'), rateWords(perPair)],
    [t('limits.atOnce'), t('limits.atOnceTotal', { count: concurrency.total })],
    [t('limits.atOnceCaller'), number(concurrency.perCaller)],
    [t('limits.atOnceTool'), concurrency.perTool === null ? t('limits.unlimited') : number(concurrency.perTool)],
    [t('limits.costs'), costWords.length ? <Marks key="costs" text={costWords.join(', ')} /> : t('limits.oneEach')],
  ] as const;
}

const fillColumns = (): Column<Fill>[] => [
  { id: 'of', head: t('limits.of'), cell: (each) => t(`limits.kinds.${each.kind}`) },
  { id: 'key', head: t('limits.who'), class: 'anywhere', cell: (each) => <Marks text={each.key} /> },
  { id: 'fill', head: t('limits.fill'), class: 'end', cell: (each) => <FillMeter share={each.fill} /> },
];

function FillMeter({ share }: { share: number }) {
  const width = Math.min(1, Math.max(0, share)) * 100;
  return (
    <span class="fill">
      <svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
        <rect class="ground" width="100" height="8" rx="2" />
        <rect class={share >= 0.9 ? 'full' : 'used'} width={width} height="8" rx="2" />
      </svg>
      <span class="num">{percent(share, 0)}</span>
    </span>
  );
}

const refusedColumns = (): Column<Refused>[] => [
  {
    id: 'caller',
    head: t('limits.caller'),
    cell: (each) => (
      <a href={href(['calls'], { caller: each.caller, stage: 'limit', since: '1h' })}>
        <Marks text={each.caller} />
      </a>
    ),
  },
  { id: 'last', head: t('limits.last'), class: 'optional', cell: (each) => <Time at={each.lastAt} /> },
  { id: 'calls', head: t('limits.held'), class: 'end', cell: (each) => <span class="num">{number(each.calls)}</span> },
];

const KINDS = ['perCaller', 'perTool', 'perPair'] as const;
type Draft = Record<(typeof KINDS)[number], { rate: string; burst: string }>;
const EMPTY: Draft = {
  perCaller: { rate: '', burst: '' },
  perTool: { rate: '', burst: '' },
  perPair: { rate: '', burst: '' },
};

/** What another limit would have refused in the last hour; nothing is changed by it. */
function PreviewCard() {
  const [draft, setDraft] = useState(EMPTY);
  const [found, setFound] = useState<LimitPreview | null>(null);
  const stated = KINDS.filter((kind) => draft[kind].rate !== '');
  const preview = useAction(async () => {
    setFound(null);
    const body = Object.fromEntries(
      stated.map((kind) => {
        const rate = Number(draft[kind].rate);
        return [kind, { rate, burst: draft[kind].burst === '' ? Math.max(1, rate) : Number(draft[kind].burst) }];
      }),
    );
    setFound(await hall.post<LimitPreview>('api/limits/preview', body));
  });
  const change = (kind: (typeof KINDS)[number], part: 'rate' | 'burst', value: string) =>
    setDraft({ ...draft, [kind]: { ...draft[kind], [part]: value } });
  return (
    <section class="card" aria-labelledby="preview">
      <header>
        <h2 id="preview">{t('limits.preview')}</h2>
      </header>
      <form
        class="in stack"
        onSubmit={(event) => {
          event.preventDefault();
          preview.run();
        }}
      >
        <p class="soft">{t('limits.previewWhy')}</p>
        {KINDS.map((kind) => (
          <fieldset key={kind} class="row">
            <legend>{t(`limits.${kind}`)}</legend>
            {(['rate', 'burst'] as const).map((part) => (
              <div class="field" key={part}>
                <label for={`${kind}-${part}`}>{t(`limits.${part}Label`)}</label>
                <input
                  id={`${kind}-${part}`}
                  type="number"
                  inputMode="decimal"
                  min={part === 'burst' ? '1' : '0.001'}
                  step="any"
                  value={draft[kind][part]}
                  onInput={(event) => change(kind, part, event.currentTarget.value)}
                />
              </div>
            ))}
          </fieldset>
        ))}
        {preview.error && <ErrorState error={preview.error} small />}
        {found && <PreviewAnswer found={found} />}
        <div class="row">
          <button type="submit" class="button main" disabled={preview.busy || stated.length === 0}>
            <Icon name="history" />
            {t('limits.tryOut')}
          </button>
        </div>
        <p class="hint">{t('limits.howToSet')}</p>
      </form>
    </section>
  );
}

function PreviewAnswer({ found }: { found: LimitPreview }) {
  const callers = found.callers.filter((each) => each.refused > 0).slice(0, 5);
  return (
    <Note tone={found.refused ? 'refused' : 'ok'} live>
      <p>{t('limits.wouldRefuse', { count: found.refused, calls: number(found.calls) })}</p>
      {callers.length > 0 && (
        <ul class="plain-list">
          {callers.map((each) => (
            <li key={each.caller}>
              <Marks text={each.caller} /> <span class="faint">{number(each.refused)}</span>
            </li>
          ))}
        </ul>
      )}
    </Note>
  );
}
