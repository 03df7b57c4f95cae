/** First run: try one tool with one key press, connect an agent, and see its first call as it comes. */

import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { BY_CONSOLE, callTool, HallError, hall, segments } from '../../api/client';
import { askWhoIAm, me } from '../../api/me';
import { useResource } from '../../api/resource';
import type { AuditPage, CallDetail, Json, JsonObject, ToolDetail, ToolPage, ToolSummary } from '../../api/types';
import { href } from '../../app/router';
import { Effect, LevelMeter, Outcome } from '../../ui/basics';
import { Icon } from '../../ui/icon';
import { JsonView } from '../../ui/json';
import { Marks } from '../../ui/marks';
import { StageStrip } from '../../ui/stages';
import { EmptyState, ErrorState, Loaded, PageHead, Waiting } from '../../ui/states';
import { duration } from '../../words/format';
import { rich, t } from '../../words/messages';
import { ConnectClient } from './connect';
import { findSample, readField, type SampleField, SHOWN, sample, sampleFields } from './sample';
import '../../words/en/first-run';

/** Endpoints of `Me.endpoints` that are told apart, or are for operators. */
const NO_DIALECTS = ['rest', 'health'];

export function FirstRun() {
  const tools = useResource<ToolPage>('api/tools', {
    query: { kind: 'tool', state: 'active', limit: SHOWN },
    topics: ['tools', 'health'],
  });
  const found = tools.data;
  const person = me.value;
  const address = person?.publicUrl ?? location.origin;
  const dialects = Object.keys(person?.endpoints ?? {}).filter((each) => !NO_DIALECTS.includes(each)).length;
  // Who comes back after the first call of a client finds the Overview.
  useEffect(() => () => void askWhoIAm(), []);
  return (
    <>
      <PageHead title={t('first.title')}>
        {found &&
          rich('first.served', {
            count: found.total,
            dialects: t('first.dialects', { count: dialects }),
            address: <code>{address}</code>,
          })}{' '}
        {person?.profile === 'local' && t('first.onlyHere')}
      </PageHead>
      <div class="stack">
        <div class="columns">
          <section class="card">
            <header>
              <h2>
                <span class="step" aria-hidden="true">
                  1
                </span>
                {t('first.try')}
              </h2>
            </header>
            <Loaded of={tools} rows={5}>
              {(page) => <TryTool tools={page.tools} />}
            </Loaded>
          </section>
          <section class="card">
            <header>
              <h2>
                <span class="step" aria-hidden="true">
                  2
                </span>
                {t('first.connect')}
              </h2>
            </header>
            <div class="in">
              <ConnectClient />
            </div>
          </section>
        </div>
        {found && found.tools.length > 0 && <YourTools tools={found.tools} total={found.total} />}
      </div>
    </>
  );
}

function TryTool({ tools }: { tools: ToolSummary[] }) {
  useEffect(() => void findSample(tools), [tools]);
  const detail = sample.value;
  if (detail === undefined) return <Waiting rows={5} />;
  if (detail === null) return <EmptyState icon="tool">{t('first.noTool')}</EmptyState>;
  return <TryForm detail={detail} />;
}

interface Ran {
  value?: Json;
  error?: HallError;
  us: number;
}

function TryForm({ detail }: { detail: ToolDetail }) {
  const [fields] = useState(() => sampleFields(detail));
  const [texts, setTexts] = useState<Record<string, string>>(() =>
    Object.fromEntries(
      fields.map((each) => [each.name, each.type === 'choice' ? JSON.stringify(each.value) : String(each.value)]),
    ),
  );
  const [ran, setRan] = useState<Ran | null>(null);
  const [busy, setBusy] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  // One key press from here to the result: the button has the focus, unless the person has gone elsewhere.
  useLayoutEffect(() => {
    if (document.activeElement === document.body) button.current?.focus({ preventScroll: true });
  }, []);
  const run = async () => {
    if (busy) return;
    setBusy(true);
    const args: JsonObject = {};
    for (const each of fields) {
      const value = readField(each, texts[each.name] ?? '');
      if (value !== undefined) args[each.name] = value;
    }
    const began = performance.now();
    const us = () => Math.round((performance.now() - began) * 1000);
    try {
      const value = await callTool(detail.toolkit, detail.tool, args, { query: { version: detail.version } });
      setRan({ value, us: us() });
    } catch (error) {
      setRan({ error: error instanceof HallError ? error : new HallError(0, 'broken', String(error)), us: us() });
    }
    setBusy(false);
  };
  return (
    <form
      class="in stack"
      onSubmit={(event) => {
        event.preventDefault();
        void run();
      }}
    >
      <p class="soft">
        <strong>
          <Marks text={detail.id.split('@')[0] ?? detail.id} />
        </strong>{' '}
        <Marks text={detail.description} cut={200} />
      </p>
      {fields.length > 0 && (
        <div class={fields.length > 1 ? 'columns' : 'stack'}>
          {fields.map((each) => (
            <Field
              key={each.name}
              field={each}
              text={texts[each.name] ?? ''}
              onInput={(text) => setTexts({ ...texts, [each.name]: text })}
            />
          ))}
        </div>
      )}
      <div class="row">
        <button ref={button} type="submit" class="button main" aria-disabled={busy}>
          <Icon name="play" />
          {t(busy ? 'first.runs' : 'first.run')}
          <kbd>Enter</kbd>
        </button>
        <a class="small" href={href(['tools', detail.id, 'try'])}>
          {t('first.openTool')}
        </a>
      </div>
      <div role="status">{ran && <RunResult ran={ran} detail={detail} />}</div>
    </form>
  );
}

