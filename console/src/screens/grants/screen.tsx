/** Grants: the rules of who may call what, as a list, as a matrix of callers and tools, and as an answer to why. */

import { mayManage } from '../../api/me';
import { useResource } from '../../api/resource';
import type { Grant } from '../../api/types';
import { href } from '../../app/router';
import type { ScreenProps } from '../../app/sections';
import { PageHead } from '../../ui/states';
import { TabLinks } from '../../ui/tabs';
import { t } from '../../words/messages';
import { AccessMatrix } from './access-matrix';
import { DraftGrant } from './draft-grant';
import { GrantList } from './grant-list';
import { WhyPanel } from './why-panel';
import '../../words/en/grants';

export function GrantsScreen({ path }: ScreenProps) {
  const grants = useResource<{ grants: Grant[] }>('api/grants');
  const tab = path[0] ?? 'list';
  return (
    <>
      <PageHead
        title={t('titles.grants')}
        actions={
          mayManage() &&
          tab !== 'new' && (
            <a class="button main" href={href(['grants', 'new'])}>
              {t('grants.add')}
            </a>
          )
        }
      >
        {t('grants.about')}
      </PageHead>
      <TabLinks
        label={t('grants.views')}
        current={tab}
        tabs={[
          { id: 'list', title: t('grants.list'), href: href(['grants']) },
          { id: 'matrix', title: t('grants.matrix'), href: href(['grants', 'matrix']) },
          { id: 'why', title: t('grants.why'), href: href(['grants', 'why']) },
        ]}
      />
      {tab === 'matrix' ? (
        <AccessMatrix />
      ) : tab === 'why' ? (
        <WhyPanel />
      ) : tab === 'new' && mayManage() ? (
        <DraftGrant onAdded={grants.reload} />
      ) : (
        <GrantList grants={grants} />
      )}
    </>
  );
}
