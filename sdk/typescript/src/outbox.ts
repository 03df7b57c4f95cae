/**
 * Replies, written right after one another at the end of a turn of the event loop. Most of what a reply costs the hall
 * is to be woken for it: written one by one, each as soon as it is there, they wake it once each.
 */

let waiting: (() => void)[] = [];

/** Write this together with the others of this turn. */
export function writeTogether(write: () => void): void {
  if (waiting.push(write) === 1) setImmediate(writeAll);
}

function writeAll(): void {
  const writes = waiting;
  waiting = [];
  for (const write of writes) {
    try {
      write();
    } catch (error) {
      console.error('a reply could not be written', error);
    }
  }
}
