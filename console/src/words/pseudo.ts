/** The pseudo-language: English with accents and a third longer, so that tests see words that are not in the message file. */

import type { Messages, Plural } from './messages';

const ACCENTED: Record<string, string> = {};
const PLAIN = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ';
const ACCENTS = 'áƀçđéƒĝĥíĵķłɱñóþǫřšŧúṽŵẋýžÁƁÇĐÉƑĜĤÍĴĶŁṀÑÓÞǪŘŠŦÚṼŴẊÝŽ';
[...PLAIN].forEach((letter, index) => {
  ACCENTED[letter] = [...ACCENTS][index] ?? letter;
});

/** One message: `{names}` stay, letters get accents, and the end is longer, in brackets that show a cut. */
export function pseudoText(text: string): string {
  const letters = text
    .split(/(\{\w+\})/)
    .map((piece, index) => (index % 2 ? piece : [...piece].map((letter) => ACCENTED[letter] ?? letter).join('')))
    .join('');
  return `⟦${letters}${'·'.repeat(Math.ceil(text.replace(/\{\w+\}/g, '').length / 3))}⟧`;
}

/** A whole message file in the pseudo-language. */
export function pseudo(messages: Messages): Messages {
  return walk(messages) as Messages;
}

type Node = string | Plural | { readonly [name: string]: Node };

function walk(node: Node): Node {
  if (typeof node === 'string') return pseudoText(node);
  return Object.fromEntries(Object.entries(node).map(([name, each]) => [name, walk(each as Node)]));
}
