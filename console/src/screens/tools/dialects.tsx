/** Dialects: what each protocol can say of the tool, what is lost, and the document on demand. */

import { useState } from 'preact/hooks';
import type { Resource } from '../../api/resource';
import type { ToolDetail, ToolLosses } from '../../api/types';
import { Chip } from '../../ui/basics';
import { Icon } from '../../ui/icon';
import { Marks } from '../../ui/marks';
import { Loaded } from '../../ui/states';
import { t } from '../../words/messages';
import { DialectDocument, isListed } from './definition';
import '../../words/en/dialects';
import '../../words/en/tools';

export function DialectsTab({ tool, losses }: { tool: ToolDetail; losses: Resource<ToolLosses> }) {
  return (
    <section class="card" aria-label={t('tools.tabs.dialects')}>
      <p class="in hint">{t('dialects.why')}</p>
      <Loaded of={losses} rows={10}>
        {({ dialects }) => (
          <ul class="dialects">
            {dialects.map((row) => (
              <DialectRow key={row.dialect} tool={tool} row={row} />
            ))}
          </ul>
        )}
      </Loaded>
    </section>
  );
}

function DialectRow({ tool, row }: { tool: ToolDetail; row: ToolLosses['dialects'][number] }) {
  const [open, setOpen] = useState(false);
  const canSay = row.refused === null && isListed(tool);
  return (
    <li>
      <div class="row">
        <strong class="mono">{row.dialect}</strong>
        {row.refused !== null ? (
          <Chip tone="failed">{t('dialects.refused')}</Chip>
        ) : row.exact ? (
          <Chip tone="ok" icon="check">
            {t('dialects.exact')}
          </Chip>
        ) : (
          <Chip tone="refused">{t('dialects.losses', { count: row.losses.length })}</Chip>
        )}
        {canSay && (
          <button
            type="button"
            class="button bare low push"
            aria-expanded={open}
            aria-label={`${t(open ? 'dialects.hide' : 'dialects.show')}: ${row.dialect}`}
            onClick={() => setOpen(!open)}
          >
            <Icon name={open ? 'up' : 'down'} />
            {t(open ? 'dialects.hide' : 'dialects.show')}
          </button>
        )}
      </div>
      {(row.refused ?? []).map((reason) => (
        <p key={reason} class="small soft">
          <Marks text={reason} cut={500} />
        </p>
      ))}
      {row.losses.length > 0 && (
        <table class="losses">
          <thead class="sr">
            <tr>
              <th scope="col">{t('dialects.path')}</th>
              <th scope="col">{t('dialects.reason')}</th>
            </tr>
          </thead>
          <tbody>
            {row.losses.map((loss, index) => (
              <tr key={index}>
                <td class="mono tiny anywhere">
                  <Marks text={loss.path || '/'} cut={200} />
                </td>
                <td class="small soft">
                  <Marks text={loss.reason} cut={500} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {open && <DialectDocument tool={tool} dialect={row.dialect} />}
    </li>
  );
}
