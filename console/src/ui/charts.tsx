/** Charts as plain SVG: a line beside a figure, bars over time, a line over time. The words for them are in the label. */

import type { ComponentChildren } from 'preact';
import { compact } from '../words/format';
import { t } from '../words/messages';

/** A small line without axes; it says nothing that the figure beside it does not. */
export function Sparkline({ values }: { values: readonly number[] }) {
  if (values.length < 2) return null;
  const most = Math.max(...values, 1e-9);
  const points = values.map(
    (value, at) => `${round((at * 100) / (values.length - 1))} ${round(30 - (value / most) * 27)}`,
  );
  const line = `M${points.join('L')}`;
  return (
    <svg class="spark" viewBox="0 0 100 32" preserveAspectRatio="none" aria-hidden="true">
      <path class="area" d={`${line}V32H0Z`} />
      <path d={line} />
    </svg>
  );
}

export interface Bar {
  at: string;
  /** Heights from the ground up, with the class of each part. */
  parts: readonly (readonly ['ok' | 'refused' | 'asked' | 'failed', number])[];
}

interface BarsProps {
  label: string;
  bars: readonly Bar[];
  /** Words of a time on the axis. */
  time: (at: string) => string;
  low?: boolean;
  /** Makes the chart a time picker: from and to (not included), as indexes. */
  onPick?: (from: number, to: number) => void;
  /** The range that is picked. */
  picked?: readonly [number, number] | null;
}

const WIDTH = 600;
const HEIGHT = 200;

/** Stacked bars over time. */
export function StackedBars({ label, bars, time, low = false, onPick, picked }: BarsProps) {
  const sums = bars.map((bar) => bar.parts.reduce((sum, [, value]) => sum + value, 0));
  const top = niceTop(Math.max(0, ...sums));
  const step = WIDTH / Math.max(1, bars.length);
  const scale = HEIGHT / top;
  let start = -1;
  const indexAt = (event: PointerEvent) => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    return Math.max(0, Math.min(bars.length - 1, Math.floor(((event.clientX - box.left) / box.width) * bars.length)));
  };
  return (
    <Plot top={top} times={bars.map((bar) => bar.at)} time={time} low={low}>
      <svg
        viewBox={`0 -1 ${WIDTH} ${HEIGHT + 2}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${label}; ${t('charts.most', { most: Math.max(0, ...sums) })}`}
        onPointerDown={onPick && ((event) => (start = indexAt(event)))}
        onPointerUp={
          onPick &&
          ((event) => {
            const end = indexAt(event);
            if (start >= 0) onPick(Math.min(start, end), Math.max(start, end) + 1);
            start = -1;
          })
        }
      >
        <Axes />
        {picked && (
          <rect class="picked" x={picked[0] * step} y={0} width={(picked[1] - picked[0]) * step} height={HEIGHT} />
        )}
        {bars.map((bar, at) => {
          let ground = HEIGHT;
          return bar.parts.map(([name, value]) => {
            const height = value * scale;
            ground -= height;
            return value > 0 ? (
              <rect
                key={name}
                class={name}
                x={round(at * step)}
                y={round(ground)}
                width={round(step * 0.8)}
                height={round(height)}
              />
            ) : null;
          });
        })}
      </svg>
    </Plot>
  );
}

interface LineProps {
  label: string;
  points: readonly { at: string; value: number }[];
  time: (at: string) => string;
  /** Words of a value on the axis. */
  unit?: (value: number) => string;
}

/** One line over time. */
export function LineChart({ label, points, time, unit = compact }: LineProps) {
  const top = niceTop(Math.max(0, ...points.map((each) => each.value)));
  const step = WIDTH / Math.max(1, points.length - 1);
  const line = points.map((each, at) => `${round(at * step)} ${round(HEIGHT - (each.value / top) * HEIGHT)}`).join('L');
  return (
    <Plot top={top} times={points.map((each) => each.at)} time={time} unit={unit}>
      <svg viewBox={`0 -1 ${WIDTH} ${HEIGHT + 2}`} preserveAspectRatio="none" role="img" aria-label={label}>
        <Axes />
        {points.length > 1 && <path class="series" d={`M${line}`} />}
      </svg>
    </Plot>
  );
}

export function Legend({ parts }: { parts: readonly (readonly [string, string])[] }) {
  return (
    <div class="legend">
      {parts.map(([name, words]) => (
        <span key={name}>
          <svg viewBox="0 0 10 10" aria-hidden="true">
            <rect class={name} width="10" height="10" rx="2" />
          </svg>
          {words}
        </span>
      ))}
    </div>
  );
}

/** A share as a bar below a word. */
export function Meter({ share, tone = 'ok' }: { share: number; tone?: 'ok' | 'refused' | 'failed' | 'asked' }) {
  return (
    <svg class="meter" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
      <rect class="track" width="100" height="6" />
      <rect class={tone} width={round(Math.max(0, Math.min(1, share)) * 100)} height="6" />
    </svg>
  );
}

interface PlotProps {
  top: number;
  times: readonly string[];
  time: (at: string) => string;
  unit?: (value: number) => string;
  low?: boolean;
  children: ComponentChildren;
}

const MARKS_OF_TIME = 5;

function Plot({ top, times, time, unit = compact, low = false, children }: PlotProps) {
  const last = times.length - 1;
  const shown = Array.from(
    { length: Math.min(MARKS_OF_TIME, times.length) },
    (_, at) => times[Math.round((at * last) / Math.max(1, Math.min(MARKS_OF_TIME, times.length) - 1))],
  );
  return (
    <div class={low ? 'plot low' : 'plot'}>
      <span class="y" aria-hidden="true">
        <span>{unit(top)}</span>
        {!low && <span>{unit(top / 2)}</span>}
        <span>{unit(0)}</span>
      </span>
      {children}
      <span class="x" aria-hidden="true">
        {shown.map((at) => at !== undefined && <span key={at}>{time(at)}</span>)}
      </span>
    </div>
  );
}

function Axes() {
  return (
    <>
      {[0, HEIGHT / 2, HEIGHT].map((y) => (
        <line key={y} class="axis" x1="0" x2={WIDTH} y1={y} y2={y} />
      ))}
    </>
  );
}

/** The next round number, of which also the half is round. */
export function niceTop(most: number): number {
  if (most <= 2) return 2;
  const power = 10 ** Math.floor(Math.log10(most));
  const nice = [1, 2, 4, 6, 8, 10].find((each) => each * power >= most) ?? 10;
  return nice * power;
}

const round = (value: number): number => Math.round(value * 100) / 100;
