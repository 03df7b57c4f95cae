/** `CallCard`: one call: why it ended so, where the time went, its facts and where they lead. */

import type { ComponentChild } from 'preact';
import { segments } from '../../api/client';
import { mayLook } from '../../api/me';
import { useResource } from '../../api/resource';
import type { AuditRecord, CallDetail, Stage } from '../../api/types';
import { traceAddress } from '../../app/preferences';
import { href } from '../../app/router';
import { CopyButton, Effect, Facts, LevelMeter, Outcome, Time } from '../../ui/basics';
import { Icon } from '../../ui/icon';
import { Marks } from '../../ui/marks';
import { StageWaterfall } from '../../ui/stages';
import { EmptyState, Loaded } from '../../ui/states';
import { bytes, duration, number } from '../../words/format';
import { hasMessage, type MessageKey, rich, t } from '../../words/messages';
import '../../words/en/calls';

export function CallCard({ id }: { id: string }) {
  const call = useResource<CallDetail>(segments('api/calls', id), {
    topics: ['calls', 'approvals'],
    matters: (event) => (event.topic === 'calls' ? 'record' in event && event.record.call === id : true),
  });
  if (call.error?.status === 404) {
    return <EmptyState icon="calls">{t('calls.dropped', { id })}</EmptyState>;
  }
  return (
    <Loaded of={call} rows={10}>
      {(data) => <Call call={data} />}
    </Loaded>
  );
}

function Call({ call }: { call: CallDetail }) {
  const record = call.end ?? call.intent;
  if (!record) return <EmptyState icon="calls">{t('calls.dropped', { id: call.call })}</EmptyState>;
  const dialect = record.dialect.split('/')[0] ?? record.dialect;
  const trace = traceAddress(call.call);
  return (
    <>
      <header>
        <h2 id="call">{sentence(call, record)}</h2>
        <a class="button bare low push" href={backToList()} aria-label={t('calls.closeOne')}>
          <Icon name="cross" />
        </a>
      </header>
      <div class="in stack">
        <p class="row">
          <Outcome outcome={call.kind === 'running' ? 'running' : record.outcome} />
          {call.tool && <Effect effect={call.tool.effect} />}
          {record.level !== undefined && <LevelMeter level={record.level} />}
        </p>
        <section class="stack tight" aria-labelledby="stages">
          <h3 id="stages">{t('stages.title')}</h3>
          <StageWaterfall
            stages={call.stages}
            kind={call.kind}
            rule={(stage) => (mayLook() ? ruleOf(stage, call, record) : null)}
          />
          {call.end && !call.end.stagesUs && <p class="hint">{t('calls.notTimed')}</p>}
        </section>
        <Facts facts={factsOf(call, record, dialect)} />
        <div class="row">
          {call.grant && (
            <a class="button low" href={href(['grants'], { grant: call.grant.id })}>
              {t('calls.seeGrant')}
            </a>
          )}
          <a
            class="button low"
            href={href(['calls'], { tool: record.tool, caller: record.caller, outcome: record.outcome })}
          >
            {t('calls.alike')}
          </a>
          {call.tool && (
            <a class="button low" href={href(['tools', call.tool.id])}>
              {t('calls.openTool')}
            </a>
          )}
          {mayLook() && (
            <a class="button low" href={href(['callers', record.caller])}>
              {t('calls.openCaller')}
            </a>
          )}
          {call.approval && (
            <a class="button low" href={href(['approvals', call.approval.id], { show: 'decided' })}>
              {t('calls.seeApproval')}
            </a>
          )}
          {trace !== null && (
            <a class="button low" href={trace} rel="noreferrer" target="_blank">
              <Icon name="open" />
              {t('calls.trace')}
            </a>
          )}
          <CopyButton
            text={() => JSON.stringify([call.intent, call.end].filter(Boolean), null, 2)}
            label={t('calls.copy')}
          />
        </div>
      </div>
    </>
  );
}

/** The tool of a call. A caller's own record has no name of one that does not exist for it. */
export function ToolName({ of }: { of: AuditRecord }) {
  return of.tool ? <Marks text={of.tool} cut={96} /> : <span>{t('calls.unknownTool')}</span>;
}

