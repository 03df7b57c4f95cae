/** `AuditFoot`: the state of the chain below the list of calls, and its verification with progress. */

import { useState } from 'preact/hooks';
import { hall } from '../../api/client';
import { useEvents } from '../../api/events';
import { mayManage } from '../../api/me';
import { useResource } from '../../api/resource';
import type { AuditState } from '../../api/types';
import { Chip, Time } from '../../ui/basics';
import { useAction } from '../../ui/dialog';
import { Marks } from '../../ui/marks';
import { Said } from '../../ui/states';
import { number } from '../../words/format';
import { rich, t } from '../../words/messages';
import '../../words/en/calls';

export function AuditFoot() {
  const audit = useResource<AuditState>('api/audit/state', { topics: ['health'], every: 30 });
  const [progress, setProgress] = useState<{ verified: number; total: number } | null>(null);
  useEvents(['audit'], (event) => {
    if (event.topic !== 'audit') return;
    setProgress(event.done ? null : event);
    if (event.done) void audit.reload();
  });
  const verify = useAction(async () => {
    const state = await hall.post<AuditState>('api/audit/verify');
    setProgress(state.verifying);
    audit.set(state);
  });
  const state = audit.data;
  if (!state) return null;
  const running = progress ?? state.verifying;
  return (
    <footer>
      <span class={`dot ${state.failing ? 'failed' : state.behind ? 'refused' : 'ok'}`} />
      <span>
        {state.failing
          ? t('calls.failing')
          : state.behind
            ? t('calls.behind')
            : t('calls.chain', { count: recordsOf(state) })}
      </span>
      {state.lastCheckpointAt && (
        <span>{rich('calls.checkpoint', { time: <Time at={state.lastCheckpointAt} /> })}</span>
      )}
      {running ? (
        <span role="status">
          <progress value={running.verified} max={Math.max(1, running.total)} aria-label={t('calls.verifying')} />{' '}
          {t('calls.progress', { verified: number(running.verified), total: number(running.total) })}
        </span>
      ) : (
        state.verified && (
          <span role="status">
            {state.verified.problem ? (
              <Chip tone="failed" icon="warning">
                <Marks text={state.verified.problem} />
              </Chip>
            ) : (
              rich('calls.verified', { time: <Time at={state.verified.at} />, count: state.verified.records })
            )}
          </span>
        )
      )}
      {verify.error && (
        <span class="wrong" role="alert">
          <Said error={verify.error} />
        </span>
      )}
      {mayManage() && (
        <button type="button" class="button low push" disabled={verify.busy || running !== null} onClick={verify.run}>
          {t('calls.verifyAll')}
        </button>
      )}
    </footer>
  );
}

const recordsOf = (state: AuditState): number => state.logs.reduce((sum, each) => sum + each.records, 0);
