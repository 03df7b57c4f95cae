/** Approvals: calls that wait for a person, the one that ends first in front, and what was decided today. */

import { useEffect } from 'preact/hooks';
import { useResource } from '../../api/resource';
import type { Approval } from '../../api/types';
import { href, navigate, query } from '../../app/router';
import type { ScreenProps } from '../../app/sections';
import { Effect, LevelMeter } from '../../ui/basics';
import { Marks } from '../../ui/marks';
import { EmptyState, Loaded, PageHead } from '../../ui/states';
import { type Column, DataTable } from '../../ui/table';
import { TabLinks } from '../../ui/tabs';
import { TimeLeft } from '../../ui/timer';
import { t } from '../../words/messages';
import { ApprovalCard, Decision } from './approval-card';
import '../../words/en/approvals';

interface Answer {
  approvals: Approval[];
}

export function ApprovalsScreen({ path }: ScreenProps) {
  const decided = query('show') === 'decided';
  const list = useResource<Answer>('api/approvals', {
    query: { state: decided ? 'decided' : null },
    topics: ['approvals'],
    every: 30,
  });
  const approvals = sorted(list.data?.approvals ?? [], decided);
  const chosen = approvals.find((each) => each.id === path[0]);
  const address = (id: string) => href(['approvals', id], { show: decided ? 'decided' : null });
  const first = approvals[0]?.id;
  // The inbox opens the one that ends first, so that one decision follows the other.
  useEffect(() => {
    if (!decided && path[0] === undefined && first !== undefined) navigate(address(first), true);
  }, [decided, path[0], first]);
  return (
    <>
      <PageHead title={t('titles.approvals')}>{t('approvals.about')}</PageHead>
      <TabLinks
        label={t('approvals.which')}
        current={decided ? 'decided' : 'waiting'}
        tabs={[
          { id: 'waiting', title: t('approvals.waiting'), href: href(['approvals']) },
          { id: 'decided', title: t('approvals.decided'), href: href(['approvals'], { show: 'decided' }) },
        ]}
      />
      <div class="split inbox">
        <section class="card" aria-label={decided ? t('approvals.decided') : t('approvals.waiting')}>
          <Loaded
            of={list}
            scope="approve"
            empty={{
              when: (data) => data.approvals.length === 0,
              show: (
                <EmptyState icon="approval">
                  {decided ? t('approvals.noneDecided') : t('approvals.noneWait')}
                </EmptyState>
              ),
            }}
          >
            {() => (
              <DataTable
                label={decided ? t('approvals.decided') : t('approvals.waiting')}
                columns={columns(decided, address)}
                rows={approvals}
                rowKey={(approval) => approval.id}
                chosen={path[0]}
                onChoose={(approval) => navigate(address(approval.id), true)}
                twoLine
              />
            )}
          </Loaded>
        </section>
        <ApprovalCard id={path[0]} listed={chosen} isLoaded={list.data !== undefined} onDecided={list.reload} />
      </div>
    </>
  );
}

const sorted = (approvals: Approval[], decided: boolean): Approval[] =>
  [...approvals].sort((one, other) =>
    decided
      ? (other.decidedAt ?? other.expiresAt).localeCompare(one.decidedAt ?? one.expiresAt)
      : one.expiresAt.localeCompare(other.expiresAt),
  );

const columns = (decided: boolean, address: (id: string) => string): Column<Approval>[] => [
  {
    id: 'tool',
    head: t('approvals.tool'),
    cell: (approval) => (
      <a href={address(approval.id)}>
        <Marks text={approval.tool} />
      </a>
    ),
  },
  { id: 'caller', head: t('approvals.caller'), class: 'second', cell: (approval) => <Marks text={approval.caller} /> },
  {
    id: 'effect',
    head: t('approvals.effect'),
    class: 'optional',
    cell: (approval) => <Effect effect={approval.effect as 'reads' | 'writes' | 'destroys' | null} />,
  },
  {
    id: 'level',
    head: t('approvals.level'),
    class: 'optional',
    cell: (approval) => <LevelMeter level={approval.level} short />,
  },
  decided
    ? {
        id: 'decision',
        head: t('approvals.decision'),
        class: 'last',
        cell: (approval) => <Decision approval={approval} />,
      }
    : {
        id: 'left',
        head: t('approvals.left'),
        class: 'last',
        cell: (approval) => <TimeLeft from={approval.createdAt} to={approval.expiresAt} plain />,
      },
];
