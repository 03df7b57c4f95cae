/** `useCards`: which cards of a grid are near the window; the others are empty space above and below it. */

import { useRef, useState } from 'preact/hooks';
import { MOST, useNearWindow } from '../../ui/near-window';

const MARGIN_ROWS = 4;

interface Seen {
  from: number;
  to: number;
  above: number;
  below: number;
}

/** All cards have one height; how many stand in a row depends on the width, and is measured. */
export function useCards(count: number, onEnd: () => void) {
  const place = useRef<HTMLUListElement>(null);
  const [seen, setSeen] = useState<Seen>({ from: 0, to: Math.min(count, MOST), above: 0, below: 0 });
  useNearWindow(count, () => {
    const list = place.current;
    const first = list?.firstElementChild;
    if (!list || !first || !list.parentElement) return;
    const style = getComputedStyle(list);
    const inRow = Math.max(1, style.gridTemplateColumns.split(' ').length);
    const height = first.getBoundingClientRect().height + (Number.parseFloat(style.rowGap) || 0);
    const rows = Math.ceil(count / inRow);
    const hidden = Math.floor(-list.parentElement.getBoundingClientRect().top / height);
    const firstRow = Math.max(0, Math.min(hidden - MARGIN_ROWS, rows - 1));
    const fits = Math.ceil(innerHeight / height) + 2 * MARGIN_ROWS;
    const lastRow = Math.min(rows, firstRow + Math.min(fits, Math.floor(MOST / inRow)));
    const now = {
      from: firstRow * inRow,
      to: Math.min(count, lastRow * inRow),
      above: firstRow * height,
      below: (rows - lastRow) * height,
    };
    if (lastRow >= rows - MARGIN_ROWS) onEnd();
    setSeen((before) =>
      Object.keys(now).every((key) => now[key as keyof Seen] === before[key as keyof Seen]) ? before : now,
    );
  });
  const from = Math.min(seen.from, Math.max(0, count - 1));
  return { ...seen, place, from, to: Math.min(count, Math.max(seen.to, from + 1)) };
}