/** Where the rule is that a stage applied, and its words. */
function ruleOf(stage: Stage, { tool, grant, approval }: CallDetail, record: AuditRecord): [string, string] | null {
  const why = href(['grants', 'why'], { caller: record.caller, tool: record.tool });
  const denied = grant ? href(['grants'], { grant: grant.id }) : why;
  const ofTool = (tab: string) => (tool ? href(['tools', tool.id, tab]) : href(['tools'], { query: record.tool }));
  const asks = approval ? href(['approvals', approval.id], { show: 'decided' }) : href(['approvals']);
  switch (stage) {
    case 'find':
      return [href(['tools']), t('calls.rules.find')];
    case 'authorize':
      return [denied, grant ? t('calls.seeGrant') : t('calls.rules.authorize')];
    case 'limit':
      return [href(['limits']), t('calls.rules.limit')];
    case 'verify':
      if (record.outcome === 'Denied') return [denied, grant ? t('calls.seeGrant') : t('calls.rules.authorize')];
      return [asks, t('calls.rules.verify')];
    case 'equip':
      return [href(['secrets']), t('calls.rules.equip')];
    case 'audit':
      return [href(['health']), t('calls.rules.audit')];
    case 'run':
      return record.server === undefined
        ? [ofTool('try'), t('calls.rules.run')]
        : [href(['servers', record.server]), t('calls.rules.server')];
    default:
      return [ofTool('definition'), t('calls.rules.validate')];
  }
}

// The list keeps its filter, which is the query of this address.
function backToList(): string {
  const query = location.hash.split('?')[1];
  return `#/calls${query ? `?${query}` : ''}`;
}

/** What happened, in one sentence; the stage that stopped it says why. */
function sentence(call: CallDetail, record: AuditRecord): ComponentChild {
  const stopped = call.stages.find((each) => each.state === 'stopped')?.stage;
  const key = `calls.sentences.${sentenceName(call, record, stopped)}`;
  const known: MessageKey = hasMessage(key) ? key : 'calls.sentences.ok';
  return rich(known, {
    caller: <Marks text={record.caller} cut={64} />,
    tool: <ToolName of={record} />,
    time: record.durationUs === undefined ? '' : duration(record.durationUs),
  });
}

function sentenceName({ kind }: CallDetail, record: AuditRecord, stopped: Stage | undefined): string {
  if (record.dialect.endsWith('/management')) return kind === 'ok' ? 'change' : 'changeRefused';
  if (stopped === 'verify' && record.outcome === 'Denied') return 'denied';
  return stopped && kind !== 'ok' ? stopped : kind;
}

function factsOf(call: CallDetail, record: AuditRecord, dialect: string): [string, ComponentChild][] {
  const size =
    record.bytesIn === undefined
      ? ''
      : `, ${t('calls.sizes', { in: bytes(record.bytesIn), out: bytes(record.bytesOut ?? 0) })}`;
  const code = (text: string | undefined) => text && <code class="tiny anywhere">{text}</code>;
  return [
    [t('calls.when'), <Time key="when" at={record.at} as="exact" />],
    [t('calls.took'), record.durationUs === undefined ? null : <span class="num">{duration(record.durationUs)}</span>],
    [t('calls.caller'), <Marks key="caller" text={record.caller} />],
    [t('calls.person'), record.person && <Marks key="person" text={record.person} />],
    [t('calls.actingFor'), record.actingFor && <Marks key="for" text={record.actingFor} />],
    [
      t('calls.by'),
      <>
        <Marks text={dialect === 'openapi' ? 'REST' : dialect} />
        {size}
      </>,
    ],
    [t('calls.server'), record.server && <Marks key="server" text={record.server} />],
    [t('calls.verdict'), record.verdict && t(`calls.verdicts.${record.verdict}`)],
    [
      t('calls.rule'),
      record.grant && (
        <code key="rule">
          <Marks text={record.grant} />
        </code>
      ),
    ],
    [t('calls.reason'), record.reason && <Marks key="reason" text={record.reason} />],
    [
      t('calls.arguments'),
      record.argumentsSha256 && (
        <>
          {code(record.argumentsSha256)}
          <br />
          <span class="faint tiny">{t('calls.argumentsWhy')}</span>
        </>
      ),
    ],
    [t('calls.redacted'), record.redactions ? number(record.redactions) : null],
    [t('calls.id'), code(call.call)],
    [t('calls.record'), t('calls.recordOf', { number: record.number, log: record.log })],
    [
      t('calls.intent'),
      call.intent && call.end ? t('calls.recordOf', { number: call.intent.number, log: call.intent.log }) : null,
    ],
  ];
}
