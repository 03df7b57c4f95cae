/** `Marks`: text from programs, with characters that cannot be seen or pose as others as `<U+XXXX>`. */

import type { ComponentChildren } from 'preact';
import { t } from '../words/messages';
import { hiddenCharacters, markHidden } from './hidden';
import { Icon } from './icon';

const MOST_NAMED = 20;
/** Longer texts are no names. */
const MOST_JOINED = 200;
/** Where a long name may be broken: behind a sign and before a version, not within a word or a number. */
const JOINTS = /(?<=[./:_-])(?=\p{L})|(?=@\d)/u;

/** A text that a program wrote: never markup, and nothing in it is hidden. `cut` shows its beginning only. */
export function Marks({ text, cut }: { text: string; cut?: number }) {
  const isCut = cut !== undefined && text.length > cut;
  return (
    <bdi>
      {markHidden(isCut ? text.slice(0, cut) : text).map((piece) =>
        piece.hidden ? <mark class="hidden">{piece.text}</mark> : breakable(piece.text),
      )}
      {isCut && '…'}
    </bdi>
  );
}

function breakable(text: string): ComponentChildren {
  const parts = text.length > MOST_JOINED ? [text] : text.split(JOINTS);
  return parts.length === 1 ? text : parts.map((part, place) => (place ? [<wbr key={place} />, part] : part));
}

/** The deceptive characters of texts in words, or nothing. */
export function MarksInWords({ texts }: { texts: string[] }) {
  const found = hiddenCharacters(texts.join('\n'));
  if (!found.length) return null;
  return (
    <div class="note" role="note">
      <Icon name="warning" />
      <div>
        <strong>{t('shared.hidden', { count: found.length })}</strong>{' '}
        {found.slice(0, MOST_NAMED).map(({ kind, ...character }) => (
          <span key={character.code}>{t(`shared.hiddenKinds.${kind}`, character)} </span>
        ))}
      </div>
    </div>
  );
}
