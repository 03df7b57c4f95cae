/** The difference of two documents, line by line. */

export interface LineChange {
  kind: 'same' | 'added' | 'removed';
  text: string;
}

const MOST_CELLS = 4_000_000;

/** What was removed and added, in order; lines before and after that are equal are found without comparing all. */
export function lineChanges(before: string[], after: string[]): LineChange[] {
  let start = 0;
  while (start < Math.min(before.length, after.length) && before[start] === after[start]) start++;
  let end = 0;
  while (end < Math.min(before.length, after.length) - start && before.at(-1 - end) === after.at(-1 - end)) end++;
  const [old, now] = [before.slice(start, before.length - end), after.slice(start, after.length - end)];
  const same = (text: string): LineChange => ({ kind: 'same', text });
  return [...before.slice(0, start).map(same), ...middle(old, now), ...before.slice(before.length - end).map(same)];
}

// The longest common subsequence; of what is too large, all is removed and all is added.
function middle(old: string[], now: string[]): LineChange[] {
  const width = now.length + 1;
  if (old.length * now.length > MOST_CELLS) {
    return [
      ...old.map((text): LineChange => ({ kind: 'removed', text })),
      ...now.map((text): LineChange => ({ kind: 'added', text })),
    ];
  }
  const lengths = new Uint32Array((old.length + 1) * width);
  const at = (row: number, column: number) => lengths[row * width + column] ?? 0;
  for (let row = old.length - 1; row >= 0; row--) {
    for (let column = now.length - 1; column >= 0; column--) {
      lengths[row * width + column] =
        old[row] === now[column] ? at(row + 1, column + 1) + 1 : Math.max(at(row + 1, column), at(row, column + 1));
    }
  }
  const changes: LineChange[] = [];
  let [row, column] = [0, 0];
  while (row < old.length || column < now.length) {
    if (row < old.length && column < now.length && old[row] === now[column]) {
      changes.push({ kind: 'same', text: old[row] ?? '' });
      row++;
      column++;
    } else if (column >= now.length || (row < old.length && at(row + 1, column) >= at(row, column + 1))) {
      changes.push({ kind: 'removed', text: old[row++] ?? '' });
    } else {
      changes.push({ kind: 'added', text: now[column++] ?? '' });
    }
  }
  return changes;
}

/** Runs of equal lines longer than this are folded, but for some at their ends. */
const AROUND = 3;

/** The changes with what stands near them; a number is so many equal lines left out. */
export function withContext(changes: LineChange[]): (LineChange | number)[] {
  const shown: (LineChange | number)[] = [];
  let hidden = 0;
  for (const [index, change] of changes.entries()) {
    const near = changes.slice(Math.max(0, index - AROUND), index + AROUND + 1).some(({ kind }) => kind !== 'same');
    if (near && hidden > 0) shown.push(hidden);
    hidden = near ? 0 : hidden + 1;
    if (near) shown.push(change);
  }
  return hidden > 0 ? [...shown, hidden] : shown;
}
