/** The page of a tool, resource or prompt: what it is, which version, and its tabs. */

import { useEffect } from 'preact/hooks';
import { mayLook } from '../../api/me';
import { useResource } from '../../api/resource';
import type { ToolDetail, ToolLosses } from '../../api/types';
import { type Kind, pageOf, SCREEN_OF } from '../../app/kinds';
import { lazy } from '../../app/lazy';
import { href, navigate, route } from '../../app/router';
import { Effect, LevelMeter } from '../../ui/basics';
import { Marks, MarksInWords } from '../../ui/marks';
import { Loaded, PageHead } from '../../ui/states';
import { TabLinks } from '../../ui/tabs';
import { rich, t } from '../../words/messages';
import { CallersTab, HistoryTab } from './callers';
import { DefinitionTab } from './definition';
import { DialectsTab } from './dialects';
import { Deprecation, MimeType, Needs, ToolState, Uri } from './facts';
import '../../words/en/tools';

// Each tab comes with its own code: the form and the table of a schema are the largest parts of the console.
const TryTab = lazy(async () => (await import('./try')).TryTab);
const VersionsTab = lazy(async () => (await import('./versions')).VersionsTab);

const TABS = ['try', 'definition', 'dialects', 'versions', 'callers', 'history'] as const;
type Tab = (typeof TABS)[number];
/** What callers see of a tool; the rest is for those who may read the hall. */
const OF_CALLERS: readonly Tab[] = ['try', 'definition'];

/** The path of a tool in the API. */
export function toolPath(id: string, below = ''): string {
  return `api/tools/${encodeURIComponent(id)}${below}`;
}

export function ToolPage({ kind, id, tab }: { kind: Kind; id: string; tab: string }) {
  const tool = useResource<ToolDetail>(toolPath(id), {
    topics: ['tools'],
    matters: (event) => event.topic === 'tools' && event.ids.some((each) => each.split('@')[0] === id.split('@')[0]),
  });
  useOwnScreen(kind, tool.data, tab);
  const tabs = mayLook() ? TABS : OF_CALLERS;
  const current = tabs.find((each) => each === tab) ?? 'try';
  const losses = useResource<ToolLosses>(mayLook() ? toolPath(id, '/losses') : null);
  if (tool.data === undefined) {
    return (
      <>
        <PageHead
          title={<Marks text={id} cut={200} />}
          crumbs={[[t(`titles.${SCREEN_OF[kind]}`), href([SCREEN_OF[kind]])]]}
        />
        <section class="card">
          <Loaded of={tool} rows={8}>
            {() => null}
          </Loaded>
        </section>
      </>
    );
  }
  return (
    <Loaded of={tool}>
      {(data) => (
        <>
          <Head tool={data} tab={current} />
          <TabLinks
            label={t(`tools.about.${data.kind}`)}
            current={current}
            tabs={tabs.map((each) => ({
              id: each,
              href: href([SCREEN_OF[kind], id, each]),
              title: <TabTitle tab={each} tool={data} losses={losses.data} />,
            }))}
          />
          <TabPanel tab={current} tool={data} losses={losses} reload={tool.reload} />
        </>
      )}
    </Loaded>
  );
}

// What leads here knows only the id, and the navigation says what it is.
function useOwnScreen(kind: Kind, tool: ToolDetail | undefined, tab: string): void {
  const isElsewhere = tool !== undefined && tool.kind !== kind;
  useEffect(() => {
    if (isElsewhere) navigate(pageOf(tool, tab, Object.fromEntries(route.peek().query)), true);
  }, [isElsewhere]);
}

function TabTitle({ tab, tool, losses }: { tab: Tab; tool: ToolDetail; losses: ToolLosses | undefined }) {
  const lossy = losses?.dialects.filter(({ exact }) => !exact).length ?? 0;
  const counts: Partial<Record<Tab, number>> = {
    versions: tool.versions.length,
    definition: tool.findings.length,
    dialects: lossy,
  };
  const count = counts[tab] ?? 0;
  return (
    <>
      {t(`tools.tabs.${tab}`)}
      {count > (tab === 'versions' ? 1 : 0) && (
        <span class={tab === 'definition' ? 'chip refused' : 'chip'}>{count}</span>
      )}
    </>
  );
}

function Head({ tool, tab }: { tool: ToolDetail; tab: Tab }) {
  const name = `${tool.toolkit}.${tool.tool}`;
  const screen = SCREEN_OF[tool.kind];
  return (
    <>
      <PageHead
        title={<Marks text={name} cut={200} />}
        crumbs={[
          [t(`titles.${screen}`), href([screen])],
          [<Marks key="toolkit" text={tool.toolkit} cut={80} />, href([screen], { toolkit: tool.toolkit })],
        ]}
        actions={
          <label class="version-choice">
            <span class="sr">{t('tools.version')}</span>
            <select
              data-foreign
              value={tool.id}
              onChange={(event) => navigate(href([screen, event.currentTarget.value, tab]))}
            >
              {tool.versions.map((version) => (
                <option key={version.id} value={version.id}>
                  {versionWord(version, tool)}
                </option>
              ))}
            </select>
          </label>
        }
      >
        <Marks text={tool.description ?? ''} cut={600} />
      </PageHead>
      <div class="row tool-facts">
        <ToolState tool={tool} />
        {tool.kind === 'tool' && <Effect effect={tool.effect} />}
        {tool.mimeType !== null && <MimeType type={tool.mimeType} />}
        <LevelMeter level={tool.effectiveLevel} />
        <Needs tool={tool} />
        <Deprecation tool={tool} />
        <span class="small faint">
          {tool.uri !== null
            ? rich('tools.reads', { uri: <Uri uri={tool.uri} /> })
            : rich('tools.published', {
                name: (
                  <code>
                    <Marks text={tool.name} cut={120} />
                  </code>
                ),
              })}
        </span>
      </div>
      {!tool.newest && tool.versions.length > 1 && <p class="small soft">{t('tools.older')}</p>}
      <MarksInWords texts={[name, tool.name, tool.uri ?? '', tool.description ?? '', tool.title ?? '']} />
    </>
  );
}

function versionWord({ id, state, sunset }: ToolDetail['versions'][number], tool: ToolDetail): string {
  const version = id.split('@')[1] ?? id;
  if (id === tool.id && tool.newest) return `${version}, ${t('tools.newest')}`;
  return state === 'active' && !sunset ? version : `${version}, ${t(`tools.states.${state as ToolDetail['state']}`)}`;
}

interface TabProps {
  tab: Tab;
  tool: ToolDetail;
  losses: ReturnType<typeof useResource<ToolLosses>>;
  reload: () => Promise<void>;
}

function TabPanel({ tab, tool, losses, reload }: TabProps) {
  switch (tab) {
    case 'try':
      return <TryTab key={tool.id} tool={tool} />;
    case 'definition':
      return <DefinitionTab tool={tool} />;
    case 'dialects':
      return <DialectsTab tool={tool} losses={losses} />;
    case 'versions':
      return <VersionsTab tool={tool} reload={reload} />;
    case 'callers':
      return <CallersTab tool={tool} />;
    case 'history':
      return <HistoryTab tool={tool} />;
  }
}
