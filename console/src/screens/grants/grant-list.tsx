/** `GrantList`: every grant with its conditions and the calls that it decided. */

import { useState } from 'preact/hooks';
import { hall, segments } from '../../api/client';
import { mayManage } from '../../api/me';
import type { Resource } from '../../api/resource';
import type { Grant } from '../../api/types';
import { href, query } from '../../app/router';
import { needsProof, ProofDialog } from '../../app/session';
import { Chip, Time } from '../../ui/basics';
import { Ask } from '../../ui/dialog';
import { Marks } from '../../ui/marks';
import { EmptyState, Loaded } from '../../ui/states';
import { type Column, DataTable } from '../../ui/table';
import { number } from '../../words/format';
import { t } from '../../words/messages';
import '../../words/en/grants';
import '../../words/en/secrets';

export function GrantList({ grants }: { grants: Resource<{ grants: Grant[] }> }) {
  const [removing, setRemoving] = useState<Grant | null>(null);
  const [proving, setProving] = useState<Grant | null>(null);
  const remove = async (grant: Grant) => {
    await hall.delete(segments('api/grants', grant.id));
    await grants.reload();
  };
  return (
    <section class="card" aria-label={t('grants.list')}>
      <Loaded
        of={grants}
        rows={6}
        empty={{
          when: (data) => data.grants.length === 0,
          show: <EmptyState icon="grant">{t('grants.none')}</EmptyState>,
        }}
      >
        {(data) => (
          <DataTable
            label={t('grants.list')}
            columns={columns(setRemoving)}
            rows={data.grants}
            rowKey={(grant) => grant.id}
            chosen={query('grant') || undefined}
            twoLine
          />
        )}
      </Loaded>
      {removing && (
        <Ask
          title={t('grants.removeTitle', { id: removing.id })}
          verb={t('shared.remove')}
          danger
          act={async () => {
            try {
              await remove(removing);
            } catch (error) {
              if (!needsProof(error)) throw error;
              setProving(removing);
            }
          }}
          onClose={() => setRemoving(null)}
        >
          <p>{t(removing.effect === 'permit' ? 'grants.removePermit' : 'grants.removeForbid')}</p>
        </Ask>
      )}
      {proving && (
        <ProofDialog
          onProven={() => {
            setProving(null);
            setRemoving(proving);
          }}
          onClose={() => setProving(null)}
        />
      )}
    </section>
  );
}

const columns = (remove: (grant: Grant) => void): Column<Grant>[] => [
  {
    id: 'effect',
    head: t('grants.effect'),
    cell: (grant) =>
      grant.effect === 'permit' ? (
        <Chip tone="ok" icon="check">
          {t('grants.permits')}
        </Chip>
      ) : (
        <Chip tone="failed" icon="cross">
          {t('grants.forbids')}
        </Chip>
      ),
  },
  { id: 'callers', head: t('grants.callers'), class: 'last', cell: (grant) => <Glob text={grant.callers} /> },
  { id: 'tools', head: t('grants.tools'), class: 'second', cell: (grant) => <Glob text={grant.tools} /> },
  { id: 'conditions', head: t('grants.conditions'), class: 'third', cell: (grant) => <Conditions of={grant} /> },
  {
    id: 'calls',
    head: t('grants.calls'),
    class: 'optional end num',
    cell: (grant) =>
      grant.calls === undefined ? '–' : <a href={href(['calls'], { grant: grant.id })}>{number(grant.calls)}</a>,
  },
  {
    id: 'by',
    head: t('grants.by'),
    class: 'optional',
    cell: (grant) => (
      <>
        <Marks text={grant.by} />{' '}
        <span class="faint tiny">
          <Time at={grant.createdAt} as="day" />
        </span>
      </>
    ),
  },
  { id: 'id', head: t('grants.id'), class: 'optional', cell: (grant) => <code class="tiny">{grant.id}</code> },
  {
    id: 'actions',
    head: <span class="sr">{t('secrets.actions')}</span>,
    class: 'end fourth',
    cell: (grant) =>
      mayManage() && (
        <button
          type="button"
          class="button low danger"
          aria-label={t('grants.removeOf', { id: grant.id })}
          onClick={() => remove(grant)}
        >
          {t('shared.remove')}
        </button>
      ),
  },
];

function Glob({ text }: { text: string }) {
  return (
    <code class="anywhere">
      <Marks text={text} cut={160} />
    </code>
  );
}

/** The conditions of a grant on arguments. */
export function Conditions({ of }: { of: Pick<Grant, 'conditions'> }) {
  if (of.conditions.length === 0) return <span class="faint optional">{t('grants.unconditional')}</span>;
  return (
    <ul class="plain-list tiny">
      {of.conditions.map((each) => (
        <li key={each.path}>
          <code class="anywhere">
            <Marks text={`${each.path} = ${each.oneOf.map((value) => JSON.stringify(value)).join(' | ')}`} cut={200} />
          </code>
        </li>
      ))}
    </ul>
  );
}
