/** What is typed into or chosen: text, numbers, yes and no, one of some values, and JSON. */

import { useState } from 'preact/hooks';
import { type Exact, ExactNumber, isObject, JsonError, readJson, sameJson, writeJson } from '../json/exact';
import { Combobox } from '../ui/menu';
import { t } from '../words/messages';
import type { Shape } from './schema';
import { ABSENT, fits, type State, stateOf } from './state';
import { markedText, valueInWords } from './words';
import '../words/en/form';

export interface ControlProps {
  id: string;
  shape: Shape;
  state: State;
  onChange: (state: State) => void;
  /** The name for screen readers where no label can point here. */
  label: string;
  /** The ids of hints and problems. */
  describedBy: string | undefined;
  invalid: boolean;
  /** Completions for what is typed. */
  suggest?: (typed: string) => Promise<string[]>;
}

type InputType = 'text' | 'email' | 'url' | 'password' | 'date';
const INPUT_TYPES: Record<string, InputType> = {
  email: 'email',
  'idn-email': 'email',
  uri: 'url',
  iri: 'url',
  password: 'password',
};
const SHORT = 80;

/** A text. Where lines may come it grows with them; dates have the browser's own field. */
export function TextControl({ id, shape, state, onChange, describedBy, invalid }: ControlProps) {
  const text = state.is === 'value' && typeof state.value === 'string' ? state.value : '';
  const change = (typed: string) => onChange(typed === '' ? ABSENT : { is: 'value', value: typed });
  const { format, pattern, maxLength } = shape.keywords;
  const common = {
    id,
    'aria-describedby': describedBy,
    'aria-invalid': invalid,
    autocomplete: 'off',
    spellcheck: false,
  };
  const isNull = state.is === 'value' && state.value === null;
  const placeholder = isNull ? 'null' : state.is === 'value' && text === '' ? t('form.emptyText') : undefined;
  const input = (type: InputType) => (
    <input
      {...common}
      {...({ type } as { type: 'text' })}
      value={text}
      placeholder={placeholder}
      onInput={(event) => change(event.currentTarget.value)}
    />
  );
  if (format === 'date' && (text === '' || /^\d{4}-\d\d-\d\d$/.test(text))) return input('date');
  if (format === 'date-time' && (text === '' || localTime(text) !== null)) {
    return (
      <>
        <input
          {...common}
          type="datetime-local"
          step="1"
          value={localTime(text) ?? ''}
          onInput={(event) => change(instant(event.currentTarget.value))}
        />
        {text !== '' && <span class="hint">{t('form.sentAs', { value: text })}</span>}
      </>
    );
  }
  const isLine =
    typeof format === 'string' || typeof pattern === 'string' || (typeof maxLength === 'number' && maxLength <= SHORT);
  if (isLine && !/[\n\r]/.test(text)) return input((typeof format === 'string' && INPUT_TYPES[format]) || 'text');
  return (
    <textarea
      {...common}
      class="grow plain"
      rows={1}
      value={text}
      placeholder={placeholder}
      onInput={(event) => change(event.currentTarget.value)}
    />
  );
}

// Only what the browser's field says exactly is shown in it: an instant in whole seconds, in UTC.
function localTime(text: string): string | null {
  const at = new Date(text);
  if (Number.isNaN(at.getTime()) || instantOf(at) !== text) return null;
  const local = new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
  return instant(local) === text ? local : null;
}

function instant(local: string): string {
  const at = new Date(local);
  return local === '' || Number.isNaN(at.getTime()) ? '' : instantOf(at);
}

const instantOf = (at: Date) => `${at.toISOString().slice(0, 19)}Z`;

/** A number, kept as it is typed. */
export function NumberControl({ id, state, onChange, describedBy, invalid }: ControlProps) {
  const text = state.is === 'typed' ? state.text : state.is === 'value' ? writeJson(state.value) : '';
  return (
    <input
      id={id}
      inputMode="decimal"
      autocomplete="off"
      value={text}
      aria-describedby={describedBy}
      aria-invalid={invalid}
      onInput={({ currentTarget: { value } }) => onChange(value === '' ? ABSENT : { is: 'typed', text: value })}
    />
  );
}

/** A text or number with completions, which come while it is typed. */
export function SuggestControl({
  id,
  shape,
  state,
  onChange,
  describedBy,
  invalid,
  suggest,
}: ControlProps & { suggest: (typed: string) => Promise<string[]> }) {
  const { value } = state.is === 'value' ? state : { value: undefined };
  const text = state.is === 'typed' ? state.text : typeof value === 'string' ? value : jsonText(value);
  const change = (typed: string): State =>
    typed === '' ? ABSENT : shape.kind === 'string' ? { is: 'value', value: typed } : { is: 'typed', text: typed };
  return (
    <div class="suggest">
      <Combobox
        id={id}
        text={text}
        onInput={(typed) => onChange(change(typed))}
        suggest={suggest}
        invalid={invalid}
        describedBy={describedBy}
      />
    </div>
  );
}

/** Yes or no; neither as long as nobody chose. */
export function BooleanControl(props: ControlProps) {
  const options = [true, false].map((value) => ({ value, label: t(value ? 'form.true' : 'form.false') }));
  return <Radios {...props} options={options} />;
}

