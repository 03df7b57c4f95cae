/**
 * Characters that print as nothing or pose as others: the same rule as `mark_hidden` of src/toolhall/web/html.py.
 *
 * console/test/hidden.json holds texts and their pieces; the tests of both languages read it.
 */

import { LOOKALIKES } from './lookalikes';

export interface Piece {
  text: string;
  /** Whether this is `<U+XXXX>` in place of a deceptive character. */
  hidden: boolean;
}

const PLAIN = /^[\x20-\x7e\n]*$/;
const UNPRINTABLE = /[\p{C}\p{Z}]/u;
// biome-ignore lint/suspicious/noMisleadingCharacterClass: the very characters that combine
const BLANK = /[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\u{e0100}-\u{e01ef}]/u;
const ACCENT = /[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]/u;
const WORD = /[\p{L}\p{Nl}\p{No}]/u;
const INVISIBLE = /[\p{Cf}\p{Mn}\p{Me}\p{Cc}]/u;

/** The text in pieces; the deceptive characters are pieces of their own. */
export function markHidden(text: string): Piece[] {
  if (PLAIN.test(text)) return text ? [{ text, hidden: false }] : [];
  const letters = [...text];
  const hidden = hiddenPositions(letters);
  const pieces: Piece[] = [];
  let plain = '';
  letters.forEach((letter, position) => {
    if (!hidden.has(position)) {
      plain += letter;
      return;
    }
    if (plain) pieces.push({ text: plain, hidden: false });
    plain = '';
    pieces.push({ text: `<${codePoint(letter)}>`, hidden: true });
  });
  if (plain) pieces.push({ text: plain, hidden: false });
  return pieces;
}

/** What a deceptive character does: it looks like an ASCII character, turns the direction, or cannot be seen. */
export interface HiddenCharacter {
  code: string;
  kind: 'letter' | 'form' | 'turns' | 'unseen';
  /** What it is taken for. */
  like: string;
  /** The script of a letter, in English, as Unicode names it. */
  script: string;
}

const SCRIPTS = ['Cyrillic', 'Greek', 'Armenian', 'Georgian', 'Cherokee', 'Hebrew', 'Latin'];
const TURNS = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/u;

/** The deceptive characters of a text, each once. */
export function hiddenCharacters(text: string): HiddenCharacter[] {
  const marks = new Set(markHidden(text).flatMap((each) => (each.hidden ? [each.text.slice(3, -1)] : [])));
  return [...marks].map((mark) => describe(String.fromCodePoint(Number.parseInt(mark, 16))));
}

function describe(letter: string): HiddenCharacter {
  const script = SCRIPTS.find((each) => new RegExp(`\\p{Script=${each}}`, 'u').test(letter)) ?? '';
  const plain = skeleton(letter);
  const like = letter === letter.toLowerCase() ? plain : plain.toUpperCase();
  const kind = TURNS.test(letter)
    ? 'turns'
    : !/^[!-~]+$/.test(like)
      ? 'unseen'
      : /\p{L}/u.test(letter) && script
        ? 'letter'
        : 'form';
  return { code: codePoint(letter), kind, like, script };
}

const codePoint = (letter: string): string =>
  `U+${(letter.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`;

function hiddenPositions(letters: string[]): Set<number> {
  const found = new Set<number>();
  letters.forEach((letter, position) => {
    if (letter !== '\n' && (!isPrintable(letter) || BLANK.test(letter) || isDisguisedAscii(letter)))
      found.add(position);
  });
  for (const part of words(letters)) {
    const lookalikes = part.letters.map(looksLatin);
    if (lookalikes.includes(true) && part.letters.every((letter, at) => isAscii(letter) || lookalikes[at])) {
      lookalikes.forEach((looks, at) => {
        if (looks) found.add(part.start + at);
      });
    }
  }
  return found;
}

/** Runs of letters, by position in code points. */
function* words(letters: string[]): Generator<{ start: number; letters: string[] }> {
  let run: string[] = [];
  for (let position = 0; position <= letters.length; position++) {
    const letter = letters[position];
    if (letter !== undefined && WORD.test(letter)) {
      run.push(letter);
    } else if (run.length) {
      yield { start: position - run.length, letters: run };
      run = [];
    }
  }
}

const isAscii = (text: string): boolean => [...text].every((letter) => letter <= '\x7f');
const isPrintable = (letter: string): boolean => letter === ' ' || !UNPRINTABLE.test(letter);

/** Whether this is another form of an ASCII character: full width, mathematical, a long dash, a loose accent. */
function isDisguisedAscii(letter: string): boolean {
  if (isAscii(letter)) return false;
  if (ACCENT.test(letter)) return true;
  const plain = skeleton(letter);
  return plain !== '' && isAscii(plain) && (!/\p{L}/u.test(letter) || isCompatibilityForm(letter));
}

const isCompatibilityForm = (letter: string): boolean =>
  letter.normalize('NFD') === letter && letter.normalize('NFKD') !== letter;

/** Whether a non-Latin letter looks like a Latin one; a Latin letter with a visible accent does not count. */
function looksLatin(letter: string): boolean {
  if (isAscii(letter) || letter.normalize('NFKD') !== letter) return false;
  const plain = skeleton(letter);
  return plain.length === 1 && isAscii(plain);
}

/** What a letter is taken for: without case, accents, width and script (`skeleton` of model/names.py). */
function skeleton(letter: string): string {
  return [...letter.normalize('NFKD').toLowerCase()]
    .map((each) => LOOKALIKES[each] ?? each)
    .filter((each) => !INVISIBLE.test(each))
    .join('');
}
