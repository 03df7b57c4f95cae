/** `AccessMatrix`: callers by toolkits, which open to their tools: yes, yes if, asks a person, no. */

import { useMemo } from 'preact/hooks';
import { useResource } from '../../api/resource';
import type { AccessPage, AccessPair } from '../../api/types';
import { href, navigate, query, setQuery } from '../../app/router';
import { Chip } from '../../ui/basics';
import { FilterLine } from '../../ui/filter-line';
import { Icon } from '../../ui/icon';
import { Matrix, VERDICT_ICONS, VERDICT_TONES, type Verdict } from '../../ui/matrix';
import { EmptyState, Loaded } from '../../ui/states';
import { t } from '../../words/messages';
import '../../words/en/grants';

/** More than anybody reads; the filter makes it fewer. */
const MOST_CALLERS = 60;
const MOST_COLUMNS = 40;
const VERDICTS: readonly Verdict[] = ['yes', 'if', 'asks', 'no'];

export function AccessMatrix() {
  const toolkit = query('toolkit');
  const callers = query('callers');
  const access = useResource<AccessPage>('api/access', {
    query: { callers: callers ? glob(callers) : null, tools: toolkit ? `${toolkit}.*` : null },
    topics: ['tools'],
  });
  return (
    <section class="card" aria-label={t('grants.matrix')}>
      <header>
        <FilterLine
          fields={[
            { name: 'toolkit', values: () => [...new Set((access.data?.pairs ?? []).map((each) => each.toolkit))] },
          ]}
          plain="callers"
          placeholder={t('grants.matrixPlaceholder')}
        />
        {toolkit && (
          <button type="button" class="button low" onClick={() => setQuery({ toolkit: null }, false)}>
            <Icon name="back" />
            {t('grants.allToolkits')}
          </button>
        )}
      </header>
      <p class="in soft">{t('grants.matrixWhy')}</p>
      <Loaded
        of={access}
        rows={8}
        empty={{
          when: (data) => data.pairs.length === 0,
          show: <EmptyState icon="grant">{t('grants.noPairs')}</EmptyState>,
        }}
      >
        {(data) => <Pairs pairs={data.pairs} byTool={toolkit !== ''} partial={data.nextCursor !== undefined} />}
      </Loaded>
    </section>
  );
}

const glob = (text: string): string => (/[*?]/.test(text) ? text : `*${text}*`);

interface Cell {
  verdict: Verdict;
  words: string;
}

function Pairs({ pairs, byTool, partial }: { pairs: AccessPair[]; byTool: boolean; partial: boolean }) {
  const { rows, columns, cells } = useMemo(() => arrange(pairs, byTool), [pairs, byTool]);
  const shownRows = rows.slice(0, MOST_CALLERS);
  const shownColumns = columns.slice(0, MOST_COLUMNS);
  const open = (caller: string, column: string) => {
    if (byTool) navigate(href(['grants', 'why'], { caller, tool: column }));
    else setQuery({ toolkit: column }, false);
  };
  return (
    <>
      <Matrix
        label={t('grants.matrix')}
        rows={shownRows}
        columns={shownColumns}
        cell={(caller, column) => cells.get(`${caller}\n${column}`) ?? null}
        onOpen={open}
      />
      <p class="in row small">
        {VERDICTS.map((verdict) => (
          <Chip key={verdict} tone={VERDICT_TONES[verdict]} icon={VERDICT_ICONS[verdict]}>
            {t(`matrix.${verdict}`)}
          </Chip>
        ))}
      </p>
      {(partial || rows.length > shownRows.length || columns.length > shownColumns.length) && (
        <p class="in hint">{t('grants.matrixCut')}</p>
      )}
    </>
  );
}

function arrange(pairs: AccessPair[], byTool: boolean) {
  const rows = [...new Set(pairs.map((each) => each.caller))];
  const columns = [...new Set(pairs.map((each) => (byTool ? each.tool : each.toolkit)))];
  const groups = new Map<string, AccessPair[]>();
  for (const each of pairs) {
    const key = `${each.caller}\n${byTool ? each.tool : each.toolkit}`;
    const group = groups.get(key);
    if (group) group.push(each);
    else groups.set(key, [each]);
  }
  const cells = new Map<string, Cell>([...groups].map(([key, group]) => [key, summary(group)]));
  return { rows, columns, cells };
}

// One word for many tools: that of all of them, or "yes if", with how many of each.
function summary(group: AccessPair[]): Cell {
  const first = group[0] as AccessPair;
  if (group.length === 1) return { verdict: first.verdict, words: `${first.caller}, ${first.tool}: ${first.words}` };
  const counts = VERDICTS.map((verdict) => [verdict, group.filter((each) => each.verdict === verdict).length] as const);
  const present = counts.filter(([, count]) => count > 0);
  const verdict = present.length === 1 ? first.verdict : 'if';
  const words = present.map(([each, count]) => t('grants.ofTools', { count, verdict: t(`matrix.${each}`) })).join(', ');
  return { verdict, words: `${first.caller}, ${first.toolkit}: ${words}` };
}
