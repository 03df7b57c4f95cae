/** Find: one field for tools, callers, calls, screens and actions. What finds them is loaded when it is first opened. */

import { useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { HallError } from '../api/client';
import { Dialog } from '../ui/dialog';
import { Icon } from '../ui/icon';
import { Marks } from '../ui/marks';
import { ErrorState } from '../ui/states';
import { t } from '../words/messages';
import type { Found } from './found';

type Sources = typeof import('./found');
let loaded: Sources | null = null;

const PAUSE_MS = 120;

export function Find({ onClose }: { onClose: () => void }) {
  const [words, setWords] = useState('');
  const [chosen, choose] = useState(0);
  const id = useId();
  const field = useRef<HTMLInputElement>(null);
  const { sources, problem, load } = useSources();
  const remote = useRemote(sources, words.trim());
  const local = useMemo(() => sources?.local(words.trim()) ?? [], [sources, words]);
  const found = [...local, ...remote];
  // The field is there before anything can be found, and takes what is typed at once.
  useLayoutEffect(() => field.current?.focus(), []);
  useEffect(() => {
    document.getElementById(`${id}-${chosen}`)?.scrollIntoView({ block: 'nearest' });
  }, [chosen, id]);

  const take = (each: Found | undefined) => {
    if (!each) return;
    onClose();
    each.go();
  };
  const press = (event: KeyboardEvent) => {
    const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0;
    if (step) choose((chosen + step + found.length) % Math.max(1, found.length));
    else if (event.key === 'Enter') take(found[chosen]);
    else return;
    event.preventDefault();
  };

  return (
    <Dialog title={t('find.title')} onClose={onClose} bare class="find">
      <div class="field">
        <Icon name="find" />
        <input
          ref={field}
          role="combobox"
          aria-expanded="true"
          aria-controls={id}
          aria-autocomplete="list"
          aria-label={t('find.label')}
          aria-activedescendant={found.length ? `${id}-${chosen}` : undefined}
          placeholder={t('find.label')}
          autoComplete="off"
          spellcheck={false}
          value={words}
          onInput={(event) => {
            setWords(event.currentTarget.value);
            choose(0);
          }}
          onKeyDown={press}
        />
      </div>
      <span class="sr" role="status">
        {words ? t('find.results', { count: found.length }) : ''}
      </span>
      <div class="options" role="listbox" id={id} aria-label={t('find.title')}>
        {found.map((each, index) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the field has the keys of the list
          <div
            key={`${each.group} ${each.title}`}
            id={`${id}-${index}`}
            class="option"
            role="option"
            tabIndex={-1}
            aria-selected={index === chosen}
            onClick={() => take(each)}
          >
            <Icon name={each.icon} />
            <span class="cut">
              <Marks text={each.title} />
            </span>
            <span class="faint tiny cut push">
              <Marks text={each.detail ?? t(each.group)} cut={80} />
            </span>
          </div>
        ))}
      </div>
      {problem && <ErrorState error={problem} again={load} small />}
      {sources && !found.length && <p class="soft small state">{t('find.nothing')}</p>}
    </Dialog>
  );
}

function useSources() {
  const [sources, setSources] = useState(loaded);
  const [problem, setProblem] = useState<HallError | null>(null);
  const load = () => {
    setProblem(null);
    import('./found').then(
      (module) => {
        loaded = module;
        setSources(module);
      },
      (error: Error) => setProblem(new HallError(0, 'not_loaded', error.message)),
    );
  };
  useEffect(() => {
    if (!loaded) load();
  }, []);
  return { sources, problem, load };
}

/** What the hall finds, a moment after typing stopped. */
function useRemote(sources: Sources | null, words: string): Found[] {
  const [found, setFound] = useState<Found[]>([]);
  useEffect(() => {
    if (!sources || words.length < 2) {
      setFound([]);
      return;
    }
    const abort = new AbortController();
    const timer = setTimeout(async () => {
      const results = await sources.remote(words, abort.signal);
      if (!abort.signal.aborted) setFound(results);
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [sources, words]);
  return found;
}
