/** Health: the hall and its parts, the audit, and what the hall runs on. */

import type { ComponentChild } from 'preact';
import { me } from '../../api/me';
import { useResource } from '../../api/resource';
import type { AuditState, Health, Settings } from '../../api/types';
import { href } from '../../app/router';
import type { ScreenProps } from '../../app/sections';
import { Chip, Facts, Processes, Time, type Tone } from '../../ui/basics';
import type { IconName } from '../../ui/icon';
import { Marks } from '../../ui/marks';
import { EmptyState, Loaded, PageHead } from '../../ui/states';
import { type Column, DataTable } from '../../ui/table';
import { bytes, number, percent, span } from '../../words/format';
import { hasMessage, type MessageKey, t } from '../../words/messages';
import '../../words/en/health';

const STATES: Record<string, [Tone, IconName]> = {
  healthy: ['ok', 'check'],
  degraded: ['refused', 'warning'],
  unhealthy: ['failed', 'cross'],
};

/** `healthy`, `degraded` or `unhealthy`, in words. */
export function HealthChip({ state }: { state: string }) {
  const [tone, icon] = STATES[state] ?? ['plain', 'info'];
  const key = `health.${state}`;
  return (
    <Chip tone={tone} icon={icon}>
      {hasMessage(key) ? t(key) : state}
    </Chip>
  );
}

export function HealthScreen(_: ScreenProps) {
  const health = useResource<Health>('health', { topics: ['health', 'servers', 'tools'], every: 15 });
  return (
    <>
      <PageHead
        title={t('titles.health')}
        actions={me.value && <Processes of={{ running: me.value.processes.running, seen: 1 }} />}
      >
        {t('health.about')}
      </PageHead>
      <div class="columns">
        <section class="card" aria-labelledby="hall">
          <header>
            <h2 id="hall">{t('health.hall')}</h2>
          </header>
          <div class="in">
            <Loaded of={health}>{(data) => <Facts facts={hallFacts(data)} />}</Loaded>
          </div>
        </section>
        <AuditCard />
      </div>
      <section class="card" aria-labelledby="parts">
        <header>
          <h2 id="parts">{t('health.toolkits')}</h2>
        </header>
        <Loaded
          of={health}
          empty={{
            when: (data) => Object.keys(data.components?.tools ?? {}).length === 0,
            show: <EmptyState icon="tool">{t('health.noToolkits')}</EmptyState>,
          }}
        >
          {(data) => (
            <DataTable
              label={t('health.toolkits')}
              columns={toolkitColumns()}
              rows={Object.entries(data.components?.tools ?? {})}
              rowKey={([name]) => name}
            />
          )}
        </Loaded>
      </section>
      <MachineCard />
    </>
  );
}

const hallFacts = (health: Health): [string, ComponentChild][] => [
  [t('health.state'), <HealthChip key="state" state={health.status} />],
  [t('health.core'), health.components && <HealthChip key="core" state={health.components.core} />],
  [
    t('health.uptime'),
    <span key="uptime" class="num">
      {span(health.uptime)}
    </span>,
  ],
  [t('health.tools'), health.tools === undefined ? null : number(health.tools)],
];

const toolkitColumns = (): Column<[string, string]>[] => [
  {
    id: 'name',
    head: t('health.toolkit'),
    cell: ([name]) => (
      <a href={href(['tools'], { toolkit: name })}>
        <Marks text={name} />
      </a>
    ),
  },
  { id: 'state', head: t('health.state'), class: 'end', cell: ([, state]) => <HealthChip state={state} /> },
];

function AuditCard() {
  const audit = useResource<AuditState>('api/audit/state', { topics: ['audit', 'health'] });
  return (
    <section class="card" aria-labelledby="audit">
      <header>
        <h2 id="audit">{t('health.audit')}</h2>
        <a class="push" href={href(['calls'])}>
          {t('health.toCalls')}
        </a>
      </header>
      <div class="in">
        <Loaded of={audit}>{(data) => <Facts facts={auditFacts(data)} />}</Loaded>
      </div>
    </section>
  );
}

function auditFacts(audit: AuditState): [string, ComponentChild][] {
  const records = audit.logs.reduce((sum, log) => sum + log.records, 0);
  const state = audit.failing ? 'unhealthy' : audit.behind ? 'degraded' : 'healthy';
  const verified = audit.verified && (
    <>
      <Time at={audit.verified.at} />{' '}
      {audit.verified.problem ? <Marks text={audit.verified.problem} /> : t('health.chainHolds')}
    </>
  );
  return [
    [t('health.state'), <HealthChip key="state" state={state} />],
    [t('health.records'), t('health.inLogs', { records: number(records), count: audit.logs.length })],
    [t('health.checkpoint'), <Time key="checkpoint" at={audit.lastCheckpointAt} />],
    [t('health.verified'), verified ?? t('shared.never')],
  ];
}

function MachineCard() {
  const settings = useResource<Settings>('api/settings', { every: 60 });
  return (
    <section class="card" aria-labelledby="machine">
      <header>
        <h2 id="machine">{t('health.machine')}</h2>
        <a class="push" href={href(['settings'])}>
          {t('titles.settings')}
        </a>
      </header>
      <div class="in">
        <Loaded of={settings}>{(data) => <Facts facts={machineFacts(data)} />}</Loaded>
      </div>
    </section>
  );
}

function machineFacts({ data, disk, versions, startedAt, process, workers }: Settings): [string, ComponentChild][] {
  const free =
    disk && t('health.diskFree', { free: bytes(disk.freeBytes), share: percent(disk.freeBytes / disk.totalBytes, 0) });
  return [
    [t('health.started'), <Time key="started" at={startedAt} as="dateTime" />],
    [t('health.process'), t('health.processOf', { process: String(process), count: workers })],
    [
      t('health.store'),
      data === null ? (
        t('health.inMemory')
      ) : (
        <code key="data">
          <Marks text={data} />
        </code>
      ),
    ],
    [t('health.disk'), free],
    ...Object.entries(versions).map(([name, version]): [string, ComponentChild] => [
      hasMessage(`health.versions.${name}`) ? t(`health.versions.${name}` as MessageKey) : name,
      <Marks key={name} text={version} />,
    ]),
  ];
}
