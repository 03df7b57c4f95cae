/** Versions: their states and last days, what changed between two and whom it hurts, and what can be done with one. */

import { useMemo, useState } from 'preact/hooks';
import { hall } from '../../api/client';
import { mayManage } from '../../api/me';
import { useResource } from '../../api/resource';
import type { ToolDetail, ToolDiff } from '../../api/types';
import { SCREEN_OF } from '../../app/kinds';
import { href, navigate, query, setQuery } from '../../app/router';
import { writeJson } from '../../json/exact';
import { Chip, Note, Time, type Tone } from '../../ui/basics';
import { Ask } from '../../ui/dialog';
import { Marks } from '../../ui/marks';
import { EmptyState, Loaded } from '../../ui/states';
import { number } from '../../words/format';
import { rich, t } from '../../words/messages';
import { lineChanges, withContext } from './lines';
import { toolPath } from './tool';
import '../../words/en/tool-callers';
import '../../words/en/tools';
import '../../words/en/versions';

type Version = ToolDetail['versions'][number];
const ACTIONS = ['activate', 'deactivate', 'deprecate', 'rollback', 'remove'] as const;
type Action = (typeof ACTIONS)[number];

export function VersionsTab({ tool, reload }: { tool: ToolDetail; reload: () => Promise<void> }) {
  const [asked, ask] = useState<{ action: Action; version: Version } | null>(null);
  return (
    <div class="stack">
      <section class="card" aria-label={t('tools.tabs.versions')}>
        <div class="scroll">
          <table class="rows two-line versions">
            <thead>
              <tr>
                <th scope="col">{t('versions.version')}</th>
                <th scope="col">{t('versions.state')}</th>
                <th scope="col" class="optional">
                  {t('versions.registered')}
                </th>
                <th scope="col">{t('versions.lastDay')}</th>
                <th scope="col" class="end">
                  <span class="sr">{t('versions.actions')}</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {tool.versions.map((version) => (
                <VersionRow
                  key={version.id}
                  isOnly={tool.versions.length === 1}
                  version={version}
                  isThis={version.id === tool.id}
                  ask={(action) => ask({ action, version })}
                />
              ))}
            </tbody>
          </table>
        </div>
      </section>
      <Comparison tool={tool} />
      {asked?.action === 'deprecate' && <Deprecate version={asked.version} onClose={() => ask(null)} done={reload} />}
      {asked && asked.action !== 'deprecate' && (
        <Confirm {...asked} tool={tool} onClose={() => ask(null)} done={reload} />
      )}
    </div>
  );
}

const STATE_TONES: Record<string, Tone> = { active: 'ok', quarantined: 'person' };

interface VersionRowProps {
  version: Version;
  isThis: boolean;
  /** The only version of its tool: there is nothing to roll back to. */
  isOnly: boolean;
  ask: (action: Action) => void;
}

function VersionRow({ version, isThis, isOnly, ask }: VersionRowProps) {
  const { id, state } = version;
  return (
    <tr class={isThis ? 'chosen' : undefined}>
      <td>
        <a href={href(['tools', id, 'versions'])} aria-current={isThis ? 'true' : undefined}>
          <Marks text={id.split('@')[1] ?? id} cut={60} />
        </a>
        {isThis && <span class="tiny soft"> {t('versions.this')}</span>}
      </td>
      <td class="last">
        <Chip tone={STATE_TONES[state] ?? 'plain'}>{t(`tools.states.${state as ToolDetail['state']}`)}</Chip>
      </td>
      <td class="optional">
        <Time at={version.registeredAt} as="day" />
      </td>
      <td class="second">
        {version.sunset ? (
          <Time at={version.sunset} as="day" />
        ) : version.deprecatedAt ? (
          <Chip tone="refused">{t('tools.deprecated')}</Chip>
        ) : (
          <span class="faint optional">–</span>
        )}
        {version.successor && (
          <span class="tiny soft anywhere">
            {' '}
            {t('versions.successor')} <Marks text={version.successor} cut={120} />
          </span>
        )}
      </td>
      <td class="end third">
        {mayManage() && (
          <span class="row version-actions" role="group" aria-label={t('versions.of', { id })}>
            {actionsOf(version, isOnly).map((action) => (
              <button
                key={action}
                type="button"
                class={action === 'remove' ? 'button low danger' : 'button low'}
                onClick={() => ask(action)}
              >
                {t(`versions.${action}`)}
              </button>
            ))}
            {state === 'quarantined' && (
              <a class="button low" href={href(['review', id])}>
                {t('versions.review')}
              </a>
            )}
          </span>
        )}
      </td>
    </tr>
  );
}

