/** Tabs: `TabLinks` are addresses of one screen, `TabList` switches what is shown at one place. */

import type { ComponentChild } from 'preact';
import { useRef } from 'preact/hooks';

/** Tabs that are addresses: each can be sent to a colleague. */
export function TabLinks({ label, tabs, current }: { label: string; tabs: TabLink[]; current: string }) {
  return (
    <nav class="tabs" aria-label={label}>
      {tabs.map((each) => (
        <a key={each.id} href={each.href} aria-current={each.id === current ? 'page' : undefined}>
          {each.title}
        </a>
      ))}
    </nav>
  );
}

export interface TabLink {
  id: string;
  title: ComponentChild;
  href: string;
}

interface TabListProps {
  label: string;
  tabs: { id: string; title: ComponentChild }[];
  chosen: string;
  onChoose: (id: string) => void;
  /** The id of the element that shows what is chosen, with the role `tabpanel`. */
  panel: string;
}

/** Tabs of one place; the arrow keys move between them. */
export function TabList({ label, tabs, chosen, onChoose, panel }: TabListProps) {
  const list = useRef<HTMLDivElement>(null);
  const press = (event: KeyboardEvent) => {
    const step = arrowStep(event, list.current);
    if (!step) return;
    event.preventDefault();
    const at = tabs.findIndex((each) => each.id === chosen);
    const to = tabs[(at + step + tabs.length) % tabs.length];
    if (!to) return;
    onChoose(to.id);
    list.current?.querySelectorAll<HTMLElement>('[role="tab"]')[tabs.indexOf(to)]?.focus();
  };
  return (
    <div class="segments" role="tablist" aria-label={label} ref={list} onKeyDown={press}>
      {tabs.map((each) => (
        <button
          type="button"
          key={each.id}
          role="tab"
          aria-selected={each.id === chosen}
          aria-controls={each.id === chosen ? panel : undefined}
          tabIndex={each.id === chosen ? 0 : -1}
          onClick={() => onChoose(each.id)}
        >
          {each.title}
        </button>
      ))}
    </div>
  );
}

/** The step of an arrow key along a row, in the direction of the script; 0 for other keys. */
export function arrowStep(event: KeyboardEvent, element: Element | null): -1 | 0 | 1 {
  const forward = element && getComputedStyle(element).direction === 'rtl' ? 'ArrowLeft' : 'ArrowRight';
  if (event.key === forward) return 1;
  return event.key === 'ArrowLeft' || event.key === 'ArrowRight' ? -1 : 0;
}

interface SegmentsProps<T extends string> {
  label: string;
  options: readonly (readonly [T, string])[];
  chosen: T;
  onChoose: (value: T) => void;
}

/** One of a few values, as buttons that stay pressed. */
export function Segments<T extends string>({ label, options, chosen, onChoose }: SegmentsProps<T>) {
  return (
    <div class="segments" role="group" aria-label={label}>
      {options.map(([value, words]) => (
        <button type="button" key={value} aria-pressed={value === chosen} onClick={() => onChoose(value)}>
          {words}
        </button>
      ))}
    </div>
  );
}
