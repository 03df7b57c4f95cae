/** What needs this person: cards that each lead to the place where it is done. */

import type { ComponentChild } from 'preact';
import type { Needs } from '../../api/types';
import { href } from '../../app/router';
import { Icon, type IconName } from '../../ui/icon';
import { Marks } from '../../ui/marks';
import { hour, list } from '../../words/format';
import { rich, t } from '../../words/messages';
import '../../words/en/overview';

const DAY_MS = 86_400_000;

export function NeedsYou({ needs }: { needs: Needs }) {
  const cards = [
    ...ofAudit(needs.audit),
    ...ofApprovals(needs.approvals),
    ...ofReview(needs.review),
    ...ofServers(needs.servers),
    ...ofAccounts(needs.accounts),
    ...needs.upstreams.filter((each) => each.link).map(ofUpstream),
    ...needs.deprecations.map(ofDeprecation),
  ];
  if (!cards.length) return null;
  return (
    <>
      <h2 class="sr">{t('overview.needs')}</h2>
      <ul class="needs">
        {cards.map((each) => (
          <li key={each.key}>
            <a class="card" href={each.to}>
              <span class={`badge ${each.tone}`}>
                <Icon name={each.icon} />
              </span>
              <strong>{each.title}</strong>
              <small>{each.detail}</small>
              <span class="go">
                <Icon name="next" />
              </span>
            </a>
          </li>
        ))}
      </ul>
    </>
  );
}

interface Card {
  key: string;
  tone: 'person' | 'refused' | 'failed';
  icon: IconName;
  title: ComponentChild;
  detail: ComponentChild;
  to: string;
}

function ofAudit({ failing, problem }: Needs['audit']): Card[] {
  const card = { tone: 'failed', icon: 'warning', to: href(['calls']) } as const;
  return [
    ...(failing
      ? [{ ...card, key: 'audit', title: t('overview.needsAudit'), detail: t('overview.needsAuditWhy') }]
      : []),
    ...(problem
      ? [{ ...card, key: 'chain', title: t('overview.needsChain'), detail: <Marks text={problem} cut={120} /> }]
      : []),
  ];
}

function ofApprovals({ count, firstEndsAt }: Needs['approvals']): Card[] {
  if (!firstEndsAt) return [];
  return [
    {
      key: 'approvals',
      tone: 'person',
      icon: 'approval',
      title: t('overview.needsApprovals', { count }),
      detail: t('overview.needsApprovalsWhy', { time: hour(firstEndsAt) }),
      to: href(['approvals']),
    },
  ];
}

function ofReview({ count }: Needs['review']): Card[] {
  if (!count) return [];
  return [
    {
      key: 'review',
      tone: 'refused',
      icon: 'review',
      title: t('overview.needsReview', { count }),
      detail: t('overview.needsReviewWhy'),
      to: href(['review']),
    },
  ];
}

function ofServers({ unwell }: Needs['servers']): Card[] {
  if (!unwell.length) return [];
  return [
    {
      key: 'servers',
      tone: 'failed',
      icon: 'server',
      title: t('overview.needsServers', { count: unwell.length }),
      detail: <Marks text={list(unwell)} cut={80} />,
      to: href(['servers']),
    },
  ];
}

function ofAccounts({ count, first }: Needs['accounts']): Card[] {
  if (!first) return [];
  return [
    {
      key: 'accounts',
      tone: 'failed',
      icon: 'link',
      title: t('overview.needsAccounts', { count }),
      detail: rich('overview.needsAccountsWhy', {
        user: <Marks text={first.person} cut={40} />,
        provider: <Marks text={first.providerName} cut={40} />,
      }),
      to: href(['accounts']),
    },
  ];
}

function ofUpstream({ name }: Needs['upstreams'][number]): Card {
  return {
    key: `link ${name}`,
    tone: 'person',
    icon: 'link',
    title: rich('overview.needsLink', { name: <Marks text={name} cut={40} /> }),
    detail: t('overview.needsLinkWhy'),
    to: href(['accounts']),
  };
}

function ofDeprecation({ id, sunset, callers }: Needs['deprecations'][number]): Card {
  // It ends with the end of its last day.
  const left = Date.parse(sunset) + DAY_MS - Date.now();
  const tool = <Marks text={id} cut={80} />;
  const names = <Marks text={list(callers.slice(0, 3))} cut={120} />;
  return {
    key: `ends ${id}`,
    tone: 'refused',
    icon: 'contract',
    title:
      left > 0
        ? rich('overview.needsDeprecation', { tool, count: Math.floor(left / DAY_MS) })
        : rich('overview.needsDeprecationEnded', { tool }),
    detail: callers.length
      ? rich('overview.needsDeprecationWhy', { count: callers.length, callers: names })
      : t('overview.needsDeprecationNobody'),
    to: href(['contracts']),
  };
}
