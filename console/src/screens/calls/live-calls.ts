/** `useLiveCalls`: the records of a filter, read in pages and continued live, with none left out. */

import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { HallError, hall, type Parameters } from '../../api/client';
import { useEvents } from '../../api/events';
import type { AuditPage, AuditRecord } from '../../api/types';
import { RecordList, timeOf } from './record-list';

const PAGE = 200;
/** Pages that are read to close a gap; a longer one begins the list anew. */
const MOST_PAGES = 50;
/** Logs of several processes are merged by time, so a record may come a little behind a newer one. */
const LATE_MS = 2000;

export interface LiveCalls {
  rows: readonly AuditRecord[];
  /** How many came while the list stood still. */
  waiting: number;
  state: 'loading' | 'ready' | 'error' | 'forbidden';
  error: HallError | null;
  hasMore: boolean;
  more: () => void;
  /** Show what waits. */
  show: () => void;
  reload: () => Promise<void>;
}

/** `filters` as in the address; `still` keeps the rows where they are while somebody reads. */
export function useLiveCalls(filters: Parameters, still: boolean): LiveCalls {
  const key = JSON.stringify(filters);
  const list = useRef(new RecordList());
  const held = useRef<AuditRecord[]>([]);
  const cursor = useRef<string | undefined>(undefined);
  /** Nothing is missing up to this time; newer records may have come with others between them left out. */
  const whole = useRef(0);
  const busy = useRef<AbortController | null>(null);
  const frame = useRef(0);
  const stands = useRef(still);
  stands.current = still;
  const [shown, setShown] = useState<{ key: string; rows: readonly AuditRecord[]; waiting: number; ready: boolean }>({
    key,
    rows: [],
    waiting: 0,
    ready: false,
  });
  const [error, setError] = useState<HallError | null>(null);

  const draw = useCallback(() => {
    frame.current ||= requestAnimationFrame(() => {
      frame.current = 0;
      if (!stands.current && held.current.length) {
        list.current.add(held.current);
        held.current = [];
      }
      const waiting = new Set(held.current.filter((each) => !list.current.has(each)).map((each) => each.call)).size;
      setShown({ key, rows: list.current.rows, waiting, ready: true });
    });
  }, [key]);

  const read = useCallback(
    async (from: string | undefined, signal: AbortSignal): Promise<AuditPage> => {
      const query = { ...stated(filters), limit: PAGE, cursor: from };
      return await hall.get<AuditPage>('api/audit', { query, signal });
    },
    [key],
  );

  const reload = useCallback(async () => {
    busy.current?.abort();
    const abort = new AbortController();
    busy.current = abort;
    try {
      const page = await read(undefined, abort.signal);
      list.current = new RecordList();
      list.current.add(page.records);
      cursor.current = page.nextCursor;
      whole.current = newest(page);
      setError(null);
      draw();
    } catch (problem) {
      if (!abort.signal.aborted) setError(asHallError(problem));
    }
  }, [read, draw]);

  useEffect(() => {
    list.current = new RecordList();
    held.current = [];
    cursor.current = undefined;
    void reload();
    return () => {
      busy.current?.abort();
      cancelAnimationFrame(frame.current);
      frame.current = 0;
    };
  }, [reload]);

  // Events may leave records out, and so does a stream that broke: read from the newest back to where nothing is missing.
  const closeGap = useCallback(async () => {
    const abort = busy.current ?? new AbortController();
    const missing: AuditRecord[] = [];
    let from: string | undefined;
    let upTo = 0;
    try {
      for (let pages = 0; pages < MOST_PAGES; pages++) {
        const page = await read(from, abort.signal);
        missing.push(...page.records);
        from = page.nextCursor;
        upTo ||= newest(page);
        const oldest = page.records.at(-1);
        if (from === undefined || !oldest || Date.parse(oldest.at) < whole.current - LATE_MS) {
          whole.current = Math.max(whole.current, upTo);
          held.current.push(...missing);
          draw();
          return;
        }
      }
      await reload();
    } catch (problem) {
      if (!abort.signal.aborted) setError(asHallError(problem));
    }
  }, [read, draw, reload]);
  const gap = useGap(closeGap);

  useEvents(
    ['calls'],
    (event) => {
      if (event.topic !== 'calls') return;
      if ('record' in event) {
        held.current.push(event.record);
        draw();
      } else void gap();
    },
    { filters: stated(filters), missed: () => void gap() },
  );
  useEffect(() => {
    if (!still) draw();
  }, [still, draw]);

  const more = () => {
    const abort = busy.current;
    const last = list.current.rows.at(-1);
    const from = cursor.current;
    if (!abort || (from === undefined && !list.current.trimmed)) return;
    cursor.current = undefined;
    const page =
      from !== undefined || !last
        ? read(from, abort.signal)
        : hall.get<AuditPage>('api/audit', {
            query: { ...stated(filters), until: last.at.slice(0, 19).concat('Z'), limit: PAGE },
            signal: abort.signal,
          });
    page.then(
      (found) => {
        list.current.add(found.records);
        cursor.current = found.nextCursor;
        draw();
      },
      (problem) => !abort.signal.aborted && setError(asHallError(problem)),
    );
  };
  const show = () => {
    list.current.add(held.current);
    held.current = [];
    draw();
  };
  const current = shown.key === key && shown.ready;
  return {
    rows: current ? shown.rows : [],
    waiting: current ? shown.waiting : 0,
    state: error?.status === 403 ? 'forbidden' : error ? 'error' : current ? 'ready' : 'loading',
    error,
    hasMore: cursor.current !== undefined || list.current.trimmed,
    more,
    show,
    reload,
  };
}

const newest = (page: AuditPage): number => Date.parse(page.records[0]?.at ?? '') || 0;

/** The filters as the hall reads them. */
function stated(filters: Parameters): Parameters {
  const times = Object.fromEntries(
    ['since', 'until'].filter((name) => filters[name]).map((name) => [name, timeOf(String(filters[name]))]),
  );
  return { ...filters, ...times };
}

const asHallError = (problem: unknown): HallError =>
  problem instanceof HallError ? problem : new HallError(0, 'broken', String(problem));

/** Runs once at a time; once more if it was asked for meanwhile. */
function useGap(close: () => Promise<void>): () => Promise<void> {
  const running = useRef(false);
  const again = useRef(false);
  const latest = useRef(close);
  latest.current = close;
  return useCallback(async () => {
    again.current = true;
    if (running.current) return;
    running.current = true;
    while (again.current) {
      again.current = false;
      await latest.current();
    }
    running.current = false;
  }, []);
}
