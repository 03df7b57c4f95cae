/** The words of the chosen language: `t` for text, `rich` for text with elements in it. */

import type { ComponentChild } from 'preact';
import { en } from './en';
import type { accounts } from './en/accounts';
import type { addTool } from './en/add-tool';
import type { approvals } from './en/approvals';
import type { callers } from './en/callers';
import type { calls } from './en/calls';
import type { connect } from './en/connect';
import type { contracts } from './en/contracts';
import type { definition } from './en/definition';
import type { dialects } from './en/dialects';
import type { dialogs } from './en/dialogs';
import type { firstRun } from './en/first-run';
import type { form } from './en/form';
import type { grants } from './en/grants';
import type { health } from './en/health';
import type { limits } from './en/limits';
import type { overview } from './en/overview';
import type { review } from './en/review';
import type { secrets } from './en/secrets';
import type { servers } from './en/servers';
import type { settings } from './en/settings';
import type { tasks } from './en/tasks';
import type { toolCallers } from './en/tool-callers';
import type { tools } from './en/tools';
import type { tryIt } from './en/try-it';
import type { upstreams } from './en/upstreams';
import type { versions } from './en/versions';
import { pseudo } from './pseudo';

export type Plural = { readonly other: string } & Partial<Record<Intl.LDMLPluralRule, string>>;
type Message = string | Plural;
export type Messages = {
  readonly [section: string]: { readonly [name: string]: Message | { readonly [name: string]: Message } };
};

/** The key of every message: `section.name`, or `section.name.name`. */
type KeysOf<T> = T extends string | Plural
  ? never
  : { [K in keyof T & string]: T[K] extends string | Plural ? K : `${K}.${KeysOf<T[K]>}` }[keyof T & string];
type Words = typeof en &
  typeof accounts &
  typeof addTool &
  typeof approvals &
  typeof callers &
  typeof calls &
  typeof connect &
  typeof contracts &
  typeof definition &
  typeof dialects &
  typeof dialogs &
  typeof firstRun &
  typeof form &
  typeof grants &
  typeof health &
  typeof limits &
  typeof overview &
  typeof review &
  typeof secrets &
  typeof servers &
  typeof settings &
  typeof tasks &
  typeof toolCallers &
  typeof tools &
  typeof tryIt &
  typeof upstreams &
  typeof versions;
export type MessageKey = KeysOf<Words>;
export type Values = Record<string, string | number>;

export const LANGUAGES = ['en', 'pseudo', 'pseudo-rtl'] as const;
export type Language = (typeof LANGUAGES)[number];

let language: Language = 'en';
let english: Messages = en;
let messages: Messages = en;
let plural = new Intl.PluralRules('en');
/** The locale of numbers and dates: the browser's own as long as the words are of the same language. */
export let locale = 'en';

/** Add words that are loaded late; each module in `en/` calls it once, before anything of its screen is drawn. */
export function addWords<Late extends Messages>(late: Late): Late {
  english = { ...english, ...late };
  messages = { ...messages, ...(language === 'en' ? late : pseudo(late)) };
  return late;
}

/** Choose the language of all later calls; the whole page is drawn again by the caller. */
export function chooseLanguage(chosen: Language): void {
  language = chosen;
  messages = chosen === 'en' ? english : pseudo(english);
  const preferred = globalThis.navigator?.languages ?? [];
  locale = preferred.find((each) => each.split('-')[0] === 'en') ?? 'en';
  plural = new Intl.PluralRules(locale);
  if (typeof document !== 'undefined') {
    document.documentElement.lang = 'en';
    document.documentElement.dir = chosen === 'pseudo-rtl' ? 'rtl' : 'ltr';
  }
}

export const currentLanguage = (): Language => language;

/** The text of a message, with values in place of {names}; numbers are written as the language does. */
export function t(key: MessageKey, values: Values = {}): string {
  return parts(key, values.count).replace(/\{(\w+)\}/g, (_, name: string) => write(values[name], name));
}

/** Like `t`, with elements as values: the pieces in order, to be put into an element. */
export function rich(key: MessageKey, values: Record<string, ComponentChild>): ComponentChild[] {
  const count = values.count;
  return parts(key, typeof count === 'number' ? count : undefined)
    .split(/\{(\w+)\}/)
    .map((piece, index) => {
      if (index % 2 === 0) return piece;
      const value = values[piece];
      return typeof value === 'number' ? write(value, piece) : value;
    });
}

/** Whether there is a message of this key, for words that come from the hall, such as the names of outcomes. */
export function hasMessage(key: string): key is MessageKey {
  return find(key) !== undefined;
}

function find(key: string): Message | undefined {
  let found: unknown = messages;
  for (const name of key.split('.')) {
    found =
      typeof found === 'object' && found !== null && Object.hasOwn(found, name) ? (found as Messages)[name] : undefined;
  }
  return typeof found === 'string' || isPlural(found) ? found : undefined;
}

function isPlural(value: unknown): value is Plural {
  return typeof value === 'object' && value !== null && 'other' in value && typeof value.other === 'string';
}

function parts(key: string, count: string | number | undefined): string {
  const message = find(key);
  if (message === undefined) return key;
  if (typeof message === 'string') return message;
  return message[plural.select(Number(count ?? 0))] ?? message.other;
}

function write(value: string | number | undefined, name: string): string {
  if (value === undefined) return `{${name}}`;
  return typeof value === 'number' ? new Intl.NumberFormat(locale).format(value) : value;
}
