/** `Matrix`: verdicts of rows by columns; the arrow keys move in it, focus and hover say the rule. */

import type { ComponentChild } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { t } from '../words/messages';
import { Icon, type IconName } from './icon';
import { Marks } from './marks';
import { arrowStep } from './tabs';

export type Verdict = 'yes' | 'if' | 'asks' | 'no';

interface MatrixProps {
  label: string;
  rows: readonly string[];
  columns: readonly string[];
  /** The verdict of a cell; null where nothing is known. */
  cell: (row: string, column: string) => { verdict: Verdict; words: string } | null;
  /** The head of a row or column, if it is more than its name. */
  head?: (name: string) => ComponentChild;
  onOpen?: (row: string, column: string) => void;
}

export const VERDICT_ICONS: Record<Verdict, IconName> = { yes: 'check', if: 'filter', asks: 'approval', no: 'minus' };
export const VERDICT_TONES = { yes: 'ok', if: 'accent', asks: 'person', no: 'plain' } as const;

export function Matrix({
  label,
  rows,
  columns,
  cell,
  head = (name) => <Marks text={name} cut={40} />,
  onOpen,
}: MatrixProps) {
  const [[row, column], move] = useState<[number, number]>([0, 0]);
  const table = useRef<HTMLTableElement>(null);
  const press = (event: KeyboardEvent) => {
    const down = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0;
    const across = arrowStep(event, table.current);
    if (!down && !across) return;
    event.preventDefault();
    const to: [number, number] = [clamp(row + down, rows.length), clamp(column + across, columns.length)];
    move(to);
    table.current?.querySelector<HTMLElement>(`[data-cell="${to.join()}"]`)?.focus();
  };
  return (
    <div class="scroll">
      <table class="matrix" ref={table} aria-label={label} onKeyDown={press}>
        <thead>
          <tr>
            <th scope="col">
              <span class="sr">{label}</span>
            </th>
            {columns.map((each) => (
              <th key={each} scope="col" title={each}>
                {head(each)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((name, down) => (
            <tr key={name}>
              <th scope="row">{head(name)}</th>
              {columns.map((each, across) => {
                const found = cell(name, each);
                if (!found) return <td key={each} />;
                return (
                  <td key={each}>
                    <button
                      type="button"
                      class={found.verdict}
                      data-cell={`${down},${across}`}
                      tabIndex={down === row && across === column ? 0 : -1}
                      title={found.words}
                      aria-label={`${t(`matrix.${found.verdict}`)}: ${found.words}`}
                      onFocus={() => move([down, across])}
                      onClick={() => onOpen?.(name, each)}
                    >
                      <Icon name={VERDICT_ICONS[found.verdict]} />
                    </button>
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const clamp = (value: number, count: number): number => Math.max(0, Math.min(count - 1, value));
