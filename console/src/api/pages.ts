/** `usePages`: a list of the hall that comes in pages with a cursor. */

import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { address, HallError, hall, type Parameters } from './client';

export interface Pages<P, T> {
  items: T[];
  /** The first page, for what stands beside the list (totals, facets). */
  first: P | undefined;
  state: 'loading' | 'ready' | 'error' | 'forbidden';
  error: HallError | null;
  /** Whether there are more; `more` reads the next page. */
  hasMore: boolean;
  loadingMore: boolean;
  more: () => void;
  reload: () => void;
}

interface Held<P, T> {
  url: string;
  items: T[];
  first: P | undefined;
  cursor: string | undefined;
  error: HallError | null;
  busy: boolean;
}

/** Read a list page by page; `pick` takes the items out of a page. */
export function usePages<P extends { nextCursor?: string }, T>(
  path: string,
  query: Parameters,
  pick: (page: P) => T[],
): Pages<P, T> {
  const url = address(path, query);
  const empty: Held<P, T> = { url, items: [], first: undefined, cursor: undefined, error: null, busy: true };
  const [held, hold] = useState(empty);
  const running = useRef<AbortController | null>(null);

  const read = useCallback(
    async (before: Held<P, T> | null) => {
      running.current?.abort();
      const abort = new AbortController();
      running.current = abort;
      try {
        const page = await hall.get<P>(path, { query: { ...query, cursor: before?.cursor }, signal: abort.signal });
        const items = [...(before?.items ?? []), ...pick(page)];
        hold({ url, items, first: before?.first ?? page, cursor: page.nextCursor, error: null, busy: false });
      } catch (error) {
        if (abort.signal.aborted) return;
        const problem = error instanceof HallError ? error : new HallError(0, 'broken', String(error));
        hold((now) => ({ ...(now.url === url ? now : empty), error: problem, busy: false }));
      }
    },
    [url],
  );

  useEffect(() => {
    void read(null);
    return () => running.current?.abort();
  }, [read]);

  // The list of another address stays until the new one is there: a filter that is typed must not flicker.
  const more = () => {
    if (held.url !== url || held.busy || !held.cursor) return;
    hold({ ...held, busy: true });
    void read(held);
  };
  const known = held.first !== undefined;
  const state = held.error?.status === 403 ? 'forbidden' : held.error ? 'error' : known ? 'ready' : 'loading';
  return {
    items: held.items,
    first: held.first,
    state,
    error: held.error,
    hasMore: held.cursor !== undefined,
    loadingMore: held.busy && known,
    more,
    reload: () => void read(null),
  };
}
