/** `TimeLeft`: minutes and seconds until something ends, as a ring or as text; read out at 60 and 15 seconds only. */

import { useEffect, useState } from 'preact/hooks';
import { t } from '../words/messages';

const SOON = 60;
const READ_OUT = [60, 15];
const AROUND = 2 * Math.PI * 26;

interface TimeLeftProps {
  from: string;
  to: string;
  /** Text only, for a row of a list. */
  plain?: boolean;
  onEnd?: () => void;
}

export function TimeLeft({ from, to, plain = false, onEnd }: TimeLeftProps) {
  const left = useSecondsLeft(to, onEnd);
  const words = left <= 0 ? t('time.ended') : `${Math.floor(left / 60)}:${String(left % 60).padStart(2, '0')}`;
  const whole =
    left >= 120 ? t('time.minutesLeft', { count: Math.ceil(left / 60) }) : t('time.secondsLeft', { count: left });
  const title = left <= 0 ? words : whole;
  if (plain) {
    return (
      <span class={`mono tiny num nowrap ${left <= SOON ? 'must' : 'soft'}`} role="timer" aria-label={title}>
        {words}
      </span>
    );
  }
  const share = left / Math.max(1, (Date.parse(to) - Date.parse(from)) / 1000);
  return (
    <>
      <svg class={left <= SOON ? 'ring soon' : 'ring'} viewBox="0 0 60 60" role="timer" aria-label={title}>
        <circle cx="30" cy="30" r="26" />
        <circle
          cx="30"
          cy="30"
          r="26"
          transform="rotate(-90 30 30)"
          stroke-dasharray={`${Math.max(0, Math.min(1, share)) * AROUND} ${AROUND}`}
        />
        <text x="30" y="34.5">
          {left > 3600 ? `${Math.floor(left / 3600)}h` : words}
        </text>
      </svg>
      <span class="sr" aria-live="polite">
        {left <= 0 || READ_OUT.includes(left) ? title : ''}
      </span>
    </>
  );
}

/** Whole seconds until a time; 0 once it is over. */
export function useSecondsLeft(to: string, onEnd?: () => void): number {
  const count = () => Math.max(0, Math.ceil((Date.parse(to) - Date.now()) / 1000));
  const [left, setLeft] = useState(count);
  useEffect(() => {
    setLeft(count());
    const timer = setInterval(() => {
      const now = count();
      setLeft(now);
      if (now > 0) return;
      clearInterval(timer);
      onEnd?.();
    }, 1000);
    return () => clearInterval(timer);
  }, [to]);
  return left;
}
