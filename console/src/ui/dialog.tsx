/** `Dialog`: a modal window over the page; the browser keeps the focus in it and gives it back. `Ask`: yes or no. */

import type { ComponentChild, ComponentChildren } from 'preact';
import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { HallError } from '../api/client';
import { t } from '../words/messages';
import { Icon } from './icon';
import { ErrorState } from './states';

interface DialogProps {
  title: ComponentChild;
  onClose: () => void;
  children: ComponentChildren;
  /** Whether Esc and the cross close it. */
  closable?: boolean;
  wide?: boolean;
  /** Leaves out the head; `title` is its name then. */
  bare?: boolean;
  class?: string;
}

/** Shown as long as it is drawn. */
export function Dialog({ title, onClose, children, closable = true, wide, bare, class: extra = '' }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const id = useId();
  // Before the browser paints: keys that are pressed at once go into it.
  useLayoutEffect(() => {
    const dialog = element.current;
    const before = document.activeElement;
    if (dialog && !dialog.open) dialog.showModal();
    focusFirstField(dialog);
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: by keyboard, Esc closes it
    <dialog
      ref={element}
      class={`${wide ? 'wide-dialog' : ''} ${extra}`}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        if (closable) onClose();
      }}
      onClick={(event) => {
        if (closable && bare && event.target === element.current) onClose();
      }}
    >
      {bare ? (
        <h2 class="sr" id={id}>
          {title}
        </h2>
      ) : (
        <header>
          <h2 id={id}>{title}</h2>
          {closable && (
            <button type="button" class="button bare low push" aria-label={t('shared.close')} onClick={onClose}>
              <Icon name="cross" />
            </button>
          )}
        </header>
      )}
      <div class="in">{children}</div>
    </dialog>
  );
}

/** Who opens a form wants to fill it in, not to close it; for contents that come after their dialog. */
export function focusFirstField(dialog: HTMLDialogElement | null | undefined): void {
  dialog?.querySelector<HTMLElement>('.in :is(input, select, textarea):not([disabled])')?.focus();
}

interface AskProps {
  title: ComponentChild;
  /** What will happen. */
  children: ComponentChildren;
  /** The verb of the button. */
  verb: string;
  danger?: boolean;
  /** What the button does; a refusal of the hall is shown here. */
  act: () => Promise<unknown>;
  onClose: () => void;
}

/** Asks before something is done, and shows why it could not be done. */
export function Ask({ title, children, verb, danger = false, act, onClose }: AskProps) {
  const action = useAction(async () => {
    await act();
    onClose();
  });
  return (
    <Dialog title={title} onClose={onClose}>
      <div class="stack">
        <div>{children}</div>
        {action.error && <ErrorState error={action.error} small />}
        <div class="actions">
          <button type="button" class="button" onClick={onClose}>
            {t('shared.cancel')}
          </button>
          <button
            type="button"
            class={danger ? 'button danger' : 'button main'}
            disabled={action.busy}
            onClick={action.run}
          >
            {verb}
          </button>
        </div>
      </div>
    </Dialog>
  );
}

/** Something that a button does: whether it runs, and what the hall said against it. */
export function useAction(act: () => Promise<unknown>): { run: () => void; busy: boolean; error: HallError | null } {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<HallError | null>(null);
  const run = () => {
    if (busy) return;
    setBusy(true);
    setError(null);
    act()
      .catch((problem: HallError) => setError(problem))
      .finally(() => setBusy(false));
  };
  return { run, busy, error };
}
