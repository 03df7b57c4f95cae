/** Small parts: chip, effect, level, time, facts, button to copy, note. */

import type { ComponentChild, ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Me, ToolSummary } from '../api/types';
import { clock, dateTime, day, moment, utc } from '../words/format';
import { hasMessage, t } from '../words/messages';
import { Icon, type IconName } from './icon';

export type Tone = 'ok' | 'refused' | 'failed' | 'person' | 'busy' | 'accent' | 'plain';

/** A word with its colour and icon. */
export function Chip({
  tone = 'plain',
  icon,
  children,
}: {
  tone?: Tone;
  icon?: IconName;
  children: ComponentChildren;
}) {
  return (
    <span class={tone === 'plain' ? 'chip' : `chip ${tone}`}>
      {icon && <Icon name={icon} />}
      <span class="cut">{children}</span>
    </span>
  );
}

/** What an outcome of the audit is: it went well, the caller must change something, or it did nothing wrong. */
export function outcomeKind(outcome: string): 'ok' | 'refused' | 'failed' | 'asked' | 'running' {
  if (outcome === 'ok' || outcome === 'repeated') return 'ok';
  if (outcome === 'running' || outcome === 'intent') return 'running';
  if (ASKED.has(outcome)) return 'asked';
  return FAILED.has(outcome) ? 'failed' : 'refused';
}

/** Outcomes are the words of `AuditRecord.outcome`: the classes of model/errors.py, and a few others. */
const ASKED = new Set(['asked', 'NeedsVerification']);
const FAILED = new Set([
  'failed',
  'tool_error',
  'ToolFailed',
  'ToolError',
  'Crashed',
  'TimedOut',
  'Cancelled',
  'BadOutput',
  'Unavailable',
  'OutcomeUnknown',
  'Broken',
]);
const OUTCOME_TONES = { ok: 'ok', refused: 'refused', failed: 'failed', asked: 'person', running: 'busy' } as const;
const OUTCOME_ICONS = {
  ok: 'check',
  refused: 'cross',
  failed: 'warning',
  asked: 'approval',
  running: 'clock',
} as const;

/** How a call ended. */
export function Outcome({ outcome }: { outcome: string }) {
  const kind = outcomeKind(outcome);
  const key = `outcomes.${outcome}`;
  return (
    <Chip tone={OUTCOME_TONES[kind]} icon={OUTCOME_ICONS[kind]}>
      {hasMessage(key) ? t(key) : outcome.replaceAll('_', ' ')}
    </Chip>
  );
}

const EFFECT_TONES = { reads: 'plain', writes: 'refused', destroys: 'failed' } as const;

/** What a tool does to the world. */
export function Effect({ effect }: { effect: ToolSummary['effect'] }) {
  if (effect === null) return <Chip>{t('effects.unknown')}</Chip>;
  return <Chip tone={EFFECT_TONES[effect]}>{t(`effects.${effect}`)}</Chip>;
}

const TICKS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];

/** Ten ticks, filled up to the level: grey up to 3, amber up to 7, violet above; always with the number. */
export function LevelMeter({ level, short = false }: { level: number; short?: boolean }) {
  const band = level <= 3 ? 'low' : level <= 7 ? 'middle' : 'high';
  return (
    <span class="level">
      <svg viewBox="0 0 58 12" aria-hidden="true">
        {TICKS.map((tick) => (
          <rect key={tick} class={tick <= level ? band : 'off'} x={(tick - 1) * 6} y="1" width="4" height="10" rx="1" />
        ))}
      </svg>
      {short ? <span class="num">{level}</span> : t('shared.level', { level })}
      {short && <span class="sr">{t('shared.levelOf', { level })}</span>}
    </span>
  );
}

const TIME_FORMATS = { clock, moment, day, dateTime, exact: (at: string) => clock(at, true) };

/** A time of this place, with the UTC time as title. */
export function Time({ at, as = 'moment' }: { at: string | null | undefined; as?: keyof typeof TIME_FORMATS }) {
  if (!at) return <span class="faint">{t('shared.never')}</span>;
  return (
    <time class="num" dateTime={at} title={utc(at)}>
      {TIME_FORMATS[as](at)}
    </time>
  );
}

/** Names and values; a value of null is left out. */
export function Facts({ facts }: { facts: readonly (readonly [string, ComponentChild | null])[] }) {
  return (
    <dl class="facts">
      {facts
        .filter(([, value]) => value !== null && value !== undefined)
        .map(([name, value]) => (
          <>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </>
        ))}
    </dl>
  );
}

/** A message in a box. */
export function Note({ tone = 'refused', icon, children, live }: NoteProps) {
  return (
    <div class={`note ${tone}`} role={live ? 'status' : undefined}>
      <Icon name={icon ?? (tone === 'info' ? 'info' : tone === 'ok' ? 'check' : 'warning')} />
      <div>{children}</div>
    </div>
  );
}

interface NoteProps {
  tone?: 'refused' | 'info' | 'failed' | 'ok';
  icon?: IconName;
  children: ComponentChildren;
  /** Read out when it appears. */
  live?: boolean;
}

/** A button that copies a text, and says so. */
export function CopyButton({
  text,
  label,
  low = true,
}: {
  text: string | (() => string);
  label?: string;
  low?: boolean;
}) {
  const [said, say] = useState<'copied' | 'copyFailed' | null>(null);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  const copy = async () => {
    clearTimeout(timer.current);
    const done = await copyText(typeof text === 'string' ? text : text());
    say(done ? 'copied' : 'copyFailed');
    timer.current = setTimeout(() => say(null), 4000);
  };
  return (
    <button type="button" class={low ? 'button low' : 'button'} onClick={() => void copy()}>
      <Icon name={said === 'copied' ? 'check' : 'copy'} />
      <span aria-live="polite">{said ? t(`shared.${said}`) : (label ?? t('shared.copy'))}</span>
    </button>
  );
}

/** Copy a text; where the page is not secure (http at another host), by a selection. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement('textarea');
    area.value = text;
    area.className = 'sr';
    const focused = document.activeElement;
    (document.querySelector('dialog[open]') ?? document.body).append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    if (focused instanceof HTMLElement) focused.focus();
    return done;
  }
}

/** Figures that come from some of the hall's processes say so. */
export function Processes({ of }: { of: Me['processes'] }) {
  if (of.seen >= of.running) return null;
  return <Chip tone="refused">{t('shared.seenBy', of)}</Chip>;
}
