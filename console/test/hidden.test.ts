/** The rule of hidden and posing characters: the same vectors as tests/unit/web/test_html.py. */

import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { hiddenCharacters, markHidden, type Piece } from '../src/ui/hidden';

interface Vector {
  text: string;
  pieces: Piece[];
}

const VECTORS = JSON.parse(readFileSync(new URL('./hidden.json', import.meta.url), 'utf8')) as Vector[];

test.each(VECTORS)('$text', ({ text, pieces }) => {
  expect(markHidden(text)).toEqual(pieces);
});

test('hidden characters are named once each', () => {
  expect(hiddenCharacters('a\u200bb\u200bc\u202e').map((each) => each.code)).toEqual(['U+200B', 'U+202E']);
});

test.each([
  ['p\u0430ypal', { code: 'U+0430', kind: 'letter', like: 'a', script: 'Cyrillic' }],
  ['\u0391BC', { code: 'U+0391', kind: 'letter', like: 'A', script: 'Greek' }],
  ['a\u2010b', { code: 'U+2010', kind: 'form', like: '-', script: '' }],
  ['a\u202eb', { code: 'U+202E', kind: 'turns', like: '', script: '' }],
  ['a\u200bb', { code: 'U+200B', kind: 'unseen', like: '', script: '' }],
  ['a\ufeffb', { code: 'U+FEFF', kind: 'unseen', like: '', script: '' }],
])('%j is described', (text, character) => {
  expect(hiddenCharacters(text)).toEqual([character]);
});
