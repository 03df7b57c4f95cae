/** `useNearWindow`: looks which part of a long list is near the window, now and whenever the window moves. */

import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';

/** At most so many rows or cards of a list are in the document. */
export const MOST = 90;

/** Calls `look` when the list has another length, and at most once a frame while one scrolls or resizes. */
export function useNearWindow(count: number, look: () => void): void {
  const current = useRef(look);
  current.current = look;
  useLayoutEffect(() => current.current(), [count]);
  useEffect(() => {
    let planned = 0;
    const follow = () => {
      planned ||= requestAnimationFrame(() => {
        planned = 0;
        current.current();
      });
    };
    addEventListener('scroll', follow, { passive: true });
    addEventListener('resize', follow);
    return () => {
      cancelAnimationFrame(planned);
      removeEventListener('scroll', follow);
      removeEventListener('resize', follow);
    };
  }, []);
}
