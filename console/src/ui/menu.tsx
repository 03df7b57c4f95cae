/** `Menu`: a button with actions below it. `Combobox`: a field with suggestions, of which any text or one can be taken. */

import type { ComponentChild } from 'preact';
import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { t } from '../words/messages';
import { Icon, type IconName } from './icon';
import { Marks } from './marks';

export interface MenuItem {
  title: string;
  icon?: IconName;
  /** What it does, or where it leads. */
  act?: () => void;
  href?: string;
}

export function Menu({ label, items, icon = 'more', text, low = true }: MenuProps) {
  const [open, setOpen] = useState(false);
  const place = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const id = useId();
  const entries = () => [...(place.current?.querySelectorAll<HTMLElement>('[role="menuitem"]') ?? [])];
  const close = (back = true) => {
    setOpen(false);
    if (back) button.current?.focus();
  };
  useLayoutEffect(() => {
    if (open) entries()[0]?.focus();
  }, [open]);
  const press = (event: KeyboardEvent) => {
    const all = entries();
    const at = all.indexOf(document.activeElement as HTMLElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
    if (to !== undefined) all[(to + all.length) % all.length]?.focus();
    else if (event.key === 'Escape') close();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div
      class="menu-place"
      ref={place}
      onFocusOut={(event) => !place.current?.contains(event.relatedTarget as Node | null) && setOpen(false)}
    >
      <button
        type="button"
        ref={button}
        class={`button ${low ? 'low' : ''}`}
        aria-haspopup="menu"
        aria-expanded={open}
        aria-controls={id}
        aria-label={text ? undefined : label}
        onClick={() => setOpen(!open)}
      >
        {text}
        <Icon name={text ? 'down' : icon} />
      </button>
      {open && (
        <div class="floating below-end menu" role="menu" id={id} aria-label={label} onKeyDown={press}>
          {items.map((each) => {
            const body = (
              <>
                {each.icon && <Icon name={each.icon} />}
                {each.title}
              </>
            );
            const take = () => {
              close();
              each.act?.();
            };
            return each.href === undefined ? (
              <button type="button" key={each.title} role="menuitem" tabIndex={-1} onClick={take}>
                {body}
              </button>
            ) : (
              <a key={each.title} role="menuitem" tabIndex={-1} href={each.href} onClick={take}>
                {body}
              </a>
            );
          })}
        </div>
      )}
    </div>
  );
}

interface MenuProps {
  label: string;
  items: MenuItem[];
  icon?: IconName;
  /** Words on the button, instead of an icon alone. */
  text?: ComponentChild;
  low?: boolean;
}

interface ComboboxProps {
  id?: string;
  /** Its name where no label element has its id. */
  label?: string;
  text: string;
  onInput: (text: string) => void;
  /** Suggestions for the text, at once or later. */
  suggest: (text: string) => string[] | Promise<string[]>;
  /** A suggestion was taken, or Enter pressed without one. */
  onTake?: (text: string) => void;
  onKeyDown?: (event: KeyboardEvent) => void;
  placeholder?: string;
  invalid?: boolean;
  describedBy?: string | undefined;
}

const MOST = 12;

export function Combobox(props: ComboboxProps) {
  const { text, onInput, suggest, onTake } = props;
  const list = useId();
  const [options, setOptions] = useState<string[]>([]);
  const [open, setOpen] = useState(false);
  const [at, setAt] = useState(-1);
  const asked = useRef(0);
  const ask = async (words: string) => {
    const mine = ++asked.current;
    const found = await suggest(words);
    if (mine !== asked.current) return;
    setOptions(found.slice(0, MOST));
    setAt(-1);
    setOpen(true);
  };
  const take = (taken: string) => {
    asked.current++;
    setOpen(false);
    onInput(taken);
    // A name with its colon is half a term: its values come next.
    if (taken.endsWith(':')) void ask(taken);
    else onTake?.(taken);
  };
  const press = (event: KeyboardEvent) => {
    const shown = open && options.length > 0;
    const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0;
    if (step && !shown) void ask(text);
    else if (step) setAt(at < 0 && step < 0 ? options.length - 1 : (at + step + options.length) % options.length);
    else if (event.key === 'Enter' && shown && at >= 0) take(options[at] ?? text);
    else if (event.key === 'Enter' && onTake) take(text);
    else if (event.key === 'Escape' && shown) setOpen(false);
    else return props.onKeyDown?.(event);
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <>
      <input
        id={props.id}
        role="combobox"
        aria-label={props.label}
        aria-autocomplete="list"
        aria-expanded={open && options.length > 0}
        aria-controls={list}
        aria-activedescendant={open && at >= 0 ? `${list}-${at}` : undefined}
        aria-invalid={props.invalid ? 'true' : undefined}
        aria-describedby={props.describedBy}
        placeholder={props.placeholder}
        autoComplete="off"
        spellcheck={false}
        value={text}
        onInput={(event) => {
          onInput(event.currentTarget.value);
          void ask(event.currentTarget.value);
        }}
        onFocus={() => void ask(text)}
        onBlur={() => {
          asked.current++;
          setOpen(false);
        }}
        onKeyDown={press}
      />
      <div
        class="floating below options"
        role="listbox"
        id={list}
        aria-label={t('filters.suggestions')}
        hidden={!open || !options.length}
      >
        {options.map((each, index) => (
          <div
            key={each}
            id={`${list}-${index}`}
            class="option"
            role="option"
            tabIndex={-1}
            aria-selected={index === at}
            onMouseDown={(event) => {
              event.preventDefault();
              take(each);
            }}
          >
            <span class="cut">
              <Marks text={each} />
            </span>
          </div>
        ))}
      </div>
    </>
  );
}
