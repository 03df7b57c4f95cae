/** The list of tools, resources or prompts: search while typing, facets, cards or rows, and a way to add a definition. */

import { useEffect, useRef, useState } from 'preact/hooks';
import { useEvents } from '../../api/events';
import { mayManage } from '../../api/me';
import { usePages } from '../../api/pages';
import type { ToolPage as Page, ToolSummary } from '../../api/types';
import { useKeys, useListKeys } from '../../app/keys';
import { ICON_OF, type Kind, pageOf, SCREEN_OF } from '../../app/kinds';
import { lazy } from '../../app/lazy';
import { navigate, query, setQuery } from '../../app/router';
import { Chip, Effect, LevelMeter } from '../../ui/basics';
import { Icon } from '../../ui/icon';
import { Marks } from '../../ui/marks';
import { EmptyState, Loaded, PageHead } from '../../ui/states';
import { type Column, DataTable } from '../../ui/table';
import { Segments } from '../../ui/tabs';
import { t } from '../../words/messages';
import { useCards } from './cards';
import { Deprecation, MimeType, ToolState, Uri } from './facts';
import '../../words/en/tools';

const AddDefinition = lazy(async () => (await import('./add')).AddDefinition);

export const FACETS = ['toolkit', 'effect', 'level', 'state', 'origin', 'server', 'tag'] as const;
type Facet = (typeof FACETS)[number];
const TYPING_MS = 40;
const PAGE = 100;

export function ToolList({ kind }: { kind: Kind }) {
  const search = query('query');
  const filters = Object.fromEntries(FACETS.map((facet) => [facet, query(facet)]));
  const isTable = query('view') === 'table';
  const pages = usePages<Page, ToolSummary>(
    'api/tools',
    { query: search, kind, ...filters, limit: PAGE },
    (page) => page.tools,
  );
  useEvents(['tools'], () => pages.reload(), { missed: pages.reload });
  const isFiltered = search !== '' || Object.values(filters).some(Boolean);
  const data = pages.first && { page: pages.first, tools: pages.items };
  return (
    <>
      <PageHead
        title={t(`titles.${SCREEN_OF[kind]}`)}
        actions={
          kind === 'tool' &&
          mayManage() && (
            <button type="button" class="button" onClick={() => setQuery({ add: 'paste' })}>
              <Icon name="plus" />
              {t('tools.add')}
            </button>
          )
        }
      />
      <div class="tool-search">
        <Search kind={kind} value={search} />
        <Segments
          label={t('tools.view')}
          options={[['grid', t('tools.grid')] as const, ['table', t('tools.table')] as const]}
          chosen={isTable ? 'table' : 'grid'}
          onChoose={(view) => setQuery({ view: view === 'table' ? 'table' : null })}
        />
      </div>
      <Loaded
        of={{ ...pages, data }}
        rows={8}
        empty={{ when: ({ tools }) => tools.length === 0 && !isFiltered, show: <NoTools kind={kind} /> }}
      >
        {({ page, tools }) => (
          <>
            <Facets page={page} filters={filters} />
            <p class="small soft tool-count" role="status">
              {t(`tools.${isFiltered ? 'found' : 'count'}.${kind}`, { count: page.total ?? tools.length })}
            </p>
            {tools.length === 0 ? (
              <section class="card">
                <EmptyState icon="find" action={<ClearFilters />}>
                  {t(`tools.noMatch.${kind}`)}
                </EmptyState>
              </section>
            ) : isTable ? (
              <section class="card">
                <Table kind={kind} tools={tools} onEnd={pages.more} />
              </section>
            ) : (
              <Cards tools={tools} onEnd={pages.more} />
            )}
          </>
        )}
      </Loaded>
      {kind === 'tool' && query('add') && mayManage() && <AddDefinition onClose={() => setQuery({ add: null })} />}
    </>
  );
}

// The address follows the typing at once, so the list does; what is typed never waits for it.
function Search({ kind, value }: { kind: Kind; value: string }) {
  const [text, setText] = useState(value);
  const field = useRef<HTMLInputElement>(null);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => {
    if (document.activeElement !== field.current) setText(value);
  }, [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  useKeys({ edit: () => field.current?.focus() });
  const type = (typed: string) => {
    setText(typed);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setQuery({ query: typed, at: null }), TYPING_MS);
  };
  return (
    <div class="filters">
      <Icon name="find" />
      <input
        ref={field}
        type="search"
        value={text}
        aria-label={t(`tools.search.${kind}`)}
        placeholder={t(`tools.search.${kind}`)}
        autoComplete="off"
        spellcheck={false}
        onInput={(event) => type(event.currentTarget.value)}
      />
      <kbd>e</kbd>
    </div>
  );
}

function Facets({ page, filters }: { page: Page; filters: Record<string, string> }) {
  const shown = FACETS.filter((facet) => filters[facet] || Object.keys(page.facets?.[facet] ?? {}).length > 1);
  if (shown.length === 0) return null;
  return (
    <fieldset class="facets">
      <legend class="sr">{t('tools.filters')}</legend>
      {shown.map((facet) => (
        <FacetSelect key={facet} facet={facet} counts={page.facets?.[facet] ?? {}} chosen={filters[facet] ?? ''} />
      ))}
      {Object.values(filters).some(Boolean) && <ClearFilters low />}
    </fieldset>
  );
}

