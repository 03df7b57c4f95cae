/** `ApprovalCard`: the question of one approval with the exact arguments, and below them the decision. */

import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { hall, segments } from '../../api/client';
import { me } from '../../api/me';
import type { Approval } from '../../api/types';
import { getPasskey, hasPasskeys } from '../../app/passkey';
import { href } from '../../app/router';
import { Chip, Effect, Facts, LevelMeter, Note, Time } from '../../ui/basics';
import { useAction } from '../../ui/dialog';
import { Icon } from '../../ui/icon';
import { Marks, MarksInWords } from '../../ui/marks';
import { EmptyState, ErrorState } from '../../ui/states';
import { TimeLeft } from '../../ui/timer';
import { rich, t } from '../../words/messages';
import '../../words/en/approvals';

interface CardProps {
  /** The id in the address. */
  id: string | undefined;
  /** What the list says of it now. */
  listed: Approval | undefined;
  isLoaded: boolean;
  onDecided: () => Promise<void>;
}

export function ApprovalCard({ id, listed, isLoaded, onDecided }: CardProps) {
  // What was opened stays on the screen: a question that changes or goes while it is read must say so.
  const opened = useRef<Approval | undefined>(undefined);
  const [ended, setEnded] = useState<Approval | null>(null);
  if (opened.current?.id !== id) opened.current = listed;
  opened.current ??= listed;
  useLayoutEffect(() => setEnded(null), [id]);
  const shown = ended ?? opened.current;
  if (!shown || shown.id !== id) {
    return (
      <aside class="card" aria-label={t('approvals.one')}>
        <EmptyState icon="approval">{id && isLoaded ? t('approvals.unknown') : t('approvals.choose')}</EmptyState>
      </aside>
    );
  }
  const gone = isLoaded && !listed && !ended && shown.state === 'pending';
  const changed = !!listed && listed.shownSha256 !== shown.shownSha256;
  return (
    <aside class="card question" aria-labelledby="question">
      <header>
        <h2 id="question">
          {rich(shown.actingFor ? 'approvals.questionFor' : 'approvals.question', {
            caller: <Marks text={shown.caller} />,
            tool: <Marks text={shown.tool} />,
            user: <Marks text={shown.actingFor ?? ''} />,
          })}
        </h2>
        {shown.state === 'pending' && (
          <span class="push">
            <TimeLeft from={shown.createdAt} to={shown.expiresAt} />
          </span>
        )}
      </header>
      <div class="in stack">
        <p class="row">
          <Effect effect={shown.effect as 'reads' | 'writes' | 'destroys' | null} />
          <LevelMeter level={shown.level} />
          {shown.how === 'second_person' && <Chip tone="person">{t('approvals.secondPerson')}</Chip>}
        </p>
        <section class="stack tight" aria-labelledby="arguments">
          <h3 id="arguments">{t('approvals.arguments')}</h3>
          <pre class="exact">
            <Marks text={shown.shown} />
          </pre>
          <MarksInWords texts={[shown.shown]} />
        </section>
        <Differences approval={shown} />
        {shown.state === 'pending' ? (
          <Decide
            approval={shown}
            off={gone ? 'gone' : changed ? 'changed' : null}
            onDecided={async (approval) => {
              setEnded(approval);
              await onDecided();
            }}
          />
        ) : (
          <Ended approval={shown} />
        )}
        <details>
          <summary>{t('approvals.details')}</summary>
          <Facts facts={factsOf(shown)} />
        </details>
      </div>
    </aside>
  );
}

const factsOf = (approval: Approval) =>
  [
    [t('approvals.asked'), <Time key="asked" at={approval.createdAt} />],
    [t('approvals.by'), <Marks key="by" text={approval.dialect.replace('/console', '').replace('openapi', 'REST')} />],
    [t('approvals.person'), approval.person && <Marks key="person" text={approval.person} />],
    [
      t('approvals.digest'),
      <code key="digest" class="tiny anywhere">
        {approval.shownSha256}
      </code>,
    ],
    [
      t('approvals.definition'),
      <code key="definition" class="tiny anywhere">
        {approval.definitionSha256}
      </code>,
    ],
    [
      t('approvals.code'),
      approval.codeSha256 && (
        <code key="code" class="tiny anywhere">
          {approval.codeSha256}
        </code>
      ),
    ],
    [
      t('approvals.page'),
      <a key="page" href={approval.url}>
        {t('approvals.pageLink')}
      </a>,
    ],
  ] as const;

function Differences({ approval }: { approval: Approval }) {
  const found = approval.differences;
  if (!found) return <p class="soft small">{t('approvals.noneBefore')}</p>;
  if (found.changes.length === 0) {
    return <p class="soft small">{rich('approvals.sameAsBefore', { time: <Time at={found.since} /> })}</p>;
  }
  return (
    <section class="stack tight" aria-labelledby="differences">
      <h3 id="differences">{rich('approvals.differences', { time: <Time at={found.since} /> })}</h3>
      <ul class="differences">
        {found.changes.map((each) => (
          <li key={each.path}>
            <code>
              <Marks text={each.path || '/'} />
            </code>
            <del>
              <Marks text={written(each.before)} />
            </del>
            <ins>
              <Marks text={written(each.after)} />
            </ins>
          </li>
        ))}
      </ul>
    </section>
  );
}

const written = (value: unknown): string =>
  value === undefined || value === null ? t('approvals.absent') : JSON.stringify(value);

