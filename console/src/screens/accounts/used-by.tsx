/** `UsedBy`: the tools that need a secret or an account. */

import { href } from '../../app/router';
import { Marks } from '../../ui/marks';
import { t } from '../../words/messages';
import '../../words/en/accounts';

const MOST = 3;

export function UsedBy({ tools }: { tools: string[] }) {
  if (tools.length === 0) return <span class="faint">{t('accounts.unused')}</span>;
  return (
    <>
      {tools.slice(0, MOST).map((id, index) => (
        <span key={id} class="whole">
          <a href={href(['tools', id])}>
            <Marks text={id} />
          </a>
          {index < Math.min(tools.length, MOST) - 1 && ', '}
        </span>
      ))}
      {tools.length > MOST && <span class="faint"> {t('accounts.moreTools', { count: tools.length - MOST })}</span>}
    </>
  );
}
