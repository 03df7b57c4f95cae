/** The ten stages, always in this order and with these names: doors of the Overview, a call's waterfall, a strip. */

import { type CallDetail, STAGES, type Stage } from '../api/types';
import { href } from '../app/router';
import { duration } from '../words/format';
import { t } from '../words/messages';
import { Icon } from './icon';
import { Marks } from './marks';

/** What it means that calls stop at a stage: the caller's side, a person, or the tool's and the hall's side. */
const KINDS: Record<Stage, 'refused' | 'asked' | 'failed'> = {
  find: 'refused',
  authorize: 'refused',
  limit: 'refused',
  validate: 'refused',
  verify: 'asked',
  equip: 'refused',
  run: 'failed',
  check: 'failed',
  sanitize: 'failed',
  audit: 'failed',
};

/** How far calls came: at each door how many stopped, as high as their share of the worst one. */
export function Doors({ stopped, since }: { stopped: Readonly<Record<Stage, number>>; since?: string }) {
  const worst = Math.max(1, ...STAGES.map((stage) => stopped[stage] ?? 0));
  return (
    <ol class="doors">
      {STAGES.map((stage) => {
        const count = stopped[stage] ?? 0;
        const height = count ? Math.max(3, (count / worst) * 50) : 0;
        const label = count
          ? t('doors.label', { stage: t(`stages.${stage}`), count })
          : t('doors.labelPassed', { stage: t(`stages.${stage}`) });
        return (
          <li key={stage}>
            <a href={href(['calls'], { stage, since })}>
              <span class="sr">{label}</span>
              <span class="door" aria-hidden="true">
                <svg viewBox="0 0 100 100" preserveAspectRatio="none" aria-hidden="true">
                  <rect class="ground" width="100" height="100" />
                  {count > 0 && <rect class={KINDS[stage]} y={100 - height} width="100" height={height} />}
                </svg>
                <em class={count ? KINDS[stage] : ''}>{count ? <span>{count}</span> : <Icon name="check" />}</em>
              </span>
              <b aria-hidden="true">{t(`stages.${stage}`)}</b>
              <small aria-hidden="true">{count ? t(`doors.${stage}`) : t('doors.passed')}</small>
            </a>
          </li>
        );
      })}
    </ol>
  );
}

type StageState = CallDetail['stages'][number];

interface WaterfallProps {
  stages: readonly StageState[];
  kind: CallDetail['kind'];
  /** Address and words of the rule that a stage applied. */
  rule?: (stage: Stage) => [string, string] | null;
}

/** The stages of one call with their times; below the one that stopped it, why. */
export function StageWaterfall({ stages, kind, rule }: WaterfallProps) {
  const total = Math.max(
    1,
    stages.reduce((sum, each) => sum + (each.us ?? 0), 0),
  );
  let start = 0;
  return (
    <ol class="fall" aria-label={t('stages.title')}>
      {stages.map((each) => {
        const x = (start / total) * 100;
        const width = Math.max(0.8, ((each.us ?? 0) / total) * 100);
        start += each.us ?? 0;
        return (
          <li key={each.stage} class={each.state === 'not_reached' || each.state === 'skipped' ? 'unreached' : ''}>
            <span class="name">{t(`stages.${each.stage}`)}</span>
            <span>
              <svg class="bar" viewBox="0 0 100 12" preserveAspectRatio="none" aria-hidden="true">
                {each.state !== 'not_reached' && <rect class="track" width="100" height="12" rx="2" />}
                {(each.us !== null || each.state === 'stopped') && (
                  <rect
                    class={barClass(each, kind)}
                    x={Math.min(x, 99.2)}
                    width={Math.min(width, 100 - Math.min(x, 99.2))}
                    height="12"
                    rx="1"
                  />
                )}
              </svg>
              <span class="sr">{t(STATE_WORDS[each.state])}</span>
            </span>
            <span class="time num">{timeOf(each)}</span>
            {each.state === 'stopped' && (each.reason || each.fix) && (
              <p class="why">
                {each.reason && <Marks text={each.reason} />} {each.fix && <Marks text={each.fix} />}{' '}
                <RuleLink to={rule?.(each.stage) ?? null} />
              </p>
            )}
          </li>
        );
      })}
    </ol>
  );
}

function RuleLink({ to }: { to: [string, string] | null }) {
  return to && <a href={to[0]}>{to[1]}</a>;
}

const STATE_WORDS = {
  passed: 'stages.passed',
  stopped: 'stages.stopped',
  not_reached: 'stages.notReached',
  skipped: 'stages.skipped',
} as const;

function timeOf({ us, state }: StageState): string {
  if (us !== null && state !== 'not_reached') return duration(us);
  if (state === 'skipped') return t('stages.skipped');
  return state === 'passed' ? t('stages.passed') : '';
}

function barClass({ stage, state }: StageState, kind: CallDetail['kind']): string {
  if (state !== 'stopped') return stage === 'run' ? 'run' : 'ok';
  return kind === 'asked' ? 'asked' : kind === 'refused' ? 'refused' : 'failed';
}

/** What a call passed, in one line. */
export function StageStrip({ stages }: { stages: readonly Pick<StageState, 'stage' | 'state'>[] }) {
  return (
    <ol class="stage-strip" aria-label={t('stages.title')}>
      {stages.map(({ stage, state }) => (
        <li key={stage} class={state === 'stopped' ? 'stopped' : state === 'not_reached' ? 'unreached' : ''}>
          {state !== 'not_reached' && <Icon name={state === 'stopped' ? 'cross' : 'check'} />}
          {t(`stages.${stage}`)}
          <span class="sr">{t(STATE_WORDS[state])}</span>
        </li>
      ))}
    </ol>
  );
}
