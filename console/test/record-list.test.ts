import { describe, expect, test } from 'vitest';
import type { AuditRecord } from '../src/api/types';
import { MOST_ROWS, RecordList, timeOf } from '../src/screens/calls/record-list';

const record = (number: number, more: Partial<AuditRecord> = {}): AuditRecord => ({
  log: 'a',
  number,
  at: new Date(1_790_000_000_000 + number).toISOString(),
  call: `c${number}`,
  caller: 'ci',
  dialect: 'mcp',
  tool: 'Mail.send@1.0.0',
  outcome: 'ok',
  ...more,
});
const numbers = (list: RecordList): number[] => list.rows.map((each) => each.number);

describe('RecordList', () => {
  test('keeps records newest first and each once, in whatever order they come', () => {
    const list = new RecordList();
    expect(list.add([record(2), record(4)])).toBe(true);
    list.add([record(1), record(3), record(4)]);
    expect(list.add([record(3)])).toBe(false);
    expect(numbers(list)).toEqual([4, 3, 2, 1]);
  });

  test('shows an intent until the end of its call is known', () => {
    const list = new RecordList();
    list.add([record(1, { call: 'x', phase: 'intent', outcome: 'intent' })]);
    expect(numbers(list)).toEqual([1]);
    list.add([record(2, { call: 'x' })]);
    expect(numbers(list)).toEqual([2]);
  });

  test('lets the oldest go beyond its bound', () => {
    const list = new RecordList();
    for (let start = 0; start < MOST_ROWS + 400; start += 200)
      list.add(Array.from({ length: 200 }, (_, index) => record(start + index)));
    expect(list.rows.length).toBe(MOST_ROWS);
    expect(list.trimmed).toBe(true);
    expect(list.rows[0]?.number).toBe(MOST_ROWS + 399);
  });
});

test('a short time is counted back from now', () => {
  const now = Date.parse('2026-11-18T12:00:00Z');
  expect(timeOf('15m', now)).toBe('2026-11-18T11:45:00Z');
  expect(timeOf('7d', now)).toBe('2026-11-11T12:00:00Z');
  expect(timeOf('2026-11-18', now)).toBe('2026-11-18');
});
