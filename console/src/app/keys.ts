/** The one table of keys, and who answers them. `?` shows it; each visible button shows its key. */

import { signal } from '@preact/signals';
import { useLayoutEffect, useRef } from 'preact/hooks';
import type { MessageKey } from '../words/messages';
import { preferences } from './preferences';
import { href, navigate } from './router';

export type KeyAction =
  | 'goOverview'
  | 'goTools'
  | 'goCalls'
  | 'goApprovals'
  | 'find'
  | 'next'
  | 'previous'
  | 'open'
  | 'close'
  | 'edit'
  | 'pause'
  | 'run'
  | 'help';

interface KeyEntry {
  /** Alternatives, each a sequence: `['g', 'o']` is g, then o. */
  keys: string[][];
  does: MessageKey;
}

export const KEYS: Record<KeyAction, KeyEntry> = {
  goOverview: { keys: [['g', 'o']], does: 'keys.goOverview' },
  goTools: { keys: [['g', 't']], does: 'keys.goTools' },
  goCalls: { keys: [['g', 'c']], does: 'keys.goCalls' },
  goApprovals: { keys: [['g', 'a']], does: 'keys.goApprovals' },
  find: { keys: [['Ctrl K'], ['/']], does: 'keys.find' },
  next: { keys: [['j']], does: 'keys.next' },
  previous: { keys: [['k']], does: 'keys.previous' },
  open: { keys: [['Enter']], does: 'keys.open' },
  close: { keys: [['Esc']], does: 'keys.close' },
  edit: { keys: [['e']], does: 'keys.edit' },
  pause: { keys: [['p']], does: 'keys.pause' },
  run: { keys: [['Ctrl Enter']], does: 'keys.run' },
  help: { keys: [['?']], does: 'keys.help' },
};

const SEQUENCE_MS = 1_500;

/** What the frame shows over the page. */
export const overlay = signal<'find' | 'help' | 'connect' | 'preferences' | null>(null);

type Handlers = Partial<Record<KeyAction, () => unknown>>;
const stack: Handlers[] = [];

const frame: Handlers = {
  goOverview: () => navigate(href([])),
  goTools: () => navigate(href(['tools'])),
  goCalls: () => navigate(href(['calls'])),
  goApprovals: () => navigate(href(['approvals'])),
  find: () => {
    overlay.value = 'find';
  },
  help: () => {
    overlay.value = 'help';
  },
};

/** Answer keys while a component is shown; who came last is asked first. A handler that returns false did nothing. */
export function useKeys(handlers: Handlers): void {
  const latest = useRef(handlers);
  latest.current = handlers;
  // Before the browser paints: a key that is pressed as soon as a screen is seen must not be lost.
  useLayoutEffect(() => {
    const entry: Handlers = new Proxy({}, { get: (_, action: KeyAction) => latest.current[action] });
    stack.push(entry);
    return () => {
      stack.splice(stack.indexOf(entry), 1);
    };
  }, []);
}

/** Follow the keyboard; called once by the frame. */
export function followKeyboard(): () => void {
  let pressed: string[] = [];
  let timer: ReturnType<typeof setTimeout> | undefined;
  const follow = (event: KeyboardEvent) => {
    const key = nameOf(event);
    if (key === null || event.isComposing) return;
    const sequence = [...pressed, key];
    clearTimeout(timer);
    pressed = [];
    const action = find(sequence) ?? find([key]);
    if (action && mayFire(event, key)) {
      if (act(action)) event.preventDefault();
    } else if (begins(key) && mayFire(event, key)) {
      pressed = [key];
      timer = setTimeout(() => {
        pressed = [];
      }, SEQUENCE_MS);
    }
  };
  addEventListener('keydown', follow);
  return () => removeEventListener('keydown', follow);
}

function nameOf(event: KeyboardEvent): string | null {
  if (event.altKey) return null;
  const held = event.ctrlKey || event.metaKey;
  if (event.key === 'Escape') return 'Esc';
  if (event.key === 'Enter') return held ? 'Ctrl Enter' : 'Enter';
  if (event.key.length !== 1) return null;
  return held ? `Ctrl ${event.key.toUpperCase()}` : event.key;
}

const same = (left: string[], right: string[]): boolean => left.join(' ') === right.join(' ');
const find = (sequence: string[]): KeyAction | undefined =>
  (Object.keys(KEYS) as KeyAction[]).find((action) => KEYS[action].keys.some((keys) => same(keys, sequence)));
const begins = (key: string): boolean =>
  Object.values(KEYS).some((entry) => entry.keys.some((keys) => keys.length > 1 && keys[0] === key));

// Single letters never fire inside fields, in a dialog, or where they are turned off; Enter never on a link or button.
function mayFire(event: KeyboardEvent, key: string): boolean {
  const target = event.target instanceof Element ? event.target : null;
  const inDialog = document.querySelector('dialog[open]') !== null;
  if (key.startsWith('Ctrl ')) return !inDialog || key === 'Ctrl Enter';
  if (inDialog) return false;
  if (key === 'Esc') return !event.defaultPrevented;
  if (target?.closest('input, textarea, select, [contenteditable], [role="combobox"], [role="menu"]')) return false;
  if (key === 'Enter') return !target?.closest('a, button, summary, [role="button"]');
  return preferences.value.letters;
}

function act(action: KeyAction): boolean {
  for (const handlers of [...stack].reverse().concat(frame)) {
    const handler = handlers[action];
    if (handler && handler() !== false) return true;
  }
  return false;
}

/** j, k and Enter in a list whose selected row is in the address. */
export function useListKeys<T>(
  items: readonly T[],
  isSelected: (item: T) => boolean,
  select: (item: T) => void,
  open?: (item: T) => void,
): void {
  const move = (step: 1 | -1) => {
    if (!items.length) return false;
    const at = items.findIndex(isSelected);
    const to = at < 0 ? (step > 0 ? 0 : items.length - 1) : Math.min(items.length - 1, Math.max(0, at + step));
    const item = items[to];
    if (item !== undefined) select(item);
    return true;
  };
  useKeys({
    next: () => move(1),
    previous: () => move(-1),
    open: () => {
      const item = items.find(isSelected);
      if (item === undefined || !open) return false;
      open(item);
      return true;
    },
  });
}
