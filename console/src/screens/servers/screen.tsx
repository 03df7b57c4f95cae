/** Tool servers: processes that run tools for this hall, their replicas, and how to start another one. */

import { useState } from 'preact/hooks';
import { hall, segments } from '../../api/client';
import { mayManage, me } from '../../api/me';
import { useResource } from '../../api/resource';
import type { ToolServerRow } from '../../api/types';
import { href, navigate } from '../../app/router';
import type { ScreenProps } from '../../app/sections';
import { Chip, CopyButton, Facts, Note, Time, type Tone } from '../../ui/basics';
import { Ask } from '../../ui/dialog';
import { Icon } from '../../ui/icon';
import { Marks } from '../../ui/marks';
import { EmptyState, Loaded, PageHead } from '../../ui/states';
import { type Column, DataTable } from '../../ui/table';
import { number } from '../../words/format';
import { hasMessage, t } from '../../words/messages';
import { HealthChip } from '../health/screen';
import '../../words/en/servers';

type Replica = ToolServerRow['replicas'][number];
type Change = { what: 'drain' | 'forget'; server: ToolServerRow };

export function ServersScreen({ path }: ScreenProps) {
  const servers = useResource<{ servers: ToolServerRow[] }>('api/servers', { topics: ['servers'], every: 15 });
  const [change, setChange] = useState<Change | null>(null);
  const chosen = path[0];
  return (
    <>
      <PageHead title={t('titles.servers')}>{t('servers.about')}</PageHead>
      <section class="card" aria-label={t('titles.servers')}>
        <Loaded
          of={servers}
          empty={{
            when: (data) => data.servers.length === 0,
            show: <EmptyState icon="server">{t('servers.empty')}</EmptyState>,
          }}
        >
          {(data) => (
            <DataTable
              label={t('titles.servers')}
              columns={columns()}
              rows={data.servers}
              rowKey={(server) => server.name}
              chosen={chosen}
              onChoose={(server) => navigate(href(['servers', server.name]), true)}
              twoLine
            />
          )}
        </Loaded>
      </section>
      {servers.data?.servers
        .filter((server) => server.name === chosen)
        .map((server) => (
          <ServerCard key={server.name} server={server} onChange={(what) => setChange({ what, server })} />
        ))}
      <JoinCard />
      {change && (
        <ChangeDialog
          change={change}
          onClose={() => setChange(null)}
          onDone={async () => {
            if (change.what === 'forget') navigate(href(['servers']), true);
            await servers.reload();
          }}
        />
      )}
    </>
  );
}

const STATES: Record<string, string> = { gone: 'unhealthy' };

const columns = (): Column<ToolServerRow>[] => [
  {
    id: 'name',
    head: t('servers.name'),
    cell: (server) => (
      <a href={href(['servers', server.name])}>
        <Marks text={server.name} />
      </a>
    ),
  },
  {
    id: 'state',
    head: t('servers.state'),
    class: 'last',
    cell: (server) =>
      server.state in STATES ? (
        <Chip tone="failed" icon="cross">
          {t('servers.gone')}
        </Chip>
      ) : (
        <HealthChip state={server.state} />
      ),
  },
  { id: 'caller', head: t('servers.caller'), class: 'second', cell: (server) => <Marks text={server.caller} /> },
  {
    id: 'toolkits',
    head: t('servers.toolkits'),
    class: 'optional',
    cell: (server) => <Marks text={server.toolkits.join(', ')} cut={120} />,
  },
  {
    id: 'replicas',
    head: t('servers.replicas'),
    class: 'end optional',
    cell: (server) => <span class="num">{number(server.replicas.length)}</span>,
  },
  {
    id: 'running',
    head: t('servers.running'),
    class: 'end optional',
    cell: (server) => (
      <span class="num">{number(server.replicas.reduce((sum, each) => sum + each.callsInFlight, 0))}</span>
    ),
  },
];

function ServerCard({ server, onChange }: { server: ToolServerRow; onChange: (what: Change['what']) => void }) {
  const drains = server.replicas.some((each) => !each.draining);
  return (
    <section class="card" aria-labelledby="server">
      <header>
        <h2 id="server">
          <Marks text={server.name} />
        </h2>
        <a class="push" href={href(['calls'], { server: server.name })}>
          {t('servers.itsCalls')}
        </a>
        {mayManage() && (
          <>
            {drains && (
              <button type="button" class="button low" onClick={() => onChange('drain')}>
                {t('servers.drain')}
              </button>
            )}
            <button type="button" class="button low danger" onClick={() => onChange('forget')}>
              {t('servers.forget')}
            </button>
          </>
        )}
      </header>
      <div class="in stack">
        {server.replicas.length === 0 && <p class="soft">{t('servers.noReplica')}</p>}
        <div class="replicas">
          {server.replicas.map((replica) => (
            <section key={replica.id} class="stack tight">
              <h3 class="row">
                <code>
                  <Marks text={replica.id} />
                </code>
                <ReplicaChip replica={replica} />
              </h3>
              <Facts facts={replicaFacts(replica)} />
            </section>
          ))}
        </div>
      </div>
    </section>
  );
}

