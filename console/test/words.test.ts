/** Messages, the pseudo-language and formats. */

import { readdirSync, readFileSync } from 'node:fs';
import { afterEach, expect, test } from 'vitest';
import { en } from '../src/words/en';
import { overview } from '../src/words/en/overview';
import { bytes, duration, span } from '../src/words/format';
import { chooseLanguage, type Messages, rich, t } from '../src/words/messages';
import { pseudo, pseudoText } from '../src/words/pseudo';

afterEach(() => chooseLanguage('en'));

test('a plural is chosen by the count, and numbers are written as the language does', () => {
  expect(t('overview.tools', { count: 1 })).toBe('1 tool');
  expect(t('overview.tools', { count: 12_345 })).toBe('12,345 tools');
});

test('values may be elements', () => {
  const element = { type: 'b', props: {}, key: null } as never;
  expect(rich('overview.change', { who: element, what: 'removed', tool: 'A.b' })).toEqual([
    '',
    element,
    ' ',
    'removed',
    ' ',
    'A.b',
    '',
  ]);
});

test('text in values is not read as a message', () => {
  expect(t('overview.change', { who: '{tool}', what: 'x', tool: 'y' })).toBe('{tool} x y');
});

test('the pseudo-language keeps names and changes every letter', () => {
  expect(pseudoText('Open {tool} now')).toMatch(/^⟦Óþéñ \{tool\} ñóŵ·+⟧$/);
  const letters = JSON.stringify(leaves(pseudo({ ...en, ...overview })).map((each) => each.replace(/\{\w+\}/g, '')));
  expect(letters.match(/[A-Za-z]{2,}/g)).toBeNull();
  chooseLanguage('pseudo');
  expect(t('overview.tools', { count: 2 })).toContain('ŧóółš');
});

test('words that are loaded late are in the chosen language, and follow a later choice', async () => {
  chooseLanguage('pseudo');
  expect(t('secrets.name')).toBe('secrets.name');
  await import('../src/words/en/secrets');
  expect(t('secrets.name')).toContain('Ñá');
  chooseLanguage('en');
  expect(t('secrets.name')).toBe('Name');
});

test('a file imports the words that it uses', () => {
  const late = new Map<string, string>();
  const words = new URL('../src/words/en/', import.meta.url);
  for (const name of readdirSync(words)) {
    for (const [, section] of readFileSync(new URL(name, words), 'utf8').matchAll(/^ {2}(\w+): \{/gm)) {
      if (section) late.set(section, name.replace('.ts', ''));
    }
  }
  const source = new URL('../src/', import.meta.url);
  const files = readdirSync(source, { recursive: true, encoding: 'utf8' }).filter((name) => /\.tsx?$/.test(name));
  const missing = files.flatMap((name) => {
    const text = readFileSync(new URL(name, source), 'utf8');
    const used = [...text.matchAll(/\b(?:t|rich)\(\s*['`](\w+)\./g)].map(([, section]) => late.get(section ?? ''));
    return used.filter((each) => each && !text.includes(`words/en/${each}'`)).map((each) => `${name}: ${each}`);
  });
  expect(late.size).toBeGreaterThan(20);
  expect(missing).toEqual([]);
});

test('durations, spans and bytes are short', () => {
  expect(duration(12)).toBe('12 μs');
  expect(duration(412)).toBe('412 μs');
  expect(duration(8_250_000)).toBe('8.25 s');
  expect(span(250)).toBe('4 min 10 s');
  expect(span(90_000)).toBe('1 day 1 hr');
  expect(bytes(999)).toBe('999 bytes');
  expect(bytes(1_500_000)).toBe('1.5 MB');
});

function leaves(node: Messages | unknown): string[] {
  if (typeof node === 'string') return [node];
  return Object.values(node as object).flatMap(leaves);
}
