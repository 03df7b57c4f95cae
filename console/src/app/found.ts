/** What Find finds: screens and actions at once, tools and callers as the hall finds them, a call by its whole id. */

import { hall } from '../api/client';
import { mayLook, mayManage } from '../api/me';
import type { AuditPage, CallerRow, ToolPage } from '../api/types';
import type { IconName } from '../ui/icon';
import { type MessageKey, t } from '../words/messages';
import { overlay } from './keys';
import { ICON_OF, pageOf } from './kinds';
import { href, navigate } from './router';
import { SECTIONS } from './sections';

export interface Found {
  group: MessageKey;
  icon: IconName;
  title: string;
  detail?: string;
  go: () => void;
}

const MOST = 8;
const CALL_ID = /^[\w-]{8,64}$/;

/** Screens and actions, at once. */
export function local(words: string): Found[] {
  const screens: Found[] = SECTIONS.filter((each) => each.may()).map((each) => ({
    group: 'find.screens',
    icon: each.icon,
    title: t(each.title),
    go: () => navigate(href(each.name ? [each.name] : [])),
  }));
  const actions: Found[] = [
    action('find.connect', 'plug', () => {
      overlay.value = 'connect';
    }),
  ];
  if (mayManage()) {
    actions.push(action('find.makeKey', 'key', () => navigate(href(['callers'], { new: 'key' }))));
    actions.push(action('find.addTool', 'plus', () => navigate(href(['tools'], { new: 'tool' }))));
  }
  if (mayLook()) actions.push(action('find.why', 'grant', () => navigate(href(['grants', 'why']))));
  const plain = words.toLowerCase();
  return [...screens, ...actions].filter((each) => each.title.toLowerCase().includes(plain));
}

const action = (title: MessageKey, icon: IconName, go: () => void): Found => ({
  group: 'find.actions',
  icon,
  title: t(title),
  go,
});

/** What the hall finds. */
export async function remote(words: string, signal: AbortSignal): Promise<Found[]> {
  const results = await Promise.all([tools(words, signal), callers(words, signal), call(words, signal)]);
  return results.flat();
}

async function tools(query: string, signal: AbortSignal): Promise<Found[]> {
  const page = await hall.get<ToolPage>('api/tools', { query: { query, limit: MOST }, signal }).catch(() => null);
  return (page?.tools ?? []).slice(0, MOST).map((each) => ({
    group: `find.kinds.${each.kind}`,
    icon: ICON_OF[each.kind],
    title: each.id,
    detail: each.description,
    go: () => navigate(pageOf(each, 'try')),
  }));
}

async function callers(words: string, signal: AbortSignal): Promise<Found[]> {
  if (!mayLook()) return [];
  const page = await hall.get<{ callers: CallerRow[] }>('api/callers', { signal }).catch(() => null);
  return (page?.callers ?? [])
    .filter((each) => each.name.toLowerCase().includes(words.toLowerCase()))
    .slice(0, MOST)
    .map((each) => ({
      group: 'find.callers',
      icon: 'key',
      title: each.name,
      go: () => navigate(href(['callers', each.name])),
    }));
}

// Asked as a list: an unknown id is an empty one, not an error.
async function call(id: string, signal: AbortSignal): Promise<Found[]> {
  if (!CALL_ID.test(id) || !/\d/.test(id)) return [];
  const page = await hall.get<AuditPage>('api/audit', { query: { call: id, limit: 1 }, signal }).catch(() => null);
  return (page?.records ?? []).map((each) => ({
    group: 'find.calls',
    icon: 'calls',
    title: each.call,
    detail: each.tool,
    go: () => navigate(href(['calls', each.call])),
  }));
}
