/** `DataTable`: rows of any number, of which only those near the window are in the document; j, k and Enter move in it. */

import type { ComponentChild } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { useListKeys } from '../app/keys';
import { t } from '../words/messages';
import { MOST, useNearWindow } from './near-window';

export interface Column<T> {
  id: string;
  head: ComponentChild;
  cell: (row: T) => ComponentChild;
  /** `end` for numbers; `optional` is left out below 52 rem; `second`, `last`: the second line, the end of a line there. */
  class?: string;
}

interface TableProps<T> {
  label: string;
  columns: Column<T>[];
  rows: readonly T[];
  rowKey: (row: T) => string;
  /** The key of the row that is chosen, from the address. */
  chosen?: string | undefined;
  /** What j and k do, and a click unless `onOpen` is there. */
  onChoose?: (row: T) => void;
  /** What Enter and a click do. */
  onOpen?: (row: T) => void;
  /** Called when the end comes near. */
  onEnd?: () => void;
  /** Two lines for each row on small screens. */
  twoLine?: boolean;
  class?: string;
}

/** Rows above and below what is seen. */
const MARGIN = 12;
const FIRST_HEIGHT = 38;

export function DataTable<T>(props: TableProps<T>) {
  const { label, columns, rows, rowKey, chosen, onChoose, onOpen, twoLine } = props;
  const table = useRef<HTMLTableElement>(null);
  const { from, to, height } = useWindow(table, rows.length, props.onEnd);
  const open = onOpen ?? onChoose;
  const choose = (row: T) => {
    (onChoose ?? onOpen)?.(row);
    reveal(table.current, rows.indexOf(row), height);
  };
  useListKeys(rows, (row) => rowKey(row) === chosen, choose, open);
  return (
    <div class="scroll">
      <table
        ref={table}
        class={`rows ${twoLine ? 'two-line' : ''} ${props.class ?? ''}`}
        aria-label={label}
        aria-rowcount={rows.length + 1}
      >
        <thead>
          <tr>
            {columns.map((each) => (
              <th key={each.id} scope="col" class={each.class}>
                {each.head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          <Gap rows={from} height={height} columns={columns.length} />
          {rows.slice(from, to).map((row, index) => (
            <tr
              key={rowKey(row)}
              class={rowKey(row) === chosen ? 'chosen' : undefined}
              aria-current={rowKey(row) === chosen ? 'true' : undefined}
              aria-rowindex={from + index + 2}
              data-open={open ? '' : undefined}
              onClick={open && ((event) => !isControl(event) && open(row))}
            >
              {columns.map((each) => (
                <td key={each.id} class={each.class}>
                  {each.cell(row)}
                </td>
              ))}
            </tr>
          ))}
          <Gap rows={rows.length - to} height={height} columns={columns.length} />
        </tbody>
      </table>
    </div>
  );
}

/** A button below a list that has more pages; near the end of a `DataTable` it is not needed. */
export function MoreButton({ onMore, busy }: { onMore: () => void; busy: boolean }) {
  return (
    <div class="state">
      <button type="button" class="button low" disabled={busy} onClick={onMore}>
        {t('shared.more')}
      </button>
    </div>
  );
}

// The height of the rows that are not in the document.
function Gap({ rows, height, columns }: { rows: number; height: number; columns: number }) {
  if (rows <= 0) return null;
  return (
    <tr class="gap" aria-hidden="true">
      <td colSpan={columns} style={{ height: `${rows * height}px` }} />
    </tr>
  );
}

const isControl = (event: MouseEvent): boolean =>
  (event.target as Element).closest('a, button, input, label, select') !== null || String(getSelection()) !== '';

function reveal(table: HTMLTableElement | null, index: number, height: number): void {
  const body = table?.tBodies[0];
  if (!body || index < 0) return;
  const top = body.getBoundingClientRect().top + index * height;
  if (top < 64) scrollBy(0, top - 64 - height);
  else if (top + height > innerHeight - 72) scrollBy(0, top + 2 * height - innerHeight + 72);
}

/** Which rows are near the window; the height of a row is measured, since it depends on the screen. */
function useWindow(table: { current: HTMLTableElement | null }, count: number, onEnd: (() => void) | undefined) {
  const [seen, setSeen] = useState({ from: 0, to: Math.min(count, MOST), height: FIRST_HEIGHT });
  useNearWindow(count, () => {
    const body = table.current?.tBodies[0];
    if (!body) return;
    const drawn = [...body.querySelectorAll<HTMLElement>(':scope > tr:not(.gap)')];
    const first = drawn[0]?.getBoundingClientRect();
    const last = drawn.at(-1)?.getBoundingClientRect();
    const height = first && last && drawn.length ? (last.bottom - first.top) / drawn.length : seen.height;
    const above = Math.floor(-body.getBoundingClientRect().top / height) - MARGIN;
    const from = Math.max(0, Math.min(above, count - 1));
    const to = Math.min(count, from + Math.min(MOST, Math.ceil(innerHeight / height) + 2 * MARGIN));
    if (to >= count - MARGIN) onEnd?.();
    if (from !== seen.from || to !== seen.to || Math.abs(height - seen.height) > 0.5) setSeen({ from, to, height });
  });
  const from = Math.max(0, Math.min(seen.from, count - 1));
  return { from, to: Math.min(count, Math.max(seen.to, Math.min(count, from + 2 * MARGIN))), height: seen.height };
}
