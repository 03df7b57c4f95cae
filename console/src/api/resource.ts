/** `useResource`: one value of the hall with all its states, read again when something that it depends on happens. */

import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { address, HallError, hall, type Parameters } from './client';
import { type Topic, useEvents } from './events';
import { mayLook } from './me';
import type { HallEvent } from './types';

export interface Resource<T> {
  /** The newest value; also there while it is read again, and after that failed. */
  data: T | undefined;
  state: 'loading' | 'ready' | 'error' | 'forbidden';
  error: HallError | null;
  /** When `data` was read. */
  at: Date | null;
  /** Read it again. */
  reload: () => Promise<void>;
  /** Put another value in its place, such as the answer to a change. */
  set: (data: T) => void;
}

export interface ResourceOptions {
  query?: Parameters;
  /** Events of these topics make it be read again, at most once a second. */
  topics?: readonly Topic[];
  /** Which of these events matter; all by default. */
  matters?: (event: HallEvent) => boolean;
  /** Read it again after so many seconds, as long as the window is seen. */
  every?: number;
}

const LEAST_MS = 1_000;
/** Who may not hear the events of a resource reads it again after so long. */
const UNHEARD_SECONDS = 15;
/** What was read last of each address, to be shown at once when a screen comes back, until the new answer is there. */
const remembered = new Map<string, { data: unknown; at: Date }>();
const MOST_REMEMBERED = 40;

/** Read `path` (null: not yet). Words about loading, errors and missing rights: the component `Loaded`. */
export function useResource<T>(path: string | null, options: ResourceOptions = {}): Resource<T> {
  const url = path === null ? null : address(path, options.query);
  const [held, hold] = useState<Held<T>>(() => start<T>(url));
  const current = useRef(url);
  const running = useRef<AbortController | null>(null);
  const readAt = useRef(0);
  const later = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);

  const reload = useCallback(async () => {
    if (path === null || url === null) return;
    running.current?.abort();
    const abort = new AbortController();
    running.current = abort;
    readAt.current = Date.now();
    try {
      const data = await hall.get<T>(path, { query: options.query ?? {}, signal: abort.signal });
      if (abort.signal.aborted) return;
      remember(url, data);
      hold({ url, data, error: null, at: new Date() });
    } catch (error) {
      if (abort.signal.aborted) return;
      const problem = error instanceof HallError ? error : new HallError(0, 'broken', String(error));
      hold((before) => ({ ...(before.url === url ? before : start<T>(url)), error: problem }));
    }
  }, [url]);

  // Many events in a second are one reading, a second after the last one began.
  const soon = useCallback(() => {
    if (later.current !== undefined) return;
    const wait = Math.max(0, readAt.current + LEAST_MS - Date.now());
    later.current = setTimeout(() => {
      later.current = undefined;
      void reload();
    }, wait);
  }, [reload]);

  useEffect(() => {
    current.current = url;
    if (held.url !== url) hold(start<T>(url));
    void reload();
    return () => {
      running.current?.abort();
      clearTimeout(later.current);
      later.current = undefined;
    };
  }, [url, reload]);

  const every = options.every ?? (options.topics && !mayLook() ? UNHEARD_SECONDS : 0);
  useEffect(() => {
    if (!every || url === null) return;
    const timer = setInterval(() => document.visibilityState === 'visible' && soon(), every * 1000);
    return () => clearInterval(timer);
  }, [every, url, soon]);

  useEvents(url === null ? [] : (options.topics ?? []), (event) => (options.matters?.(event) ?? true) && soon(), {
    missed: soon,
  });

  const shown = held.url === url ? held : start<T>(url);
  const set = useCallback((data: T) => hold({ url, data, error: null, at: new Date() }), [url]);
  return { data: shown.data, error: shown.error, at: shown.at, state: stateOf(shown), reload, set };
}

interface Held<T> {
  url: string | null;
  data: T | undefined;
  error: HallError | null;
  at: Date | null;
}

function start<T>(url: string | null): Held<T> {
  const known = url === null ? undefined : remembered.get(url);
  return { url, data: known?.data as T | undefined, error: null, at: known?.at ?? null };
}

function stateOf<T>({ data, error }: Held<T>): Resource<T>['state'] {
  if (error?.status === 403) return 'forbidden';
  if (error && data === undefined) return 'error';
  return data === undefined ? 'loading' : 'ready';
}

function remember(url: string, data: unknown): void {
  remembered.delete(url);
  remembered.set(url, { data, at: new Date() });
  const oldest = remembered.keys().next().value;
  if (remembered.size > MOST_REMEMBERED && oldest !== undefined) remembered.delete(oldest);
}

/** Forget what was read: another person may have signed in. */
export function forgetResources(): void {
  remembered.clear();
}
