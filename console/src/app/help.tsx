/** What is in dialogs of the frame, loaded when one is first opened: the keys of the keyboard, and the preferences of the person. */

import { useLayoutEffect, useRef } from 'preact/hooks';
import { BASE, changeToken } from '../api/client';
import { me } from '../api/me';
import { focusFirstField } from '../ui/dialog';
import { Icon } from '../ui/icon';
import { hasMessage, LANGUAGES, t } from '../words/messages';
import { KEYS } from './keys';
import { isTracePattern, type Preferences, prefer, preferences } from './preferences';
import '../words/en/dialogs';

export function KeyTable() {
  return (
    <div class="stack">
      <dl class="key-table">
        {Object.entries(KEYS).map(([action, { keys, does }]) => (
          <>
            <dt key={action}>
              {keys.map((sequence, index) => (
                <>
                  {index > 0 && ` ${t('keys.or')} `}
                  <Sequence keys={sequence} />
                </>
              ))}
            </dt>
            <dd>{t(does)}</dd>
          </>
        ))}
      </dl>
      {!preferences.value.letters && <p class="small soft">{t('keys.off')}</p>}
      <p class="small soft">{t('keys.note')}</p>
    </div>
  );
}

function Sequence({ keys }: { keys: string[] }) {
  return (
    <>
      {keys.map((key, index) => (
        <span key={key}>
          {index > 0 && <span class="sr"> {t('keys.followedBy')} </span>}
          <kbd>{key}</kbd>{' '}
        </span>
      ))}
    </>
  );
}

const THEMES = [
  ['system', 'preferences.themeSystem'],
  ['light', 'preferences.themeLight'],
  ['dark', 'preferences.themeDark'],
] as const;
const CLOCKS = [
  ['local', 'preferences.clockLocal'],
  ['utc', 'preferences.clockUtc'],
] as const;
const LANGUAGE_WORDS = {
  system: 'preferences.languageSystem',
  en: 'preferences.languageEn',
  pseudo: 'preferences.languagePseudo',
  'pseudo-rtl': 'preferences.languagePseudoRtl',
} as const;

export function PreferencesForm() {
  const form = useRef<HTMLDivElement>(null);
  // The dialog was there before its fields.
  useLayoutEffect(() => focusFirstField(form.current?.closest('dialog')), []);
  const chosen = preferences.value;
  const person = me.value;
  return (
    <div class="stack" ref={form}>
      <Choice name="theme" label={t('preferences.theme')} options={THEMES} />
      <Choice name="clock" label={t('preferences.clock')} options={CLOCKS} />
      <div class="field">
        <label for="language">{t('preferences.language')}</label>
        <select
          id="language"
          value={chosen.language}
          onChange={(event) => prefer({ language: event.currentTarget.value as Preferences['language'] })}
        >
          {(['system', ...LANGUAGES] as const).map((each) => (
            <option key={each} value={each}>
              {t(LANGUAGE_WORDS[each])}
            </option>
          ))}
        </select>
      </div>
      <div class="field">
        <label class="check">
          <input
            type="checkbox"
            checked={chosen.letters}
            aria-describedby="letters-why"
            onChange={(event) => prefer({ letters: event.currentTarget.checked })}
          />
          {t('preferences.letters')}
        </label>
        <p class="hint" id="letters-why">
          {t('preferences.lettersWhy')}
        </p>
      </div>
      <div class="field">
        <label for="trace">{t('preferences.trace')}</label>
        <input
          id="trace"
          type="url"
          spellcheck={false}
          placeholder="https://traces.example.org/search?call={call}"
          aria-describedby="trace-why"
          aria-invalid={chosen.trace !== '' && !isTracePattern(chosen.trace) ? 'true' : undefined}
          value={chosen.trace}
          onInput={(event) => prefer({ trace: event.currentTarget.value.trim() })}
        />
        <p class="hint" id="trace-why">
          {t('preferences.traceWhy')}
        </p>
      </div>
      <div class="row">
        {person && (
          <a class="button bare" href={person.docs} target="_blank" rel="noreferrer">
            <Icon name="open" />
            {t('frame.docs')}
          </a>
        )}
        {person?.sessionEndsAt && <SignOut />}
        <span class="faint tiny push">{t('frame.version', { version: person?.version ?? '' })}</span>
      </div>
    </div>
  );
}

interface ChoiceProps<N extends 'theme' | 'clock'> {
  name: N;
  label: string;
  options: readonly (readonly [Preferences[N], string])[];
}

function Choice<N extends 'theme' | 'clock'>({ name, label, options }: ChoiceProps<N>) {
  return (
    <fieldset class="field">
      <legend class="label small">{label}</legend>
      <div class="choice">
        {options.map(([value, words]) => (
          <label key={value}>
            <input
              type="radio"
              name={name}
              checked={preferences.value[name] === value}
              onChange={() => prefer({ [name]: value })}
            />
            {hasMessage(words) ? t(words) : words}
          </label>
        ))}
      </div>
    </fieldset>
  );
}

// A form post, as on the pages without JavaScript: the answer leads to the sign-in page.
function SignOut() {
  return (
    <form method="post" action={`${BASE}sign-out`}>
      <input type="hidden" name="word" value={changeToken.value ?? ''} />
      <button type="submit" class="button bare">
        {t('frame.signOut')}
      </button>
    </form>
  );
}