function FacetSelect({ facet, counts, chosen }: { facet: Facet; counts: Record<string, number>; chosen: string }) {
  const known = chosen === '' || chosen in counts ? counts : { ...counts, [chosen]: 0 };
  return (
    <label class={chosen ? 'facet chosen' : 'facet'}>
      <span>{t(`tools.facet.${facet}`)}</span>
      <select value={chosen} onChange={(event) => setQuery({ [facet]: event.currentTarget.value })}>
        <option value="">{t('tools.any')}</option>
        {Object.entries(known).map(([value, count]) => (
          <option key={value} value={value}>
            {t('tools.withCount', { value: facetWord(facet, value), count })}
          </option>
        ))}
      </select>
    </label>
  );
}

function facetWord(facet: Facet, value: string): string {
  if (facet === 'state') return t(`tools.states.${value as ToolSummary['state']}`);
  if (facet === 'effect') return t(`effects.${value as 'reads' | 'writes' | 'destroys'}`);
  return value.length > 60 ? `${value.slice(0, 60)}…` : value;
}

function ClearFilters({ low = false }: { low?: boolean }) {
  const none = Object.fromEntries(['query', ...FACETS].map((name) => [name, null]));
  return (
    <button type="button" class={low ? 'button bare low' : 'button'} onClick={() => setQuery(none)}>
      {t('tools.clearFilters')}
    </button>
  );
}

function NoTools({ kind }: { kind: Kind }) {
  return (
    <section class="card">
      <EmptyState
        icon={ICON_OF[kind]}
        action={
          kind === 'tool' &&
          mayManage() && (
            <button type="button" class="button main" onClick={() => setQuery({ add: 'paste' })}>
              {t('tools.add')}
            </button>
          )
        }
      >
        {t(`tools.none.${kind}`)}
      </EmptyState>
    </section>
  );
}

const page = (tool: ToolSummary) => pageOf(tool, 'try');
const nameOf = (tool: ToolSummary) => `${tool.toolkit}.${tool.tool}`;

function Cards({ tools, onEnd }: { tools: ToolSummary[]; onEnd: () => void }) {
  const { place, from, to, above, below } = useCards(tools.length, onEnd);
  const chosen = query('at');
  useListKeys(
    tools,
    (tool) => tool.id === chosen,
    (tool) => {
      setQuery({ at: tool.id });
      document.getElementById(`tool-${tool.id}`)?.scrollIntoView({ block: 'nearest' });
    },
    (tool) => navigate(page(tool)),
  );
  return (
    <div class="tool-cards" style={{ paddingBlockStart: `${above}px`, paddingBlockEnd: `${below}px` }}>
      <ul ref={place}>
        {tools.slice(from, to).map((tool) => (
          <li key={tool.id} id={`tool-${tool.id}`} class={tool.id === chosen ? 'card chosen' : 'card'}>
            <a href={page(tool)}>
              <span class="name">
                <strong>
                  <Marks text={nameOf(tool)} cut={120} />
                </strong>
                <span class="faint mono tiny">
                  <Marks text={tool.version} cut={24} />
                </span>
              </span>
              {tool.uri !== null && <Uri uri={tool.uri} />}
              <span class="about">
                <Marks text={tool.description ?? ''} cut={200} />
              </span>
            </a>
            <span class="row tiny">
              <LevelMeter level={tool.effectiveLevel} short />
              {tool.kind === 'tool' && <Effect effect={tool.effect} />}
              {tool.mimeType !== null && <MimeType type={tool.mimeType} />}
              {(tool.state !== 'active' || !tool.served) && <ToolState tool={tool} />}
              <Deprecation tool={tool} />
            </span>
          </li>
        ))}
      </ul>
    </div>
  );
}

function columns(kind: Kind): Column<ToolSummary>[] {
  const byKind: Column<ToolSummary>[] =
    kind === 'tool'
      ? [{ id: 'effect', head: t('tools.effect'), class: 'last', cell: (tool) => <Effect effect={tool.effect} /> }]
      : kind === 'resource'
        ? [
            {
              id: 'uri',
              head: t('tools.uri'),
              class: 'optional',
              cell: ({ uri }) => uri !== null && <Uri uri={uri} />,
            },
            {
              id: 'type',
              head: t('tools.type'),
              class: 'last',
              cell: ({ mimeType }) => mimeType !== null && <MimeType type={mimeType} />,
            },
          ]
        : [];
  return [
    {
      id: 'tool',
      head: t(`find.kinds.${kind}`),
      class: 'tool-name',
      cell: (tool) => (
        <a href={page(tool)}>
          <Marks text={nameOf(tool)} cut={120} />
        </a>
      ),
    },
    {
      id: 'version',
      head: t('tools.version'),
      class: 'optional mono small',
      cell: (tool) => <Marks text={tool.version} cut={40} />,
    },
    ...byKind,
    {
      id: 'level',
      head: t('tools.level'),
      class: 'optional',
      cell: (tool) => <LevelMeter level={tool.effectiveLevel} short />,
    },
    {
      id: 'state',
      head: t('tools.state'),
      class: 'second',
      cell: (tool) => (
        <span class="row">
          <ToolState tool={tool} />
          <Deprecation tool={tool} />
        </span>
      ),
    },
    {
      id: 'from',
      head: t('tools.from'),
      class: 'optional small soft',
      cell: (tool) => (tool.server ? <Chip icon="server">{tool.server}</Chip> : <Marks text={tool.origin} cut={40} />),
    },
  ];
}

function Table({ kind, tools, onEnd }: { kind: Kind; tools: ToolSummary[]; onEnd: () => void }) {
  return (
    <DataTable
      label={t(`titles.${SCREEN_OF[kind]}`)}
      columns={columns(kind)}
      rows={tools}
      rowKey={(tool) => tool.id}
      chosen={query('at') || undefined}
      onChoose={(tool) => setQuery({ at: tool.id })}
      onOpen={(tool) => navigate(page(tool))}
      onEnd={onEnd}
      twoLine
    />
  );
}
