/** Numbers, dates and durations as the language writes them; short forms for lists. */

import { preferences } from '../app/preferences';
import { locale } from './messages';

const zone = (): string | undefined => (preferences.value.clock === 'utc' ? 'UTC' : undefined);

export function number(value: number, digits = 0): string {
  return new Intl.NumberFormat(locale, { maximumFractionDigits: digits }).format(value);
}

export function percent(share: number, digits = 1): string {
  return new Intl.NumberFormat(locale, { style: 'percent', maximumFractionDigits: digits }).format(share);
}

/** A whole number in few letters, such as 1.2K. */
export function compact(value: number): string {
  return new Intl.NumberFormat(locale, { notation: 'compact', maximumFractionDigits: 1 }).format(value);
}

export function bytes(count: number): string {
  const units = ['byte', 'kilobyte', 'megabyte', 'gigabyte', 'terabyte'] as const;
  const power = Math.min(units.length - 1, count < 1000 ? 0 : Math.floor(Math.log10(count) / 3));
  const value = count / 1000 ** power;
  const unitDisplay = power ? 'short' : 'long';
  const options = { style: 'unit', unit: units[power] ?? 'byte', unitDisplay } as const;
  return new Intl.NumberFormat(locale, { ...options, maximumFractionDigits: value < 10 && power ? 1 : 0 }).format(
    value,
  );
}

/** Microseconds in the unit that needs the fewest digits: 12 µs, 0.41 ms, 8.2 s, 3 min. */
export function duration(us: number): string {
  if (us < 1000) return unit(us, 'microsecond');
  if (us < 1_000_000) return unit(us / 1000, 'millisecond');
  if (us < 120_000_000) return unit(us / 1_000_000, 'second');
  return span(us / 1_000_000);
}

/** Seconds in words of at most two units: 4 min 10 s, 2 days 3 hr. */
export function span(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  const days = Math.floor(whole / 86_400);
  const hours = Math.floor((whole % 86_400) / 3600);
  const minutes = Math.floor((whole % 3600) / 60);
  const pieces: [number, string][] = [
    [days, 'day'],
    [hours, 'hour'],
    [minutes, 'minute'],
    [whole % 60, 'second'],
  ];
  const first = pieces.findIndex(([value]) => value > 0);
  if (first < 0) return unit(0, 'second');
  return pieces
    .slice(first, first + 2)
    .filter(([value]) => value > 0)
    .map(([value, name]) => unit(value, name))
    .join(' ');
}

function unit(value: number, name: string): string {
  const digits = value >= 100 || Number.isInteger(value) ? 0 : value >= 10 ? 1 : 2;
  const options = { style: 'unit', unit: name, unitDisplay: 'short', maximumFractionDigits: digits } as const;
  const written = new Intl.NumberFormat(locale, options).format(value);
  return written.replace(/ sec$/, ' s'); // English beside "ms"
}

type Moment = string | number | Date;

/** The time of day, with seconds: 17:52:41. */
export function clock(at: Moment, fraction = false): string {
  return new Intl.DateTimeFormat(locale, {
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    hourCycle: 'h23',
    ...(fraction ? { fractionalSecondDigits: 3 } : {}),
    timeZone: zone(),
  } as Intl.DateTimeFormatOptions).format(new Date(at));
}

/** Hours and minutes: 17:52. */
export function hour(at: Moment): string {
  const options: Intl.DateTimeFormatOptions = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' };
  return format(at, options);
}

/** The day: 18 Nov 2026. */
export function day(at: Moment): string {
  return format(at, { day: 'numeric', month: 'short', year: 'numeric' });
}

/** Day and time: 18 Nov, 17:52. */
export function dateTime(at: Moment): string {
  const sameYear = new Date(at).getFullYear() === new Date().getFullYear();
  return format(at, {
    day: 'numeric',
    month: 'short',
    ...(sameYear ? {} : { year: 'numeric' }),
    hour: '2-digit',
    minute: '2-digit',
    hourCycle: 'h23',
  });
}

/** The time of day for today, else day and time. */
export function moment(at: Moment): string {
  return day(at) === day(Date.now()) ? clock(at) : dateTime(at);
}

export function utc(at: Moment): string {
  return `${new Date(at).toISOString().slice(0, 19).replace('T', ' ')} UTC`;
}

export function list(words: string[]): string {
  return new Intl.ListFormat(locale, { type: 'conjunction' }).format(words);
}

function format(at: Moment, options: Intl.DateTimeFormatOptions): string {
  const timeZone = zone();
  return new Intl.DateTimeFormat(locale, timeZone ? { ...options, timeZone } : options).format(new Date(at));
}
