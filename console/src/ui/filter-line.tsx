/** `FilterLine`: the terms of a filter as chips (`tool:Mail.*`), and a field that completes names and values. */

import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { useKeys } from '../app/keys';
import { route, setQuery } from '../app/router';
import { t } from '../words/messages';
import { Icon } from './icon';
import { Marks } from './marks';
import { Combobox } from './menu';

export interface FilterField {
  /** Its name, before the colon and in the address. */
  name: string;
  /** Values that can be completed. */
  values?: (prefix: string) => string[] | Promise<string[]>;
}

interface FilterLineProps {
  fields: readonly FilterField[];
  /** The name that words without a colon are a value of, such as `query`. */
  plain?: string;
  /** Names that are kept in the address, but are no chips. */
  placeholder?: string;
}

/** The filter is the query of the address, so a filtered list can be sent to a colleague. `e` goes into it. */
export function FilterLine({ fields, plain, placeholder }: FilterLineProps) {
  const [text, setText] = useState('');
  const box = useRef<HTMLDivElement>(null);
  const names = [...fields.map((each) => each.name), ...(plain ? [plain] : [])];
  const terms = [...route.value.query].filter(([name, value]) => names.includes(name) && value);
  const focus = () => box.current?.querySelector('input')?.focus();
  useKeys({ edit: focus });
  // A change of the address from elsewhere ends what was being typed: before the next letter comes, not after it.
  const address = terms.join();
  useLayoutEffect(() => setText(''), [address]);

  const take = (taken: string) => {
    const read = readTerms(taken, names, plain);
    if (!read) return;
    setQuery(Object.fromEntries(read), false);
    setText('');
  };
  const press = (event: KeyboardEvent) => {
    const last = terms.at(-1);
    if (event.key !== 'Backspace' || text || !last) return;
    setQuery({ [last[0]]: null }, false);
    setText(`${last[0]}:${last[1]}`);
  };
  return (
    <div class="filters" ref={box} role="search" aria-label={t('filters.label')}>
      <Icon name="find" />
      {terms.map(([name, value]) => (
        <span class="term" key={name}>
          <span>
            {name === plain ? '' : `${name}:`}
            <Marks text={value} cut={60} />
          </span>
          <button
            type="button"
            aria-label={t('filters.removeTerm', { term: `${name}:${value}` })}
            onClick={() => {
              setQuery({ [name]: null }, false);
              focus();
            }}
          >
            <Icon name="cross" />
          </button>
        </span>
      ))}
      <Combobox
        label={t('filters.label')}
        text={text}
        placeholder={terms.length ? '' : (placeholder ?? t('filters.placeholder'))}
        onInput={setText}
        onTake={take}
        onKeyDown={press}
        suggest={(words) => suggest(words, fields)}
      />
      {terms.length > 1 && (
        <button
          type="button"
          class="button bare low"
          onClick={() => setQuery(Object.fromEntries(terms.map(([name]) => [name, null])), false)}
        >
          {t('filters.clear')}
        </button>
      )}
    </div>
  );
}

/** Terms with spaces between them; null while one of them is not whole. */
export function readTerms(text: string, names: readonly string[], plain?: string): [string, string][] | null {
  const terms = text
    .split(/\s+(?=[\w-]+:)/)
    .filter((each) => each.trim())
    .map((each) => readTerm(each, names, plain));
  return terms.length && terms.every((each) => each !== null) ? terms : null;
}

/** A term as name and value; null while it is not whole. */
export function readTerm(text: string, names: readonly string[], plain?: string): [string, string] | null {
  const [, name, value] = /^\s*([\w-]+):(.*)$/s.exec(text) ?? [];
  if (name !== undefined && names.includes(name)) return value?.trim() ? [name, value.trim()] : null;
  return plain && text.trim() ? [plain, text.trim()] : null;
}

async function suggest(text: string, fields: readonly FilterField[]): Promise<string[]> {
  const [, name, prefix = ''] = /^\s*([\w-]+):(.*)$/s.exec(text) ?? [];
  const field = fields.find((each) => each.name === name);
  if (field) {
    const values = (await field.values?.(prefix)) ?? [];
    return values
      .filter((each) => each.toLowerCase().includes(prefix.toLowerCase()))
      .map((each) => `${field.name}:${each}`);
  }
  return fields.map((each) => `${each.name}:`).filter((each) => each.startsWith(text.trim().toLowerCase()));
}
