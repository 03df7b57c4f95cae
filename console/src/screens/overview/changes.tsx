/** What changed lately: events of tools, newest first. */

import type { ToolEvent } from '../../api/types';
import { href } from '../../app/router';
import { Time } from '../../ui/basics';
import { Marks } from '../../ui/marks';
import { EmptyState } from '../../ui/states';
import { hasMessage, rich, t } from '../../words/messages';
import '../../words/en/overview';

export function Changes({ events }: { events: ToolEvent[] }) {
  return (
    <section class="card">
      <header>
        <h2>{t('overview.changed')}</h2>
      </header>
      {events.length ? (
        <ol class="recent in">
          {events.map((each) => (
            <li key={`${each.at} ${each.id} ${each.what}`}>
              <span class="faint tiny nowrap">
                <Time at={each.at} />
              </span>
              <span class="anywhere">
                {rich('overview.change', {
                  what: <WhatWord what={each.what} />,
                  who: (
                    <strong>
                      <Marks text={each.by} cut={40} />
                    </strong>
                  ),
                  tool: (
                    <a href={href(['tools', each.id])}>
                      <Marks text={each.id} cut={80} />
                    </a>
                  ),
                })}
              </span>
            </li>
          ))}
        </ol>
      ) : (
        <EmptyState icon="history">{t('overview.changedNothing')}</EmptyState>
      )}
    </section>
  );
}

/** What happened to a tool, in a word. */
export function WhatWord({ what }: { what: string }) {
  const key = `overview.changes.${what.replaceAll(' ', '_')}`;
  return <span>{hasMessage(key) ? t(key) : <Marks text={what} cut={80} />}</span>;
}
