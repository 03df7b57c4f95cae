/** Try it: fill in the arguments, check or run, read or get with them like an agent would, and see what came of it. */

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { hall } from '../../api/client';
import { mayLook, me } from '../../api/me';
import type { CheckAnswer, Problem, ToolDetail } from '../../api/types';
import { useKeys } from '../../app/keys';
import { query, setQuery } from '../../app/router';
import { faultInWords } from '../../forms/controls';
import { fieldId, SchemaForm } from '../../forms/fields';
import { drawnFields, placeProblems } from '../../forms/places';
import { Shapes } from '../../forms/schema';
import { formValue, initialState, type State, stateOf, type Unfinished } from '../../forms/state';
import { type Exact, escapePointer, isObject, JsonError, readJson, writeJson } from '../../json/exact';
import { readUri } from '../../run/target';
import { Note, Time } from '../../ui/basics';
import { useAction } from '../../ui/dialog';
import { Icon } from '../../ui/icon';
import { Marks } from '../../ui/marks';
import { ErrorState } from '../../ui/states';
import { Segments } from '../../ui/tabs';
import { duration } from '../../words/format';
import { rich, t } from '../../words/messages';
import { CheckResult } from './check';
import { Elsewhere } from './elsewhere';
import { stateWord } from './facts';
import { ResultCard } from './result';
import { completer, forgetRuns, hasSecrets, type PastRun, pastRuns, rememberRun, useRun, type Via } from './run';
import '../../words/en/tools';
import '../../words/en/try-it';

const FORM = 'arg';
const NONE: Problem[] = [];

/** Arguments as a form or as JSON; one of them is what counts. */
type Draft = { as: 'form'; state: State } | { as: 'json'; text: string };

export function TryTab({ tool }: { tool: ToolDetail }) {
  const shape = useMemo(() => new Shapes(tool.inputSchema).top, [tool.inputSchema]);
  const [draft, setDraft] = useState<Draft>(() => ({ as: 'form', state: initialState(shape, true) }));
  const [problems, setProblems] = useState<Problem[]>(NONE);
  const [unfinished, setUnfinished] = useState<Unfinished[]>([]);
  const [past, setPast] = useState<PastRun[]>(() => pastRuns(tool));
  const [checked, setChecked] = useState<CheckAnswer | null>(null);
  const { run, start, cancel } = useRun(tool);
  const via: Via = query('via') === 'rest' ? 'rest' : 'mcp';
  const said = valueOfDraft(draft);
  const given = useRef<Exact>({});
  given.current = said.value ?? {};
  const suggest = useMemo(() => {
    const complete = completer(tool);
    const { completes } = tool;
    return completes.length > 0
      ? { names: completes, values: (name: string, typed: string) => complete(name, typed, given.current) }
      : undefined;
  }, [tool]);

  const change = (next: Draft) => {
    setDraft(next);
    setUnfinished([]);
  };
  const use = (value: Exact) => {
    setProblems(NONE);
    change(
      draft.as === 'form' ? { as: 'form', state: stateOf(shape, value) } : { as: 'json', text: writeJson(value, 2) },
    );
  };
  const showProblems = (found: Problem[]) => {
    setProblems(found);
    if (found.length > 0 && draft.as === 'form') focusFirst(found, drawnFields(shape, draft.state));
  };
  const ready = (): Exact | undefined => {
    setUnfinished(said.unfinished);
    const [first] = said.unfinished;
    const missing = first ? [] : missingVariables(tool, said.value ?? {});
    if (missing.length > 0) showProblems(missing);
    else if (!first) return said.value ?? {};
    else focusField(first.path);
    return undefined;
  };
  const execute = async () => {
    const value = ready();
    if (value === undefined || run.running || !tool.served) return;
    setChecked(null);
    setProblems(NONE);
    const outcome = await start(value, via);
    showProblems(outcome.problems);
    if (hasSecrets(tool.inputSchema)) return;
    const { kind, milliseconds } = outcome;
    rememberRun({ at: new Date().toISOString(), id: tool.id, arguments: writeJson(value), kind, milliseconds });
    setPast(pastRuns(tool));
  };
  const check = useAction(async () => {
    const value = ready();
    if (value === undefined) return;
    setChecked(null);
    const answer = await hall.post<CheckAnswer>('api/check', {
      caller: me.value?.caller ?? '',
      tool: tool.id,
      arguments: value,
    });
    setChecked(answer);
    showProblems(answer.stages.flatMap((stage) => stage.problems ?? []).map(asProblem));
  });
  // The button becomes Run again before the browser looks what a press does: it must not submit then.
  const stop = (event: Event) => {
    event.preventDefault();
    cancel();
  };
  useKeys({ run: () => void execute() });

  return (
    <div class="try">
      <div class="stack">
        <section class="card" aria-labelledby="try-arguments">
          <header>
            <h2 id="try-arguments">{t(tool.kind === 'resource' ? 'tryIt.variables' : 'tryIt.arguments')}</h2>
            <div class="push">
              <Segments
                label={t('tryIt.write')}
                options={[['form', t('tryIt.form')] as const, ['json', t('tryIt.json')] as const]}
                chosen={draft.as}
                onChoose={(as) => as !== draft.as && change(as === 'json' ? toText(draft) : toForm(draft, shape))}
              />
            </div>
          </header>
          <form
            class="in stack"
            noValidate
            onSubmit={(event) => {
              event.preventDefault();
              void execute();
            }}
          >
            {draft.as === 'form' ? (
              <SchemaForm
                id={FORM}
                shape={shape}
                state={draft.state}
                problems={problems}
                suggest={suggest}
                onChange={(state) => change({ as: 'form', state })}
              />
            ) : (
              <JsonArguments text={draft.text} problems={problems} onChange={(text) => change({ as: 'json', text })} />
            )}
            {unfinished[0] && (
              <p class="wrong" role="alert">
                {unfinishedInWords(unfinished)}
              </p>
            )}
            {tool.kind === 'resource' && (
              <p class="hint anywhere">
                {rich('tryIt.readsUri', {
                  uri: (
                    <code>
                      <Marks text={shownUri(tool, said.value ?? {})} cut={500} />
                    </code>
                  ),
                })}
              </p>
            )}
            <RunNote tool={tool} />
            <div class="row">
              {run.running ? (
                <button type="button" class="button danger" onClick={stop}>
                  <Icon name="stop" />
                  {t('tryIt.cancel')}
                </button>
              ) : (
                <button type="submit" class="button main" disabled={!tool.served}>
                  <Icon name="play" />
                  {t(`tryIt.does.${tool.kind}`)} <kbd>Ctrl ↵</kbd>
                </button>
              )}
              {mayLook() && (
                <button type="button" class="button" disabled={check.busy || run.running} onClick={check.run}>
                  {t('tryIt.check')}
                </button>
              )}
              <Prefills tool={tool} past={past} use={use} />
            </div>
            {check.error && <ErrorState error={check.error} small />}
            <div class="row small soft">
              <span>{t('tryIt.over')}</span>
              <Segments
                label={t('tryIt.over')}
                options={[['mcp', t('tryIt.viaMcp')] as const, ['rest', t('tryIt.viaRest')] as const]}
                chosen={via}
                onChoose={(chosen) => setQuery({ via: chosen === 'rest' ? 'rest' : null })}
              />
            </div>
          </form>
        </section>
        <PastRuns tool={tool} past={past} use={use} forget={() => setPast([])} />
      </div>
      <div class="stack">
        {checked && <CheckResult answer={checked} />}
        <ResultCard kind={tool.kind} run={run} />
        <Elsewhere tool={tool} value={said.value ?? {}} />
      </div>
    </div>
  );
}

