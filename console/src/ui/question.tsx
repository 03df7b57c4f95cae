/** `Question`: a card with a form that asks the hall something and shows what it says; what was said before is gone then. */

import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { useAction } from './dialog';
import { ErrorState } from './states';

interface QuestionProps<T> {
  /** Of the heading, which names the card. */
  id: string;
  title: string;
  about: string;
  /** The fields. */
  children: ComponentChildren;
  /** Beside the button. */
  beside?: ComponentChildren;
  verb: string;
  /** Whether the button only compares, and is not the main thing of its screen. */
  minor?: boolean;
  ready: boolean;
  /** Ask as soon as the card is there, since the address says everything. */
  atOnce?: boolean;
  ask: () => Promise<T>;
  answer: (said: T) => ComponentChildren;
}

export function Question<T>({ id, ask, answer, ...of }: QuestionProps<T>) {
  const [said, setSaid] = useState<T | null>(null);
  const action = useAction(async () => {
    setSaid(null);
    setSaid(await ask());
  });
  useEffect(() => {
    if (of.atOnce) action.run();
  }, []);
  return (
    <section class="card" aria-labelledby={id}>
      <header>
        <h2 id={id}>{of.title}</h2>
      </header>
      <form
        class="in stack"
        onSubmit={(event) => {
          event.preventDefault();
          action.run();
        }}
      >
        <p class="soft">{of.about}</p>
        {of.children}
        <div class="row">
          {of.beside}
          <button type="submit" class={of.minor ? 'button' : 'button main'} disabled={action.busy || !of.ready}>
            {of.verb}
          </button>
        </div>
        {action.error && <ErrorState error={action.error} small />}
        {said !== null && answer(said)}
      </form>
    </section>
  );
}
