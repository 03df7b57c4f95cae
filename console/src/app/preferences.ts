/** What a person chose for this browser: theme, language, clock, single-letter keys. */

import { effect, signal } from '@preact/signals';
import { chooseLanguage, LANGUAGES, type Language } from '../words/messages';

export interface Preferences {
  theme: 'system' | 'light' | 'dark';
  language: 'system' | Language;
  clock: 'local' | 'utc';
  /** Whether single letters are shortcuts (WCAG 2.1.4: they can be turned off). */
  letters: boolean;
  /** The address of a call in a tracing system, with {call} in place of its id; empty for none. */
  trace: string;
}

const STORED = 'toolhall.console';
const DEFAULTS: Preferences = { theme: 'system', language: 'system', clock: 'local', letters: true, trace: '' };

export const preferences = signal<Preferences>(read());

/** Change some preferences; they are kept in this browser. */
export function prefer(changes: Partial<Preferences>): void {
  preferences.value = { ...preferences.value, ...changes };
  try {
    localStorage.setItem(STORED, JSON.stringify(preferences.value));
  } catch {
    // a browser without storage forgets them with the page
  }
}

/** Apply theme and language to the page, now and at each change. */
export function applyPreferences(): void {
  const asked = new URLSearchParams(location.search).get('lang');
  effect(() => {
    const { theme, language } = preferences.value;
    if (theme === 'system') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    const chosen = asked ?? language;
    chooseLanguage(isLanguage(chosen) ? chosen : 'en');
  });
}

/** Where the spans of a call are shown, if this person said where; they have its id as `toolhall.call.id`. */
export function traceAddress(call: string): string | null {
  const { trace } = preferences.value;
  return isTracePattern(trace) ? trace.replaceAll('{call}', encodeURIComponent(call)) : null;
}

/** Whether a pattern is an address of the web with a place for the call. */
export const isTracePattern = (text: string): boolean => /^https?:\/\/[^\s]+$/.test(text) && text.includes('{call}');

function isLanguage(value: string): value is Language {
  return (LANGUAGES as readonly string[]).includes(value);
}

function read(): Preferences {
  try {
    const stored: unknown = JSON.parse(globalThis.localStorage?.getItem(STORED) ?? '{}');
    const known = Object.entries(stored ?? {}).filter(
      ([name, value]) => name in DEFAULTS && typeof value === typeof DEFAULTS[name as keyof Preferences],
    );
    return { ...DEFAULTS, ...Object.fromEntries(known) };
  } catch {
    return DEFAULTS;
  }
}