// The template as long as it lacks a value.
function shownUri(tool: ToolDetail, value: Exact): string {
  return missingVariables(tool, value).length > 0 ? (tool.uri ?? '') : readUri(tool, value);
}

// A path without a value leads to another resource, or to none; the hall could not say where it is missing.
function missingVariables(tool: ToolDetail, value: Exact): Problem[] {
  const { required } = tool.inputSchema;
  if (tool.kind !== 'resource' || !Array.isArray(required) || !isObject(value)) return [];
  return required
    .filter((name): name is string => typeof name === 'string' && (value[name] ?? '') === '')
    .map((name) => ({ path: `/${escapePointer(name)}`, message: t('tryIt.missing') }));
}

// The routes of the API and the dialects differ in this word.
function asProblem(problem: Problem & { reason?: string }): Problem {
  return { path: problem.path, message: problem.message ?? problem.reason ?? '' };
}

function valueOfDraft(draft: Draft): { value: Exact | undefined; unfinished: Unfinished[] } {
  const unfinished: Unfinished[] = [];
  const state: State = draft.as === 'form' ? draft.state : { is: 'json', text: draft.text };
  return { value: formValue(state, unfinished), unfinished };
}

function toText(draft: Draft): Draft {
  return { as: 'json', text: writeJson(valueOfDraft(draft).value ?? {}, 2) };
}

// A text that is no JSON stays in sight: it becomes the one field of the form.
function toForm(draft: Draft, shape: Shapes['top']): Draft {
  const { value, unfinished } = valueOfDraft(draft);
  if (unfinished.length > 0 && draft.as === 'json') return { as: 'form', state: { is: 'json', text: draft.text } };
  return { as: 'form', state: stateOf(shape, value ?? {}) };
}

function unfinishedInWords(unfinished: Unfinished[]): string {
  const [first] = unfinished;
  if (!first) return '';
  return t('tryIt.unfinished', { count: unfinished.length, message: `${first.path} ${faultInWords(first)}` });
}

function focusField(path: string): void {
  const id = fieldId(FORM, path);
  requestAnimationFrame(() => (document.getElementById(id) ?? document.getElementById(`${id}-label`))?.focus());
}

function focusFirst(problems: Problem[], fields: Set<string>): void {
  const placed = placeProblems(problems, fields);
  const first = [...fields].find((path) => path !== '' && placed.has(path));
  if (first !== undefined) focusField(first);
}