const REPLICA_TONES: Record<string, Tone> = { healthy: 'ok', degraded: 'refused', unhealthy: 'failed' };

function ReplicaChip({ replica }: { replica: Replica }) {
  const key = `servers.states.${replica.state}`;
  return (
    <>
      <Chip tone={REPLICA_TONES[replica.state] ?? 'plain'}>{hasMessage(key) ? t(key) : replica.state}</Chip>
      {replica.draining && <Chip tone="busy">{t('servers.draining')}</Chip>}
    </>
  );
}

const replicaFacts = (replica: Replica) =>
  [
    [t('servers.since'), <Time key="since" at={replica.since} />],
    [t('servers.version'), replica.version && <Marks text={replica.version} />],
    [t('servers.lease'), replica.leaseEndsAt && <Time key="lease" at={replica.leaseEndsAt} />],
    [t('servers.inFlight'), number(replica.callsInFlight)],
    [t('servers.probe'), <ProbeTime key="probe" replica={replica} />],
    [t('servers.breaker'), t(`servers.breakers.${replica.breaker}`)],
    [
      t('servers.transport'),
      <>
        {t(`servers.transports.${replica.transport}`)} {replica.address && <Marks text={replica.address} />}
      </>,
    ],
  ] as const;

function ProbeTime({ replica }: { replica: Replica }) {
  if (replica.lastProbeAt === null) return <>{t('servers.noProbe')}</>;
  return (
    <>
      <Time at={replica.lastProbeAt} /> {replica.lastProbeOk ? t('servers.probeOk') : t('servers.probeFailed')}
    </>
  );
}

interface ChangeProps {
  change: Change;
  onClose: () => void;
  onDone: () => Promise<void>;
}

function ChangeDialog({ change: { what, server }, onClose, onDone }: ChangeProps) {
  return (
    <Ask
      title={t(`servers.${what}Title`, { name: server.name })}
      verb={t(`servers.${what}`)}
      danger={what === 'forget'}
      act={async () => {
        const path = segments('api/servers', server.name);
        await (what === 'drain' ? hall.post(`${path}/drain`) : hall.delete(path));
        await onDone();
      }}
      onClose={onClose}
    >
      <p>{t(`servers.${what}Why`)}</p>
    </Ask>
  );
}

/** How to start a tool server for this hall, with a fresh key where the hall wants one. */
function JoinCard() {
  const [secret, setSecret] = useState<string | null>(null);
  const [asking, setAsking] = useState(false);
  const address = (me.value?.publicUrl ?? new URL('../', location.href).href).replace(/\/$/, '');
  const needsKey = me.value?.profile === 'server';
  const command = `${needsKey ? 'TOOLHALL_KEY="$TOOLHALL_KEY" ' : ''}toolhall serve my_tools.py --join ${address}`;
  return (
    <section class="card" aria-labelledby="join">
      <header>
        <h2 id="join">{t('servers.join')}</h2>
      </header>
      <div class="in stack">
        <p>{t('servers.joinWhy')}</p>
        <div class="copyable">
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls can be reached by keyboard */}
          <pre tabIndex={0}>{command}</pre>
          <CopyButton text={command} label={t('shared.copy')} />
        </div>
        {needsKey && mayManage() && secret === null && (
          <div class="row">
            <button type="button" class="button" onClick={() => setAsking(true)}>
              <Icon name="key" />
              {t('servers.makeKey')}
            </button>
          </div>
        )}
        {secret !== null && (
          <Note tone="info" live>
            <p>{t('servers.keyOnce')}</p>
            <code class="anywhere">{secret}</code> <CopyButton text={secret} />
          </Note>
        )}
      </div>
      {asking && (
        <Ask
          title={t('servers.makeKey')}
          verb={t('servers.makeKeyNow')}
          act={async () => {
            const name = `tool-server-${Date.now().toString(36)}`;
            const key = await hall.post<{ secret: string }>('api/keys', { name, scopes: ['serve:*'], expires: '90d' });
            setSecret(key.secret);
          }}
          onClose={() => setAsking(false)}
        >
          <p>{t('servers.makeKeyWhy')}</p>
        </Ask>
      )}
    </section>
  );
}