function Ended({ approval }: { approval: Approval }) {
  return (
    <Note tone={approval.state === 'denied' ? 'failed' : 'info'} live>
      <p>
        <Decision approval={approval} />{' '}
        {approval.approver && rich('approvals.decidedBy', { person: <Marks text={approval.approver} /> })}
      </p>
      {approval.reason && (
        <p>
          <Marks text={approval.reason} />
        </p>
      )}
      <p>
        <a href={href(['calls'], { tool: approval.tool, caller: approval.caller })}>{t('approvals.toCalls')}</a>
      </p>
    </Note>
  );
}

interface DecideProps {
  approval: Approval;
  /** Why it can no longer be decided here. */
  off: 'gone' | 'changed' | null;
  onDecided: (approval: Approval) => Promise<void>;
}

function Decide({ approval, off, onDecided }: DecideProps) {
  const [code, setCode] = useState('');
  const [denying, setDenying] = useState(false);
  const [reason, setReason] = useState('');
  const [over, setOver] = useState(() => Date.parse(approval.expiresAt) <= Date.now());
  const path = segments('api/approvals', approval.id);
  const byCode = useAction(async () => {
    await onDecided(await hall.post<Approval>(`${path}/approve`, { code: code.trim() }));
  });
  const byPasskey = useAction(async () => {
    await onDecided(await hall.post<Approval>(`${path}/approve`, await getPasskey(`${path}/options`)));
  });
  const deny = useAction(async () => {
    await onDecided(await hall.post<Approval>(`${path}/deny`, reason.trim() ? { reason: reason.trim() } : {}));
  });
  useEffect(() => {
    const left = Date.parse(approval.expiresAt) - Date.now();
    const timer = setTimeout(() => setOver(true), Math.max(0, left));
    return () => clearTimeout(timer);
  }, [approval.expiresAt]);
  const error = byCode.error ?? byPasskey.error ?? deny.error;
  if (off || over) {
    return (
      <Note tone="refused" live>
        {off ? t(`approvals.${off}`) : t('approvals.over')}
      </Note>
    );
  }
  return (
    <section class="stack" aria-labelledby="decide">
      <h3 id="decide">{t('approvals.decide')}</h3>
      {error && <ErrorState error={error} small />}
      {approval.mayApprove ? (
        <Approve approval={approval} code={code} onCode={setCode} byCode={byCode} byPasskey={byPasskey} />
      ) : (
        <Note tone="info">{t('approvals.notYours')}</Note>
      )}
      {denying ? (
        <form
          class="stack tight"
          onSubmit={(event) => {
            event.preventDefault();
            deny.run();
          }}
        >
          <div class="field">
            <label for="deny-reason">{t('approvals.reason')}</label>
            <input
              id="deny-reason"
              maxLength={256}
              aria-describedby="deny-hint"
              value={reason}
              onInput={(event) => setReason(event.currentTarget.value)}
            />
            <p class="hint" id="deny-hint">
              {t('approvals.reasonHint')}
            </p>
          </div>
          <div class="row">
            <button type="submit" class="button danger tall" disabled={deny.busy}>
              {t('approvals.denyNow')}
            </button>
            <button type="button" class="button tall" onClick={() => setDenying(false)}>
              {t('shared.cancel')}
            </button>
          </div>
        </form>
      ) : (
        <div class="row">
          <button type="button" class="button danger tall" onClick={() => setDenying(true)}>
            <Icon name="cross" />
            {t('approvals.deny')}
          </button>
        </div>
      )}
    </section>
  );
}

interface ApproveProps {
  approval: Approval;
  code: string;
  onCode: (code: string) => void;
  byCode: ReturnType<typeof useAction>;
  byPasskey: ReturnType<typeof useAction>;
}

function Approve({ approval, code, onCode, byCode, byPasskey }: ApproveProps) {
  const person = me.value?.person ?? me.value?.caller ?? '';
  if (!me.value?.hasFactor) {
    return (
      <Note tone="refused">
        <p>{t('approvals.noFactor')}</p>
        <a href={approval.url}>{t('approvals.addFactor')}</a>
      </Note>
    );
  }
  return (
    <form
      class="stack tight"
      onSubmit={(event) => {
        event.preventDefault();
        byCode.run();
      }}
    >
      <p class="soft">{t('approvals.runsOnce', { person })}</p>
      <div class="row">
        <div class="field">
          <label for="approve-code">{t('session.code')}</label>
          <input
            id="approve-code"
            class="mono"
            inputMode="numeric"
            autoComplete="one-time-code"
            size={8}
            value={code}
            onInput={(event) => onCode(event.currentTarget.value)}
          />
        </div>
      </div>
      <div class="row">
        <button type="submit" class="button main tall" disabled={byCode.busy || !code.trim()}>
          <Icon name="check" />
          {t('approvals.approve')}
        </button>
        {hasPasskeys() && (
          <button type="button" class="button tall" disabled={byPasskey.busy} onClick={byPasskey.run}>
            <Icon name="passkey" />
            {t('approvals.approvePasskey')}
          </button>
        )}
      </div>
    </form>
  );
}

/** How an approval ended, by whom and when. */
export function Decision({ approval }: { approval: Approval }) {
  const good = approval.state === 'approved' || approval.state === 'consumed';
  const tone = good ? 'ok' : approval.state === 'denied' ? 'failed' : 'plain';
  const words = {
    approved: t('approvals.states.approved'),
    consumed: t('approvals.states.consumed'),
    denied: t('approvals.states.denied'),
    expired: t('approvals.states.expired'),
    cancelled: t('approvals.states.cancelled'),
    pending: t('approvals.states.pending'),
  }[approval.state];
  return (
    <>
      <Chip tone={tone} icon={good ? 'check' : 'cross'}>
        {words ?? approval.state}
      </Chip>{' '}
      {approval.decidedAt && <Time at={approval.decidedAt} />}
    </>
  );
}
