/** A document line by line, with notes (findings, problems) below the line that they are about; and one finding. */

import { useMemo } from 'preact/hooks';
import type { Finding } from '../../api/types';
import { markedText } from '../../forms/words';
import { type Exact, readJson, writeJson } from '../../json/exact';
import { CopyButton } from '../../ui/basics';
import { Icon } from '../../ui/icon';
import { Marks } from '../../ui/marks';
import { rich } from '../../words/messages';
import '../../words/en/definition';

export interface LineNote {
  path: string;
  text: string;
  severity: string;
}

const MOST_LINES = 2_000;

export function Document({ value, label, notes = [] }: { value: Exact; label: string; notes?: readonly LineNote[] }) {
  const text = useMemo(() => writeJson(value, 2), [value]);
  const lines = useMemo(() => text.split('\n').slice(0, MOST_LINES), [text]);
  const byLine = useMemo(() => notesByLine(text, notes), [text, notes]);
  return (
    <div class="copyable">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls can be reached by keyboard */}
      <pre class="document" role="group" tabIndex={0} aria-label={label}>
        {lines.map((line, index) => (
          <>
            <Marks text={line} />
            {'\n'}
            {byLine.get(index)?.map((note) => (
              <span key={note.path + note.text} class={`line-note ${note.severity}`}>
                <Icon name="warning" />
                <Marks text={note.text} cut={400} />
              </span>
            ))}
          </>
        ))}
        {text.length > 0 && lines.length === MOST_LINES && '…'}
      </pre>
      <CopyButton text={text} />
    </div>
  );
}

/** The line of each note: that of its place, or of the nearest around it. */
export function notesByLine(text: string, notes: readonly LineNote[]): Map<number, LineNote[]> {
  const found = new Map<number, LineNote[]>();
  if (notes.length === 0) return found;
  const { places } = readJson(text);
  for (const note of notes) {
    let path = note.path;
    while (path !== '' && !places.has(path)) path = path.slice(0, path.lastIndexOf('/'));
    const line = text.slice(0, places.get(path)?.[0] ?? 0).split('\n').length - 1;
    found.set(line, [...(found.get(line) ?? []), note]);
  }
  return found;
}

/** What lint says of a definition, beside its place. */
export function FindingLine({ finding, place = false }: { finding: Finding; place?: boolean }) {
  return (
    <p class={`finding ${finding.severity}`}>
      <Icon name="warning" />
      <span>
        <code>{finding.rule}</code> <Marks text={finding.fix} cut={500} />
        {place && (
          <span class="faint">
            {' '}
            {rich('definition.finding', { path: <code>{markedText(finding.path || '/')}</code> })}
          </span>
        )}
      </span>
    </p>
  );
}
