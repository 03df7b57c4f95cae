/** What waits for this very person, in one answer: the badges of the side bar, and the cards of the Overview. */

import { signal } from '@preact/signals';
import { useLayoutEffect } from 'preact/hooks';
import type { Topic } from '../api/events';
import { useResource } from '../api/resource';
import type { Needs } from '../api/types';

/** Null until the hall has said it: a badge that cannot be counted is none. */
export const needs = signal<Needs | null>(null);

const TOPICS: readonly Topic[] = ['approvals', 'health', 'tools', 'servers', 'upstreams', 'audit'];

/** Ask now and whenever something of it changes; used once, by the frame. */
export function useNeeds(): void {
  const found = useResource<Needs>('api/needs', { topics: TOPICS });
  useLayoutEffect(() => {
    needs.value = found.data ?? null;
  }, [found.data]);
}

/** How many things wait for the person at a screen. */
export function badge(screen: string): number {
  if (screen === 'upstreams') return (needs.value?.upstreams ?? []).reduce((sum, each) => sum + each.waiting, 0);
  return screen === 'approvals' || screen === 'review' ? (needs.value?.[screen].count ?? 0) : 0;
}