function Field({ field, text, onInput }: { field: SampleField; text: string; onInput: (text: string) => void }) {
  const id = `try-${field.name}`;
  return (
    <div class="field">
      <label for={id}>
        <Marks text={field.name} /> <span class="type">{field.type === 'choice' ? '' : field.type}</span>
      </label>
      {field.type === 'choice' || field.type === 'boolean' ? (
        <select id={id} value={text} onChange={(event) => onInput(event.currentTarget.value)}>
          {(field.type === 'boolean' ? [true, false] : field.choices).map((each) => (
            <option key={String(each)} value={JSON.stringify(each)}>
              {String(each)}
            </option>
          ))}
        </select>
      ) : (
        <input
          id={id}
          inputMode={field.type === 'string' ? undefined : 'decimal'}
          autoComplete="off"
          value={text}
          onInput={(event) => onInput(event.currentTarget.value)}
        />
      )}
    </div>
  );
}

function RunResult({ ran, detail }: { ran: Ran; detail: ToolDetail }) {
  const call = useOwnCall(ran, detail.id);
  if (ran.error) {
    return (
      <div class="stack tight">
        <ErrorState error={ran.error} small />
        {call && <StageStrip stages={call.stages} />}
      </div>
    );
  }
  return (
    <div class="stack tight">
      <p class="row">
        <Outcome outcome="ok" />
        <span class="soft tiny">{t('first.took', { time: duration(call?.end?.durationUs ?? ran.us) })}</span>
      </p>
      <JsonView value={ran.value ?? null} copy={false} />
      {call && <StageStrip stages={call.stages} />}
    </div>
  );
}

/** The stages of the call that was just made: the newest one of this tool by this caller. */
function useOwnCall(ran: Ran, tool: string): CallDetail | null {
  const [call, setCall] = useState<CallDetail | null>(null);
  useEffect(() => {
    const abort = new AbortController();
    setCall(null);
    void findOwnCall(tool, abort.signal).then((found) => !abort.signal.aborted && setCall(found));
    return () => abort.abort();
  }, [ran, tool]);
  return call;
}

async function findOwnCall(tool: string, signal: AbortSignal): Promise<CallDetail | null> {
  const caller = me.value?.caller;
  try {
    const page = await hall.get<AuditPage>('api/audit', {
      query: { tool, caller, dialect: BY_CONSOLE, limit: 1 },
      signal,
    });
    const [newest] = page.records;
    if (!newest) return null;
    return await hall.get<CallDetail>(segments('api/calls', newest.call), { signal });
  } catch {
    return null;
  }
}

/** Whether none of these is a newer version of a tool. */
const isNewestOf = (tools: ToolSummary[]) => (tool: ToolSummary) =>
  tool.newest || !tools.some((each) => each.newest && each.toolkit === tool.toolkit && each.tool === tool.tool);

function YourTools({ tools, total }: { tools: ToolSummary[]; total: number }) {
  return (
    <section class="stack tight">
      <div class="row">
        <h2>{t('first.tools')}</h2>
        {total > SHOWN && (
          <a class="push small" href={href(['tools'])}>
            {t('first.allTools', { count: total })}
          </a>
        )}
      </div>
      <div class="tiles">
        {tools.filter(isNewestOf(tools)).map((each) => (
          <a class="card tile" key={each.id} href={href(['tools', each.id])}>
            <strong>
              <Marks text={`${each.toolkit}.${each.tool}`} />
            </strong>
            <span class="text">
              <Marks text={each.description} cut={200} />
            </span>
            <span class="row">
              <LevelMeter level={each.effectiveLevel} />
              <Effect effect={each.effect} />
            </span>
          </a>
        ))}
      </div>
    </section>
  );
}