function RunNote({ tool }: { tool: ToolDetail }) {
  if (!tool.served) return <Note>{t('tryIt.notServed', { state: t(`tools.states.${stateWord(tool)}`) })}</Note>;
  const caller = <strong>{<Marks text={me.value?.person ?? me.value?.caller ?? ''} cut={80} />}</strong>;
  if (tool.kind !== 'tool') return <p class="hint">{rich('tryIt.real', { caller })}</p>;
  const key =
    tool.effect === 'destroys' ? 'tryIt.realDestroys' : tool.effect === 'writes' ? 'tryIt.realWrites' : 'tryIt.real';
  if (tool.effect === 'reads') return <p class="hint">{rich(key, { caller })}</p>;
  return <Note tone={tool.effect === 'destroys' ? 'failed' : 'refused'}>{rich(key, { caller })}</Note>;
}

function Prefills({ tool, past, use }: { tool: ToolDetail; past: PastRun[]; use: (value: Exact) => void }) {
  const [last] = past;
  const examples = (tool.examples ?? []).slice(0, 3);
  return (
    <span class="row push">
      {examples.map((example, index) => (
        <button key={index} type="button" class="button bare" onClick={() => use(exampleArguments(example))}>
          {examples.length === 1 ? t('tryIt.example') : t('tryIt.exampleOf', { count: index + 1 })}
        </button>
      ))}
      {last && (
        <button type="button" class="button bare" onClick={() => use(readJson(last.arguments).value)}>
          {t('tryIt.last')}
        </button>
      )}
    </span>
  );
}

// An example is the arguments, or has them beside a description.
function exampleArguments(example: ToolDetail['examples'][number]): Exact {
  for (const name of ['arguments', 'input', 'parameters']) {
    const inner = example[name];
    if (typeof inner === 'object' && inner !== null && !Array.isArray(inner)) return inner;
  }
  return example;
}

interface JsonArgumentsProps {
  text: string;
  problems: Problem[];
  onChange: (text: string) => void;
}

/** The arguments as text; what the hall says against them stands with the line. */
function JsonArguments({ text, problems, onChange }: JsonArgumentsProps) {
  const read = useMemo(() => readable(text), [text]);
  const fault = read instanceof JsonError ? read : null;
  const lines = (path: string): number | null => {
    if (read instanceof JsonError) return null;
    let at = path;
    while (at !== '' && !read.has(at)) at = at.slice(0, at.lastIndexOf('/'));
    const place = read.get(at);
    return place ? text.slice(0, place[0]).split('\n').length : null;
  };
  return (
    <div class="field">
      <label for={FORM}>{t('tryIt.jsonLabel')}</label>
      <textarea
        id={FORM}
        class="grow"
        rows={10}
        value={text}
        spellcheck={false}
        autoComplete="off"
        aria-invalid={fault !== null || problems.length > 0}
        aria-describedby={`${FORM}-wrong`}
        onInput={(event) => onChange(event.currentTarget.value)}
      />
      <div class="wrong" id={`${FORM}-wrong`}>
        {fault && <p>{faultInWords(fault)}</p>}
        {problems.map((problem, index) => {
          const line = lines(problem.path);
          return (
            <p key={index} data-problem-at={problem.path}>
              {line !== null && <strong>{t('tryIt.atLine', { line })} </strong>}
              <code>{problem.path || '/'}</code> <Marks text={problem.message} cut={500} />
            </p>
          );
        })}
      </div>
    </div>
  );
}

function readable(text: string): Map<string, [number, number]> | JsonError {
  try {
    return text.trim() === '' ? new Map() : readJson(text).places;
  } catch (error) {
    if (error instanceof JsonError) return error;
    throw error;
  }
}

function PastRuns({
  tool,
  past,
  use,
  forget,
}: {
  tool: ToolDetail;
  past: PastRun[];
  use: (value: Exact) => void;
  forget: () => void;
}) {
  const list = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    if (past.length === 0) list.current?.removeAttribute('open');
  }, [past.length]);
  if (past.length === 0) return null;
  return (
    <details class="card fold" ref={list}>
      <summary>
        <h2>{t('tryIt.history')}</h2>
        <span class="chip">{past.length}</span>
      </summary>
      <div class="in stack tight">
        <p class="hint">{t('tryIt.historyWhy')}</p>
        <ul class="past-runs">
          {past.map((each) => (
            <li key={each.at}>
              <Time at={each.at} as="clock" />
              <span class={`small ${each.kind === 'ok' ? 'soft' : 'must'}`}>{t(`tryIt.${each.kind}`)}</span>
              <code class="cut">
                <Marks text={each.arguments} cut={160} />
              </code>
              <span class="tiny faint num">{duration(each.milliseconds * 1000)}</span>
              <button type="button" class="button low" onClick={() => use(readJson(each.arguments).value)}>
                {t('tryIt.useAgain')}
              </button>
            </li>
          ))}
        </ul>
        <button
          type="button"
          class="button low start"
          onClick={() => {
            forgetRuns(tool);
            forget();
          }}
        >
          {t('tryIt.forget')}
        </button>
      </div>
    </details>
  );
}
