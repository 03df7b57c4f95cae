/** `DraftGrant`: a new grant, what it would change for one caller and tool, and only then its saving. */

import { useState } from 'preact/hooks';
import { HallError, hall } from '../../api/client';
import type { Grant, Json, NewGrant } from '../../api/types';
import { href, navigate } from '../../app/router';
import { needsProof, ProofDialog } from '../../app/session';
import { Note } from '../../ui/basics';
import { useAction } from '../../ui/dialog';
import { Icon } from '../../ui/icon';
import { checkJson } from '../../ui/json';
import { Marks } from '../../ui/marks';
import { Combobox } from '../../ui/menu';
import { Question } from '../../ui/question';
import { ErrorState } from '../../ui/states';
import { Segments } from '../../ui/tabs';
import { t } from '../../words/messages';
import { ask, CallAsked, CheckResult, suggestCallers, suggestTools } from './why-panel';
import '../../words/en/grants';

interface Condition {
  path: string;
  value: string;
}

export function DraftGrant({ onAdded }: { onAdded: () => Promise<void> }) {
  const [effect, setEffect] = useState<'permit' | 'forbid'>('permit');
  const [callers, setCallers] = useState('');
  const [tools, setTools] = useState('');
  const [conditions, setConditions] = useState<readonly Condition[]>([]);
  const [warnings, setWarnings] = useState<readonly string[]>([]);
  const [proving, setProving] = useState(false);
  const grant = (): NewGrant => ({
    callers: callers.trim(),
    tools: tools.trim(),
    effect,
    ...(conditions.length ? { conditions: conditions.map(asCondition) } : {}),
  });
  const save = useAction(async () => {
    try {
      const added = await hall.post<Grant & { warnings: string[] }>('api/grants', grant());
      await onAdded();
      if (added.warnings.length) setWarnings(added.warnings);
      else navigate(href(['grants'], { grant: added.id }));
    } catch (error) {
      if (!needsProof(error)) throw error;
      setProving(true);
    }
  });
  const change = (at: number, changed: Partial<Condition>) =>
    setConditions(conditions.map((each, index) => (index === at ? { ...each, ...changed } : each)));
  const incomplete = !callers.trim() || !tools.trim() || conditions.some((each) => !each.path || !each.value);
  return (
    <div class="columns">
      <section class="card" aria-labelledby="draft">
        <header>
          <h2 id="draft">{t('grants.add')}</h2>
        </header>
        <form
          class="in stack"
          onSubmit={(event) => {
            event.preventDefault();
            save.run();
          }}
        >
          <Segments
            label={t('grants.effect')}
            options={[
              ['permit', t('grants.permit')],
              ['forbid', t('grants.forbid')],
            ]}
            chosen={effect}
            onChoose={setEffect}
          />
          <div class="field">
            <label for="grant-callers">{t('grants.callers')}</label>
            <Combobox
              id="grant-callers"
              text={callers}
              onInput={setCallers}
              suggest={suggestCallers}
              describedBy="grant-callers-hint"
            />
            <p class="hint" id="grant-callers-hint">
              {t('grants.callersHint')}
            </p>
          </div>
          <div class="field">
            <label for="grant-tools">{t('grants.tools')}</label>
            <Combobox
              id="grant-tools"
              text={tools}
              onInput={setTools}
              suggest={suggestGlobs}
              describedBy="grant-tools-hint"
            />
            <p class="hint" id="grant-tools-hint">
              {t('grants.toolsHint')}
            </p>
          </div>
          <fieldset class="choices">
            <legend>{t('grants.conditions')}</legend>
            {conditions.map((each, at) => (
              <div class="row" key={`condition-${String(at)}`}>
                <div class="field">
                  <label for={`condition-path-${at}`}>{t('grants.path')}</label>
                  <input
                    id={`condition-path-${at}`}
                    class="mono"
                    placeholder="/repo"
                    value={each.path}
                    onInput={(event) => change(at, { path: event.currentTarget.value })}
                  />
                </div>
                <div class="field">
                  <label for={`condition-value-${at}`}>{t('grants.value')}</label>
                  <input
                    id={`condition-value-${at}`}
                    class="mono"
                    placeholder='"docs"'
                    value={each.value}
                    onInput={(event) => change(at, { value: event.currentTarget.value })}
                  />
                </div>
                <button
                  type="button"
                  class="button bare low"
                  aria-label={t('grants.removeCondition', { path: each.path || String(at + 1) })}
                  onClick={() => setConditions(conditions.filter((_, index) => index !== at))}
                >
                  <Icon name="cross" />
                </button>
              </div>
            ))}
            <div class="row">
              <button
                type="button"
                class="button low"
                onClick={() => setConditions([...conditions, { path: '', value: '' }])}
              >
                <Icon name="plus" />
                {t('grants.addCondition')}
              </button>
            </div>
            <p class="hint">{t('grants.conditionsHint')}</p>
          </fieldset>
          {save.error && <ErrorState error={save.error} small />}
          {warnings.length > 0 && (
            <Note tone="refused" live>
              <p>{t('grants.savedWith')}</p>
              <ul class="plain-list">
                {warnings.map((each) => (
                  <li key={each}>
                    <Marks text={each} />
                  </li>
                ))}
              </ul>
              <a href={href(['grants'])}>{t('grants.toList')}</a>
            </Note>
          )}
          <div class="row">
            <button type="submit" class="button main" disabled={save.busy || incomplete}>
              {t('grants.save')}
            </button>
          </div>
        </form>
      </section>
      <Effects grant={grant} incomplete={incomplete} />
      {proving && (
        <ProofDialog
          onProven={() => {
            setProving(false);
            save.run();
          }}
          onClose={() => setProving(false)}
        />
      )}
    </div>
  );
}

async function suggestGlobs(text: string): Promise<string[]> {
  const ids = await suggestTools(text.replace(/\.?\*$/, ''));
  return [...new Set(ids.flatMap((id) => [`${id.split('.')[0]}.*`, id.replace(/@.*/, '')]))];
}

/** `"docs"`, `3` and `["a", "b"]` are JSON; a word that is not is a text. */
function asCondition({ path, value }: Condition): { path: string; equals: Json } | { path: string; oneOf: Json[] } {
  const meant: Json = checkJson(value).problem ? value : (JSON.parse(value) as Json);
  return Array.isArray(meant) ? { path, oneOf: meant } : { path, equals: meant };
}

/** What the draft would change: the same question with it and without it. */
function Effects({ grant, incomplete }: { grant: () => NewGrant; incomplete: boolean }) {
  const [caller, setCaller] = useState('');
  const [tool, setTool] = useState('');
  const compare = async () => {
    if (incomplete) throw new HallError(-1, 'incomplete', t('grants.incomplete'));
    return await Promise.all([ask(caller, tool, ''), ask(caller, tool, '', grant())]);
  };
  return (
    <Question
      id="effects"
      title={t('grants.effects')}
      about={t('grants.effectsWhy')}
      verb={t('grants.compare')}
      minor
      ready={caller.trim() !== '' && tool.trim() !== ''}
      ask={compare}
      answer={([now, then]) => (
        <>
          <h3>{t('grants.now')}</h3>
          <CheckResult answer={now} />
          <h3>{t('grants.withDraft')}</h3>
          <CheckResult answer={then} />
        </>
      )}
    >
      <CallAsked id="effects" caller={caller} onCaller={setCaller} tool={tool} onTool={setTool} />
    </Question>
  );
}
