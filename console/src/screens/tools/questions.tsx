/** What a tool asks while it runs: a form to fill in, a page to open, or words of a model. */

import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { SchemaForm } from '../../forms/fields';
import { Shapes } from '../../forms/schema';
import { formValue, initialState, type State } from '../../forms/state';
import { type Exact, writeJson } from '../../json/exact';
import type { Question, Replies } from '../../run/mcp';
import { webAddress } from '../../run/media';
import { Icon } from '../../ui/icon';
import { Marks } from '../../ui/marks';
import { t } from '../../words/messages';
import '../../words/en/try-it';

/** All questions of one round; the call goes on when they are answered. */
export function Questions({ questions, reply }: { questions: Question[]; reply: (replies: Replies) => void }) {
  const [answers, setAnswers] = useState<Record<string, Exact>>({});
  const form = useRef<HTMLFormElement>(null);
  // Who pressed Run goes on with the keyboard where the tool waits.
  useLayoutEffect(() => form.current?.querySelector<HTMLElement>('input, select, textarea, a')?.focus(), []);
  const set = (key: string) => (answer: Exact) => setAnswers((before) => ({ ...before, [key]: answer }));
  const send = (action: 'accept' | 'decline') =>
    reply(
      Object.fromEntries(
        questions.map((each) => [
          each.key,
          action === 'accept' ? accepted(each, answers[each.key]) : { action: 'decline' },
        ]),
      ),
    );
  return (
    <form
      class="questions stack"
      ref={form}
      noValidate
      aria-label={t('tryIt.asks')}
      onSubmit={(event) => {
        event.preventDefault();
        send('accept');
      }}
    >
      <h3>
        <Icon name="person" />
        {t('tryIt.asks')}
      </h3>
      {questions.map((question) => (
        <div key={question.key} class="stack tight">
          {question.message && (
            <p>
              <Marks text={question.message} cut={4000} />
            </p>
          )}
          {question.mode === 'form' && <FormQuestion question={question} onChange={set(question.key)} />}
          {question.mode === 'url' && <Visit url={question.url} />}
          {question.mode === 'sample' && <Sample question={question} onChange={set(question.key)} />}
        </div>
      ))}
      <div class="row">
        <button type="submit" class="button main">
          {questions.every(({ mode }) => mode === 'url') ? t('tryIt.visited') : t('tryIt.answers')}
        </button>
        <button type="button" class="button" onClick={() => send('decline')}>
          {t('tryIt.decline')}
        </button>
      </div>
    </form>
  );
}

function accepted(question: Question, answer: Exact | undefined): Exact {
  if (question.mode === 'url') return { action: 'accept' };
  if (question.mode === 'sample')
    return {
      role: 'assistant',
      model: 'a person',
      content: { type: 'text', text: typeof answer === 'string' ? answer : '' },
    };
  return { action: 'accept', content: answer ?? {} };
}

function FormQuestion({
  question,
  onChange,
}: {
  question: Question & { mode: 'form' };
  onChange: (answer: Exact) => void;
}) {
  const shape = useMemo(() => new Shapes(question.schema).top, [question.schema]);
  const [state, setState] = useState<State>(() => initialState(shape, true));
  const change = (next: State) => {
    setState(next);
    onChange(formValue(next) ?? {});
  };
  // What is filled in by itself is an answer, too: once, for what the form begins with, before anybody can send it.
  useLayoutEffect(() => onChange(formValue(state) ?? {}), []);
  return <SchemaForm id={`ask-${question.key}`} shape={shape} state={state} onChange={change} />;
}

function Visit({ url }: { url: string }) {
  const address = webAddress(url);
  if (address === null) return <p class="wrong">{t('tryIt.badAddress', { address: url.slice(0, 200) })}</p>;
  return (
    <p class="row">
      <a class="button" href={address} target="_blank" rel="noopener noreferrer">
        <Icon name="open" />
        {t('tryIt.visit')}
      </a>
      <span class="hint">{t('tryIt.visitHost', { host: new URL(address).host })}</span>
    </p>
  );
}

function Sample({
  question,
  onChange,
}: {
  question: Question & { mode: 'sample' };
  onChange: (answer: Exact) => void;
}) {
  return (
    <div class="field">
      <p class="hint">{t('tryIt.sample')}</p>
      <pre>
        {question.system !== null && <Marks text={`${question.system}\n\n`} cut={4000} />}
        <Marks text={writeJson(question.messages, 2)} cut={8000} />
      </pre>
      <label for={`sample-${question.key}`}>{t('tryIt.sampleLabel')}</label>
      <textarea
        id={`sample-${question.key}`}
        class="grow plain"
        rows={3}
        onInput={(event) => onChange(event.currentTarget.value)}
      />
    </div>
  );
}
