/** `JsonView`: a value with folding and colours, hidden characters marked; `JsonInput`: a text that must be JSON. */

import { useId, useState } from 'preact/hooks';
import type { Json } from '../api/types';
import { type Exact, ExactNumber, type ExactObject, JsonError, readJson, writeJson } from '../json/exact';
import { t } from '../words/messages';
import { CopyButton } from './basics';
import { Marks } from './marks';

/** Values below this depth are folded at first. */
const OPEN_DEPTH = 4;
/** So many items of an array or object are shown at first, and with each press more. */
const STEP = 100;

interface ViewProps {
  value: Exact;
  label?: string;
  /** How deep it is unfolded; all of it for what a person decides about. */
  depth?: number;
  copy?: boolean;
}

export function JsonView({ value, label, depth = OPEN_DEPTH, copy = true }: ViewProps) {
  const box = (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls can be reached by keyboard
    <div class="json" role="group" aria-label={label ?? 'JSON'} tabIndex={0}>
      <Value value={value} depth={depth} />
    </div>
  );
  if (!copy) return box;
  return (
    <div class="copyable">
      {box}
      <CopyButton text={() => writeJson(value, 2)} />
    </div>
  );
}

function Value({ value, depth }: { value: Exact; depth: number }) {
  if (value === null || typeof value === 'boolean') return <span class="word">{String(value)}</span>;
  if (typeof value === 'number' || value instanceof ExactNumber) {
    return <span class="number">{writeJson(value)}</span>;
  }
  if (typeof value === 'string') return <Text text={value} />;
  return <Folding value={value} depth={depth} />;
}

// Quotes and backslashes as in JSON; line breaks as signs, so that a text cannot look like several members.
function Text({ text }: { text: string }) {
  return (
    <span class="text">
      "<Marks text={JSON.stringify(text).slice(1, -1)} />"
    </span>
  );
}

function Folding({ value, depth }: { value: Exact[] | ExactObject; depth: number }) {
  const isArray = Array.isArray(value);
  const entries: [string, Exact][] = isArray ? value.map((each, at) => [String(at), each]) : Object.entries(value);
  const [open, setOpen] = useState(depth > 0);
  const [most, setMost] = useState(STEP);
  const [left, right] = isArray ? '[]' : '{}';
  if (!entries.length) return <span class="sign">{`${left}${right}`}</span>;
  const size = t(isArray ? 'json.items' : 'json.members', { count: entries.length });
  return (
    <>
      <button
        type="button"
        aria-expanded={open}
        aria-label={`${t(open ? 'json.fold' : 'json.unfold')}, ${size}`}
        onClick={() => setOpen(!open)}
      >
        {left}
        {!open && `… ${size}`}
      </button>
      {open && (
        <ul>
          {entries.slice(0, most).map(([name, each], at) => (
            <li key={name}>
              {!isArray && (
                <>
                  <span class="key">
                    "<Marks text={JSON.stringify(name).slice(1, -1)} />"
                  </span>
                  <span class="sign">: </span>
                </>
              )}
              <Value value={each} depth={depth - 1} />
              {at < entries.length - 1 && <span class="sign">,</span>}
            </li>
          ))}
          {entries.length > most && (
            <li>
              <button type="button" onClick={() => setMost(most + STEP)}>
                {t('json.rest', { count: entries.length - most })}
              </button>
            </li>
          )}
        </ul>
      )}
      <span class="sign">{right}</span>
    </>
  );
}

export interface JsonText {
  value?: Json;
  /** What is wrong, in words. */
  problem?: string;
}

/** Read a text as JSON, with the place of what is wrong. */
export function checkJson(text: string): JsonText {
  try {
    return { value: JSON.parse(text) as Json };
  } catch (error) {
    return { problem: placeOf(text) ?? t('json.wrong', { message: (error as Error).message }) };
  }
}

// Browsers name the place in different ways, or not at all; the reader of exact JSON always does.
function placeOf(text: string): string | null {
  try {
    readJson(text);
    return null;
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    const { line, column, reason } = error;
    return t('json.wrongAt', { line, column, message: t(`json.reasons.${reason}`) });
  }
}

interface InputProps {
  label: string;
  text: string;
  onInput: (text: string, read: JsonText) => void;
  rows?: number;
  hint?: string;
  /** What the hall said about it. */
  problem?: string | undefined;
}

/** A field for JSON; what is wrong stands below it, with line and column. */
export function JsonInput({ label, text, onInput, rows = 8, hint, problem }: InputProps) {
  const id = useId();
  const wrong = (text.trim() ? checkJson(text).problem : undefined) ?? problem;
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <textarea
        id={id}
        rows={rows}
        spellcheck={false}
        autoComplete="off"
        value={text}
        aria-invalid={wrong ? 'true' : undefined}
        aria-describedby={`${id}-said`}
        onInput={(event) => onInput(event.currentTarget.value, checkJson(event.currentTarget.value))}
      />
      <p id={`${id}-said`} class={wrong ? 'wrong' : 'hint'} role={wrong ? 'status' : undefined}>
        {wrong ?? hint}
      </p>
    </div>
  );
}