const MOST_RADIOS = 6;
const MOST_LETTERS = 60;
const MOST_SHOWN = 100;

/** One of some values: side by side if they are few and short, in a list, or in a list with a filter. */
export function EnumControl(props: ControlProps) {
  const options = props.shape.options.map(({ value, label }) => ({ value, label: label ?? valueInWords(value) }));
  const letters = options.reduce((sum, option) => sum + option.label.length, 0);
  if (options.length <= MOST_RADIOS && letters <= MOST_LETTERS) return <Radios {...props} options={options} />;
  if (options.length <= MOST_SHOWN) return <Select {...props} options={options} />;
  return <FilteredSelect {...props} options={options} />;
}

type Options = { options: { value: Exact; label: string }[] };

function chosenIndex({ options, state }: Options & { state: State }): number {
  return state.is === 'value' ? options.findIndex(({ value }) => sameJson(value, state.value)) : -1;
}

function Radios({ id, options, state, onChange, label, describedBy }: ControlProps & Options) {
  const chosen = chosenIndex({ options, state });
  return (
    <div class="choice" role="radiogroup" aria-label={label} aria-describedby={describedBy}>
      {options.map((option, index) => (
        <label key={index}>
          <input
            type="radio"
            id={index === Math.max(chosen, 0) ? id : undefined}
            name={id}
            checked={index === chosen}
            onChange={() => onChange({ is: 'value', value: option.value })}
          />
          {markedText(option.label)}
        </label>
      ))}
    </div>
  );
}

function Select({
  id,
  options,
  state,
  onChange,
  describedBy,
  invalid,
  size,
}: ControlProps & Options & { size?: number }) {
  const chosen = chosenIndex({ options, state });
  const choose = (index: number) => {
    const option = options[index];
    onChange(option ? { is: 'value', value: option.value } : ABSENT);
  };
  return (
    <select
      id={id}
      size={size}
      value={String(chosen)}
      aria-describedby={describedBy}
      aria-invalid={invalid}
      onChange={(event) => choose(Number(event.currentTarget.value))}
    >
      <option value="-1">{t('form.notSent')}</option>
      {options.map((option, index) => (
        <option key={index} value={String(index)}>
          {markedText(option.label)}
        </option>
      ))}
    </select>
  );
}

function FilteredSelect(props: ControlProps & Options) {
  const [filter, setFilter] = useState('');
  const words = filter.toLowerCase();
  const found = props.options.filter(({ label }) => label.toLowerCase().includes(words));
  const chosen = props.options[chosenIndex(props)];
  const shown = found.slice(0, MOST_SHOWN);
  const options = chosen && !shown.includes(chosen) ? [chosen, ...shown] : shown;
  return (
    <div class="stack tight">
      <input
        value={filter}
        placeholder={t('form.filter', { count: props.options.length })}
        aria-label={t('form.filterLabel', { name: props.label })}
        onInput={(event) => setFilter(event.currentTarget.value)}
      />
      <Select {...props} options={options} />
      <span class="hint" role="status">
        {found.length > MOST_SHOWN
          ? t('form.foundMore', { shown: MOST_SHOWN, count: found.length })
          : t('form.found', { count: found.length })}
      </span>
    </div>
  );
}

interface JsonControlProps extends Omit<ControlProps, 'state'> {
  text: string;
  rows?: number;
}

/** JSON typed by hand, with the place of the first fault. */
export function JsonControl({ id, shape, text, onChange, label, describedBy, invalid, rows }: JsonControlProps) {
  const read = readable(text);
  const value = 'value' in read ? read.value : undefined;
  const back = value !== undefined && shape.kind !== 'any' && fits(shape, value) ? stateOf(shape, value) : null;
  return (
    <>
      <textarea
        id={id}
        class="grow"
        rows={rows ?? 2}
        value={text}
        spellcheck={false}
        autocomplete="off"
        aria-label={label}
        aria-describedby={describedBy}
        aria-invalid={invalid || 'fault' in read}
        placeholder={t('form.jsonPlaceholder')}
        onInput={(event) =>
          onChange(event.currentTarget.value === '' ? ABSENT : { is: 'json', text: event.currentTarget.value })
        }
      />
      {'fault' in read && read.fault && <span class="wrong">{faultInWords(read.fault)}</span>}
      {back && back.is !== 'json' && (
        <button type="button" class="link start" onClick={() => onChange(back)}>
          {t('form.useForm')}
        </button>
      )}
    </>
  );
}

function readable(text: string): { value?: Exact } | { fault: JsonError } {
  if (text.trim() === '') return {};
  try {
    return { value: readJson(text).value };
  } catch (error) {
    if (error instanceof JsonError) return { fault: error };
    throw error;
  }
}

/** What is wrong with a text that is not JSON, and where. */
export function faultInWords({ line, column, reason }: Pick<JsonError, 'line' | 'column' | 'reason'>): string {
  return t('json.wrongAt', { line, column, message: t(`json.reasons.${reason}`) });
}

/** A value as the text of a JSON field; undefined is nothing. */
export function jsonText(value: Exact | undefined): string {
  return value === undefined
    ? ''
    : isObject(value) || Array.isArray(value) || value instanceof ExactNumber
      ? writeJson(value, 2)
      : writeJson(value);
}
