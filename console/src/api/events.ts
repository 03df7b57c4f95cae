/**
 * What happens in the hall, live: one stream of server-sent events for the whole window, shared by all who listen.
 *
 * A browser opens at most six connections to a host, so there is one stream, whose topics are those of all listeners. It
 * resumes where it broke (the browser sends the last id), and is closed while nobody sees the window.
 */

import { signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { address, type Parameters } from './client';
import { askWhoIAm, mayLook } from './me';
import type { HallEvent } from './types';

export type Topic = HallEvent['topic'];
export type EventOf<T extends Topic> = Extract<HallEvent, { topic: T }>;

const TOPICS: Topic[] = ['calls', 'approvals', 'tools', 'servers', 'upstreams', 'health', 'audit'];
const STALE_MS = 5_000;
const HIDDEN_MS = 60_000;
const RETRY_MS = 2_000;

/** Since when there is no news; null while the stream is there. The frame shows a line about it. */
export const staleSince = signal<Date | null>(null);

interface Listener {
  topics: readonly Topic[];
  /** Filters of `GET api/audit`, for the topic `calls`. */
  filters: Parameters;
  hear: (event: HallEvent) => void;
  /** The stream was away: what is shown may be old. */
  missed: (() => void) | undefined;
}

const listeners = new Set<Listener>();
let source: EventSource | null = null;
let opened = '';
let lastId = '';
let wasOpen = false;
let planned: ReturnType<typeof setTimeout> | undefined;
let staleTimer: ReturnType<typeof setTimeout> | undefined;
let hiddenTimer: ReturnType<typeof setTimeout> | undefined;

/** Hear events of some topics until the answer is called. Only one listener at a time can filter `calls`. */
export function listen(
  topics: readonly Topic[],
  hear: (event: HallEvent) => void,
  options: { filters?: Parameters; missed?: () => void } = {},
): () => void {
  const listener: Listener = { topics, hear, filters: options.filters ?? {}, missed: options.missed };
  listeners.add(listener);
  plan();
  return () => {
    listeners.delete(listener);
    plan();
  };
}

/** `listen` for as long as a component is shown. */
export function useEvents(
  topics: readonly Topic[],
  hear: (event: HallEvent) => void,
  options: { filters?: Parameters; missed?: () => void } = {},
): void {
  const latest = useRef({ hear, missed: options.missed });
  latest.current = { hear, missed: options.missed };
  const key = JSON.stringify([topics, options.filters]);
  useEffect(() => {
    if (!topics.length) return;
    return listen(topics, (event) => latest.current.hear(event), {
      filters: options.filters ?? {},
      missed: () => latest.current.missed?.(),
    });
  }, [key]);
}

/** Follow whether the window is seen; called once by the frame. */
export function followVisibility(): () => void {
  const follow = () => {
    clearTimeout(hiddenTimer);
    if (document.visibilityState === 'visible') plan();
    else hiddenTimer = setTimeout(() => close(), HIDDEN_MS);
  };
  document.addEventListener('visibilitychange', follow);
  return () => document.removeEventListener('visibilitychange', follow);
}

// Who may not look at the hall hears nothing of it; `useResource` reads again from time to time then.
function wanted(): string {
  if (!mayLook()) return '';
  const topics = TOPICS.filter((topic) => [...listeners].some((each) => each.topics.includes(topic)));
  if (!topics.length) return '';
  const ofCalls = [...listeners].filter((each) => each.topics.includes('calls'));
  // Two listeners with different filters: unfiltered, so that neither misses anything.
  const filters = new Set(ofCalls.map((each) => JSON.stringify(each.filters)));
  return address('api/events', { topics: topics.join(','), ...(filters.size === 1 ? ofCalls[0]?.filters : {}) });
}

// Listeners come and go together when a screen changes: one change of the stream for all of them.
function plan(): void {
  clearTimeout(planned);
  planned = setTimeout(() => {
    const url = wanted();
    if (url === opened && source && source.readyState !== EventSource.CLOSED) return;
    close();
    if (url) open(url);
  }, 20);
}

function open(url: string): void {
  opened = url;
  source = new EventSource(url);
  source.onopen = () => {
    clearTimeout(staleTimer);
    staleTimer = undefined;
    staleSince.value = null;
    if (wasOpen) for (const each of listeners) each.missed?.();
    wasOpen = true;
  };
  source.onerror = () => broke();
  for (const topic of TOPICS) source.addEventListener(topic, (message) => hear(topic, message));
}

function hear(topic: Topic, message: MessageEvent<string>): void {
  lastId = message.lastEventId || lastId;
  const event = { ...JSON.parse(message.data), topic } as HallEvent;
  for (const each of [...listeners]) if (each.topics.includes(topic)) each.hear(event);
}

// The browser tries again by itself, unless the hall refused the stream: then ask who we are, which says why.
function broke(): void {
  const at = new Date();
  staleTimer ??= setTimeout(() => {
    staleSince.value ??= at;
  }, STALE_MS);
  if (source?.readyState !== EventSource.CLOSED) return;
  setTimeout(async () => {
    if (await askWhoIAm().catch(() => false)) plan();
    else if (opened) broke();
  }, RETRY_MS);
}

function close(): void {
  source?.close();
  source = null;
  opened = '';
}

/** The id of the newest event that came. */
export const newestEvent = (): string => lastId;