function actionsOf({ state }: Version, isOnly: boolean): Action[] {
  if (state === 'active') return isOnly ? ['deactivate', 'deprecate'] : ['deactivate', 'deprecate', 'rollback'];
  return state === 'quarantined' ? ['remove'] : ['activate', 'remove'];
}

interface ConfirmProps {
  action: Action;
  version: Version;
  tool: ToolDetail;
  onClose: () => void;
  done: () => Promise<void>;
}

function Confirm({ action, version: { id }, tool, onClose, done }: ConfirmProps) {
  const act = async () => {
    if (action === 'remove') await hall.delete(toolPath(id));
    else await hall.post(toolPath(id, `/${action}`));
    const screen = SCREEN_OF[tool.kind];
    const other = tool.versions.find((each) => each.id !== id);
    if (action === 'remove' && id === tool.id) navigate(href(other ? [screen, other.id, 'versions'] : [screen]));
    else await done();
  };
  const why = {
    activate: 'activateWhy',
    deactivate: 'deactivateWhy',
    rollback: 'rollbackWhy',
    remove: 'removeWhy',
    deprecate: 'deprecateWhy',
  } as const;
  const isDangerous = action === 'remove' || action === 'deactivate';
  return (
    <Ask
      title={t(`versions.${action}`)}
      verb={t(`versions.${action}`)}
      danger={isDangerous}
      act={act}
      onClose={onClose}
    >
      {rich(`versions.${why[action]}`, { id: <code>{<Marks text={id} cut={160} />}</code> })}
    </Ask>
  );
}

function Deprecate({
  version: { id },
  onClose,
  done,
}: {
  version: Version;
  onClose: () => void;
  done: () => Promise<void>;
}) {
  const [sunset, setSunset] = useState('');
  const [successor, setSuccessor] = useState('');
  const act = async () => {
    await hall.post(toolPath(id, '/deprecate'), { ...(sunset && { sunset }), ...(successor && { successor }) });
    await done();
  };
  return (
    <Ask title={t('versions.deprecate')} verb={t('versions.deprecate')} act={act} onClose={onClose}>
      <div class="stack tight">
        <p>{rich('versions.deprecateWhy', { id: <code>{<Marks text={id} cut={160} />}</code> })}</p>
        <div class="field">
          <label for="sunset">{t('versions.sunset')}</label>
          <input
            id="sunset"
            type="date"
            value={sunset}
            aria-describedby="sunset-hint"
            onInput={(event) => setSunset(event.currentTarget.value)}
          />
          <span class="hint" id="sunset-hint">
            {t('versions.sunsetHint')}
          </span>
        </div>
        <div class="field">
          <label for="successor">{t('versions.successor')}</label>
          <input
            id="successor"
            value={successor}
            autoComplete="off"
            spellcheck={false}
            aria-describedby="successor-hint"
            onInput={(event) => setSuccessor(event.currentTarget.value.trim())}
          />
          <span class="hint" id="successor-hint">
            {t('versions.successorHint')}
          </span>
        </div>
      </div>
    </Ask>
  );
}

// --- what changed -----------------------------------------------------------------------------------------------------

function Comparison({ tool }: { tool: ToolDetail }) {
  const ids = tool.versions.map((each) => each.id);
  const to = ids.includes(query('to')) ? query('to') : tool.id;
  const from = ids.includes(query('from')) && query('from') !== to ? query('from') : '';
  if (ids.length < 2) {
    return (
      <section class="card" aria-labelledby="compare-title">
        <header>
          <h2 id="compare-title">{t('versions.compare')}</h2>
        </header>
        <EmptyState icon="history">{t('versions.onlyOne')}</EmptyState>
      </section>
    );
  }
  return (
    <section class="card" aria-labelledby="compare-title">
      <header>
        <h2 id="compare-title">{t('versions.compare')}</h2>
        <Diff key={`${from} ${to}`} ids={ids} from={from} to={to} />
      </header>
      <DiffBody from={from} to={to} />
    </section>
  );
}

