/** Adds a definition: pasted, from a file, or from an address of this hall; what lint says comes before it registers. */

import { useRef, useState } from 'preact/hooks';
import { hall } from '../../api/client';
import type { DefinitionCheck, ToolSummary } from '../../api/types';
import { href, query, setQuery } from '../../app/router';
import { faultInWords } from '../../forms/controls';
import { JsonError, readJson } from '../../json/exact';
import { Note } from '../../ui/basics';
import { Dialog, useAction } from '../../ui/dialog';
import { Icon } from '../../ui/icon';
import { Marks } from '../../ui/marks';
import { ErrorState } from '../../ui/states';
import { Segments } from '../../ui/tabs';
import { rich, t } from '../../words/messages';
import { FindingLine } from './document';
import '../../words/en/add-tool';

const WAYS = ['paste', 'file', 'url'] as const;
type Way = (typeof WAYS)[number];
const DIALECTS = ['mcp', 'openapi', 'oxp', 'hub', 'machine', 'openai', 'anthropic', 'gemini', 'function'];
const MOST_BYTES = 4 * 1024 * 1024;

export function AddDefinition({ onClose }: { onClose: () => void }) {
  const way: Way = WAYS.find((each) => each === query('add')) ?? 'paste';
  const [text, setText] = useState('');
  const [dialect, setDialect] = useState('');
  const [checked, setChecked] = useState<DefinitionCheck | null>(null);
  const [registered, setRegistered] = useState<ToolSummary[] | null>(null);
  const fault = faultOf(text);
  const change = (next: string) => {
    setText(next);
    setChecked(null);
  };
  const body = () => JSON.parse(text) as unknown;
  const check = useAction(async () =>
    setChecked(await hall.post<DefinitionCheck>('api/definitions/check', body(), { query: { dialect } })),
  );
  const register = useAction(async () => {
    const made = await hall.post<{ tools: ToolSummary[] }>('api/tools', body(), { query: { dialect } });
    setRegistered(made.tools);
  });
  if (registered) return <Registered tools={registered} onClose={onClose} />;
  return (
    <Dialog title={t('addTool.title')} onClose={onClose} wide>
      <div class="stack">
        <p class="soft small">{t('addTool.why')}</p>
        <Segments
          label={t('addTool.how')}
          options={WAYS.map((each) => [each, t(`addTool.${each}`)] as const)}
          chosen={way}
          onChoose={(add) => setQuery({ add })}
        />
        {way === 'file' && <FileField onText={change} />}
        {way === 'url' && <AddressField onText={change} />}
        <div class="field">
          <label for="definition">{t('addTool.document')}</label>
          <textarea
            id="definition"
            rows={way === 'paste' ? 12 : 6}
            value={text}
            spellcheck={false}
            autoComplete="off"
            aria-invalid={fault !== null}
            aria-describedby="definition-wrong"
            onInput={(event) => change(event.currentTarget.value)}
          />
          <span class="wrong" id="definition-wrong">
            {fault && faultInWords(fault)}
          </span>
        </div>
        {checked && <Findings checked={checked} />}
        {check.error && <ErrorState error={check.error} small />}
        {register.error && <ErrorState error={register.error} small />}
        <div class="row">
          <label class="facet">
            <span>{t('addTool.dialect')}</span>
            <select
              value={dialect}
              onChange={(event) => {
                setDialect(event.currentTarget.value);
                setChecked(null);
              }}
            >
              <option value="">{t('addTool.detect')}</option>
              {DIALECTS.map((each) => (
                <option key={each} value={each}>
                  {each}
                </option>
              ))}
            </select>
          </label>
          <span class="row push">
            <button
              type="button"
              class={checked ? 'button' : 'button main'}
              disabled={text.trim() === '' || fault !== null || check.busy}
              onClick={check.run}
            >
              {t('addTool.check')}
            </button>
            <button
              type="button"
              class={checked ? 'button main' : 'button'}
              disabled={!checked || register.busy}
              onClick={register.run}
            >
              {t('addTool.register')}
            </button>
          </span>
        </div>
      </div>
    </Dialog>
  );
}

function faultOf(text: string): JsonError | null {
  if (text.trim() === '') return null;
  try {
    readJson(text);
    return null;
  } catch (error) {
    if (error instanceof JsonError) return error;
    throw error;
  }
}

function Findings({ checked: { dialect, tools, findings } }: { checked: DefinitionCheck }) {
  return (
    <div class="stack tight" role="status">
      <p>
        <strong>
          {rich('addTool.tools', {
            count: tools.length,
            names: <Marks text={tools.map(({ id }) => id).join(', ')} cut={600} />,
          })}
        </strong>{' '}
        <span class="soft small">{t('addTool.as', { dialect })}</span>
      </p>
      {findings.length === 0 ? (
        <p class="soft small">{t('addTool.clean')}</p>
      ) : (
        <>
          <h3>{t('addTool.findings', { count: findings.length })}</h3>
          {findings.slice(0, 100).map((finding) => (
            <FindingLine key={finding.rule + finding.path} finding={finding} place />
          ))}
        </>
      )}
    </div>
  );
}

function Registered({ tools, onClose }: { tools: ToolSummary[]; onClose: () => void }) {
  return (
    <Dialog title={t('addTool.registered')} onClose={onClose}>
      <div class="stack">
        <Note tone="ok" live>
          {t('addTool.waits')}
        </Note>
        <ul class="stack tight">
          {tools.map((tool) => (
            <li key={tool.id} class="row">
              <a href={href(['tools', tool.id, 'definition'])}>
                <Marks text={tool.id} cut={160} />
              </a>
              {tool.state === 'quarantined' && (
                <a class="button low push" href={href(['review', tool.id])}>
                  <Icon name="review" />
                  {t('addTool.review')}
                </a>
              )}
            </li>
          ))}
        </ul>
      </div>
    </Dialog>
  );
}

function FileField({ onText }: { onText: (text: string) => void }) {
  return (
    <div class="field">
      <label for="definition-file">{t('addTool.chooseFile')}</label>
      <input
        id="definition-file"
        type="file"
        accept=".json,application/json"
        onChange={(event) => {
          const file = event.currentTarget.files?.[0];
          if (file && file.size <= MOST_BYTES) void file.text().then(onText);
        }}
      />
    </div>
  );
}

/** A page may ask its own hall only; for documents elsewhere there is the command line. */
function AddressField({ onText }: { onText: (text: string) => void }) {
  const field = useRef<HTMLInputElement>(null);
  const [status, setStatus] = useState<number | null>(null);
  const load = async () => {
    setStatus(null);
    const address = new URL(field.current?.value ?? '', new URL('../', location.href));
    const response = await fetch(address, { headers: { Accept: 'application/json' } }).catch(() => null);
    const text = (await response?.text()) ?? '';
    if (response?.ok && faultOf(text) === null && text.trim() !== '') onText(text);
    else setStatus(response?.status ?? 0);
  };
  return (
    <div class="field">
      <label for="definition-url">{t('addTool.urlLabel')}</label>
      <span class="row nowrap">
        <input
          id="definition-url"
          ref={field}
          placeholder="openapi.json"
          spellcheck={false}
          autoComplete="off"
          aria-describedby="definition-url-hint"
        />
        <button type="button" class="button" onClick={() => void load()}>
          {t('addTool.fetch')}
        </button>
      </span>
      <span class="hint" id="definition-url-hint">
        {rich('addTool.urlWhy', { command: <code>toolhall tool add</code> })}
      </span>
      {status !== null && (
        <span class="wrong" role="alert">
          {t('addTool.fetchFailed', { status })}
        </span>
      )}
    </div>
  );
}
