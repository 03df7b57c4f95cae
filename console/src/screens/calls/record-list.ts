/** `RecordList`: records of calls, newest first, each once, at most so many; without I/O, so that it can be tested alone. */

import type { AuditRecord } from '../../api/types';

/** More rows than anybody scrolls through; older ones are read again when they are wanted. */
export const MOST_ROWS = 10_000;

export const keyOf = (record: AuditRecord): string => `${record.log} ${record.number}`;

/** Newest first; records of one moment in the order of their logs. */
const order = (one: AuditRecord, other: AuditRecord): number =>
  other.at.localeCompare(one.at) || other.log.localeCompare(one.log) || other.number - one.number;

export class RecordList {
  private readonly known = new Set<string>();
  /** Calls whose end is known: their intent is not shown any more. */
  private readonly ended = new Set<string>();
  rows: readonly AuditRecord[] = [];
  /** Whether the oldest rows were let go. */
  trimmed = false;

  /** Add records; true if any of them was new. */
  add(records: readonly AuditRecord[]): boolean {
    const fresh = records.filter((each) => !this.known.has(keyOf(each)));
    if (!fresh.length) return false;
    for (const each of fresh) {
      this.known.add(keyOf(each));
      if (each.phase !== 'intent') this.ended.add(each.call);
    }
    fresh.sort(order);
    const last = fresh.at(-1);
    const first = this.rows[0];
    const inFront = !last || !first || order(last, first) < 0;
    const rows = inFront ? [...fresh, ...this.rows] : [...fresh, ...this.rows].sort(order);
    this.rows = rows.filter((each) => each.phase !== 'intent' || !this.ended.has(each.call));
    this.trim();
    return true;
  }

  has(record: AuditRecord): boolean {
    return this.known.has(keyOf(record));
  }

  private trim(): void {
    if (this.rows.length <= MOST_ROWS) return;
    for (const each of this.rows.slice(MOST_ROWS)) {
      this.known.delete(keyOf(each));
      this.ended.delete(each.call);
    }
    this.rows = this.rows.slice(0, MOST_ROWS);
    this.trimmed = true;
  }
}

const UNITS: Record<string, number> = { m: 60, h: 3_600, d: 86_400 };

/** `15m`, `1h` or `7d` before now as a time; other texts as they are. The hall knows days and times only. */
export function timeOf(text: string, now: number = Date.now()): string {
  const [, count, unit] = /^(\d{1,4})([mhd])$/.exec(text) ?? [];
  if (count === undefined || unit === undefined) return text;
  return `${new Date(now - Number(count) * (UNITS[unit] ?? 0) * 1000).toISOString().slice(0, 19)}Z`;
}