function Diff({ ids, from, to }: { ids: string[]; from: string; to: string }) {
  const choice = (name: 'from' | 'to', value: string) => (
    <label class="facet">
      <span>{t(`versions.${name}`)}</span>
      <select value={value} onChange={(event) => setQuery({ [name]: event.currentTarget.value })}>
        {name === 'from' && <option value="">{t('versions.before')}</option>}
        {ids.map((id) => (
          <option key={id} value={id}>
            {id.split('@')[1] ?? id}
          </option>
        ))}
      </select>
    </label>
  );
  return (
    <span class="row push">
      {choice('from', from)}
      {choice('to', to)}
    </span>
  );
}

const KIND_TONES: Record<ToolDiff['changes'][number]['kind'], Tone> = {
  breaking: 'failed',
  feature: 'accent',
  fix: 'plain',
};

function DiffBody({ from, to }: { from: string; to: string }) {
  const diff = useResource<ToolDiff>(toolPath(to, '/diff'), { query: { from }, topics: ['tools'] });
  return (
    <Loaded of={diff}>
      {(data) => (
        <div class="in stack">
          <Note tone={data.ok ? 'ok' : 'failed'}>
            {t(data.ok ? 'versions.keeps' : 'versions.breaks', {
              required: t(`versions.bump.${data.required}`),
              declared: t(`versions.bump.${data.declared}`),
            })}
          </Note>
          {data.changes.length === 0 ? (
            <p class="soft">{t('versions.noChanges')}</p>
          ) : (
            <Changes changes={data.changes} />
          )}
          <Hurt callers={data.callers} />
          <Documents documents={data.documents} />
        </div>
      )}
    </Loaded>
  );
}

function Changes({ changes }: { changes: ToolDiff['changes'] }) {
  return (
    <ul class="changes">
      {changes.map((change, index) => (
        <li key={index}>
          <Chip tone={KIND_TONES[change.kind]}>{t(`versions.kinds.${change.kind}`)}</Chip>
          <code class="anywhere">
            <Marks text={change.path || '/'} cut={200} />
          </code>
          <span class="small">
            <Marks text={change.reason} cut={500} />
          </span>
        </li>
      ))}
    </ul>
  );
}

function Hurt({ callers }: { callers: ToolDiff['callers'] }) {
  return (
    <div class="stack tight">
      <h3>{t('versions.hurt')}</h3>
      {callers.length === 0 && <p class="small soft">{t('versions.nobody')}</p>}
      {callers.length > 0 && (
        <table class="rows">
          <thead>
            <tr>
              <th scope="col">{t('toolCallers.caller')}</th>
              <th scope="col" class="end">
                {t('toolCallers.calls')}
              </th>
              <th scope="col">{t('toolCallers.last')}</th>
            </tr>
          </thead>
          <tbody>
            {callers.map((each) => (
              <tr key={each.caller}>
                <td>
                  <a href={href(['callers', each.caller])}>
                    <Marks text={each.caller} cut={120} />
                  </a>
                </td>
                <td class="end num">{number(each.calls)}</td>
                <td>
                  <Time at={each.last} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </div>
  );
}

function Documents({ documents }: { documents: ToolDiff['documents'] }) {
  const lines = useMemo(() => {
    const before = documents.from === null ? [] : writeJson(documents.from, 2).split('\n');
    return withContext(lineChanges(before, writeJson(documents.to, 2).split('\n')));
  }, [documents]);
  return (
    <details class="fold">
      <summary>
        <h3>{t('versions.documents')}</h3>
      </summary>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls can be reached by keyboard */}
      <pre class="document diff" role="group" tabIndex={0} aria-label={t('versions.documents')}>
        {lines.map((line, index) =>
          typeof line === 'number' ? (
            <span key={index} class="faint">{`… ${t('versions.lines', { count: line })}\n`}</span>
          ) : line.kind === 'same' ? (
            <span key={index}>
              {'  '}
              <Marks text={line.text} />
              {'\n'}
            </span>
          ) : line.kind === 'added' ? (
            <ins key={index}>
              + <Marks text={line.text} />
              {'\n'}
            </ins>
          ) : (
            <del key={index}>
              - <Marks text={line.text} />
              {'\n'}
            </del>
          ),
        )}
      </pre>
    </details>
  );
}
