/** What came of a run: value, table, text, pictures, sound, links; refusals with their rule; stages; every message. */

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { Kind } from '../../app/kinds';
import { href } from '../../app/router';
import { markedText } from '../../forms/words';
import { type Exact, isObject, readJson, tryJson, writeJson } from '../../json/exact';
import { bytesOf, dataUri, isJson, mediaBlob, sizeOf, webAddress } from '../../run/media';
import type { Block, Outcome, WireMessage } from '../../run/outcome';
import { Chip, CopyButton, Note, Time, type Tone } from '../../ui/basics';
import { Icon, type IconName } from '../../ui/icon';
import { JsonView } from '../../ui/json';
import { Marks } from '../../ui/marks';
import { StageWaterfall } from '../../ui/stages';
import { EmptyState } from '../../ui/states';
import { Segments } from '../../ui/tabs';
import { bytes, duration } from '../../words/format';
import { t } from '../../words/messages';
import { MimeType } from './facts';
import { Questions } from './questions';
import type { Run } from './run';
import '../../words/en/try-it';

const TONES: Record<Outcome['kind'], Tone> = {
  ok: 'ok',
  tool_error: 'failed',
  refused: 'refused',
  failed: 'failed',
  cancelled: 'plain',
};
const ICONS: Record<Outcome['kind'], IconName> = {
  ok: 'check',
  tool_error: 'warning',
  refused: 'cross',
  failed: 'warning',
  cancelled: 'stop',
};

export function ResultCard({ kind, run }: { kind: Kind; run: Run }) {
  const { outcome, asked, call } = run;
  return (
    <section class="card" aria-labelledby="result-title">
      <header>
        <h2 id="result-title">{t('tryIt.result')}</h2>
        <span aria-live="polite">
          {run.running && (
            <Chip tone="busy" icon="clock">
              {t('tryIt.running')}
            </Chip>
          )}
          {outcome && (
            <Chip tone={TONES[outcome.kind]} icon={ICONS[outcome.kind]}>
              {t(`tryIt.${outcome.kind}`)}
            </Chip>
          )}
        </span>
        {outcome && (
          <span class="faint small num push">
            {t('tryIt.tookBytes', { time: duration(outcome.milliseconds * 1000), bytes: bytes(outcome.bytes) })}
          </span>
        )}
      </header>
      <div class="in stack">
        {run.running && run.progress && <ProgressBar run={run} />}
        {asked && <Questions questions={asked.questions} reply={asked.reply} />}
        {!outcome && !run.running && <EmptyState icon="play">{t(`tryIt.nothing.${kind}`)}</EmptyState>}
        {outcome && <OutcomeView outcome={outcome} />}
        {call && (
          <div class="stack tight">
            <div class="row">
              <h3>{t('tryIt.where')}</h3>
              <a class="small push" href={href(['calls', call.call])}>
                {t('tryIt.seeCall')}
              </a>
            </div>
            <StageWaterfall stages={call.stages} kind={call.kind} />
          </div>
        )}
        {run.messages.length > 0 && <Messages messages={run.messages} />}
      </div>
    </section>
  );
}

function ProgressBar({ run: { progress } }: { run: Run }) {
  if (!progress) return null;
  const { done, total, message } = progress;
  return (
    <div class="stack tight">
      <progress
        aria-label={t('tryIt.progress')}
        {...(total === null ? {} : { max: total, value: Math.min(done, total) })}
      />
      <span class="hint">
        {total !== null && t('tryIt.progressOf', { done, total })} {message && <Marks text={message} cut={300} />}
      </span>
    </div>
  );
}

function OutcomeView({ outcome }: { outcome: Outcome }) {
  if (outcome.kind === 'ok') return <Value outcome={outcome} />;
  const address = outcome.url === null ? null : webAddress(outcome.url);
  const message = outcome.message ?? (outcome.kind === 'cancelled' ? t('tryIt.cancelledWhy') : t('tryIt.unreachable'));
  return (
    <>
      <Note tone={outcome.kind === 'refused' || outcome.kind === 'cancelled' ? 'refused' : 'failed'} live>
        <p class="text-result">
          <Marks text={message} cut={4000} />
        </p>
        {outcome.code && <code>{outcome.code}</code>}
        {address && (
          <p>
            <a href={address} target="_blank" rel="noopener noreferrer">
              {t('tryIt.openPage')}
            </a>
          </p>
        )}
      </Note>
      <Blocks blocks={outcome.blocks} />
    </>
  );
}

type View = 'value' | 'table' | 'content';

/** The value, and content that says more than the value. */
function Value({ outcome: { value, blocks } }: { outcome: Outcome }) {
  const rows = useMemo(() => tableRows(value), [value]);
  const views: [View, string][] = [];
  if (rows) views.push(['table', t('tryIt.tableView')]);
  if (value !== undefined) views.push(['value', t('tryIt.value')]);
  if (blocks.length > 0 && (value === undefined || !repeats(blocks, value)))
    views.push(['content', t('tryIt.content')]);
  const [chosen, choose] = useState<View | null>(null);
  const hasMedia = blocks.some(({ type }) => type !== 'text');
  const first = hasMedia && views.some(([view]) => view === 'content') ? 'content' : views[0]?.[0];
  const view = views.some(([each]) => each === chosen) ? chosen : first;
  if (views.length === 0) return <p class="soft">{t('tryIt.noValue')}</p>;
  return (
    <div class="stack tight" role="group" aria-label={t('tryIt.answer')}>
      {views.length > 1 && view && (
        <Segments label={t('tryIt.showAs')} options={views} chosen={view} onChoose={choose} />
      )}
      {view === 'table' && rows && <RowsTable rows={rows} />}
      {view === 'value' && value !== undefined && <Single value={value} />}
      {view === 'content' && <Blocks blocks={blocks} />}
    </div>
  );
}

// Older clients are sent the value as text, too: that says nothing new.
function repeats(blocks: Block[], value: Exact): boolean {
  const [only] = blocks;
  if (blocks.length !== 1 || only?.type !== 'text') return false;
  return only.text === value || only.text === writeJson(value) || sameText(only.text, value);
}

function sameText(text: string, value: Exact): boolean {
  try {
    return writeJson(readJson(text).value) === writeJson(value);
  } catch {
    return false;
  }
}

function Single({ value }: { value: Exact }) {
  if (typeof value !== 'string') return <JsonView value={value} label={t('tryIt.result')} />;
  const media = dataUri(value);
  return media ? <Media kind={media.kind} data={media.data} mimeType={media.mimeType} /> : <Text text={value} />;
}

function Text({ text }: { text: string }) {
  if (text === '') return <p class="soft">{t('tryIt.empty')}</p>;
  return (
    <div class="copyable">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls can be reached by keyboard */}
      <pre class="text-result" tabIndex={0}>
        <Marks text={text} cut={200_000} />
      </pre>
      <CopyButton text={text} />
    </div>
  );
}

function Blocks({ blocks }: { blocks: Block[] }) {
  return (
    <>
      {blocks.map((block, index) => (
        <BlockView key={index} block={block} />
      ))}
    </>
  );
}

function BlockView({ block }: { block: Block }) {
  switch (block.type) {
    case 'text':
      return <Text text={block.text} />;
    case 'image':
    case 'audio':
      return <Media kind={block.type} data={block.data} mimeType={block.mimeType} />;
    case 'link':
      return <LinkBlock block={block} />;
    case 'file':
      return <FileBlock block={block} />;
    case 'message':
      return (
        <div class="stack tight message" role="group" aria-label={markedText(block.role)}>
          <strong class="small">
            <Marks text={block.role} cut={40} />
          </strong>
          <BlockView block={block.block} />
        </div>
      );
    case 'other':
      return <JsonView value={block.value} />;
  }
}

/** The content of a resource by its type: JSON and text as text, pictures and sound; all else can only be downloaded. */
function FileBlock({ block: { uri, mimeType, text, data } }: { block: Block & { type: 'file' } }) {
  const type = mimeType ?? '';
  const json = useMemo(() => (text !== null && isJson(type) ? tryJson(text) : undefined), [text, type]);
  const kind = type.startsWith('audio/') ? 'audio' : 'image';
  return (
    <div class="stack tight">
      <span class="row">
        <code class="anywhere">
          <Marks text={uri} cut={300} />
        </code>
        {mimeType !== null && <MimeType type={mimeType} />}
      </span>
      {json !== undefined ? (
        <JsonView value={json} label={t('tryIt.result')} />
      ) : text !== null ? (
        <Text text={text} />
      ) : (
        <Media kind={kind} data={data ?? ''} mimeType={type} />
      )}
    </div>
  );
}

function LinkBlock({ block }: { block: Block & { type: 'link' } }) {
  const address = webAddress(block.uri);
  const name = <Marks text={block.name} cut={200} />;
  return (
    <p class="row link-block">
      <Icon name="link" />
      {address ? (
        <a href={address} target="_blank" rel="noopener noreferrer nofollow">
          {name}
        </a>
      ) : (
        <strong>{name}</strong>
      )}
      <code class="faint">
        <Marks text={block.uri} cut={300} />
      </code>
      {!address && <span class="hint">{t('tryIt.notLink')}</span>}
      {block.description && (
        <span class="soft">
          <Marks text={block.description} cut={500} />
        </span>
      )}
    </p>
  );
}

/** A picture or sound from a blob, if its type is one that is shown. */
function Media({ kind, data, mimeType }: { kind: 'image' | 'audio'; data: string; mimeType: string }) {
  const [url, setUrl] = useState<string | null>(null);
  const blob = useMemo(() => mediaBlob(kind, data, mimeType), [kind, data, mimeType]);
  useEffect(() => {
    if (!blob) return;
    const made = URL.createObjectURL(blob);
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [blob]);
  if (!blob) return <Download data={data} mimeType={mimeType} />;
  if (url === null) return null;
  return kind === 'image' ? (
    <img class="media" src={url} alt={t('tryIt.picture')} />
  ) : (
    // biome-ignore lint/a11y/useMediaCaption: a tool's sound has no captions
    <audio class="media" src={url} controls aria-label={t('tryIt.sound')} />
  );
}

function Download({ data, mimeType }: { data: string; mimeType: string }) {
  const save = () => {
    const content = bytesOf(data);
    if (!content) return;
    // Whatever it is said to be: as bytes it is never opened as a page of this hall.
    const url = URL.createObjectURL(new Blob([content], { type: 'application/octet-stream' }));
    const link = document.createElement('a');
    link.href = url;
    link.download = 'result';
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  };
  return (
    <p class="row">
      <span>
        <Marks text={t('tryIt.notShown', { type: mimeType.slice(0, 80), size: bytes(sizeOf(data)) })} />
      </span>
      <button type="button" class="button low" onClick={save}>
        <Icon name="download" />
        {t('tryIt.download')}
      </button>
    </p>
  );
}

const MOST_ROWS = 100;
const MOST_COLUMNS = 12;

interface Rows {
  columns: string[];
  rows: { [key: string]: Exact }[];
  count: number;
}

/** A list of objects as rows; null for all else. */
function tableRows(value: Exact | undefined): Rows | null {
  const inner = isObject(value) && Object.keys(value).length === 1 ? Object.values(value)[0] : value;
  if (!Array.isArray(inner) || inner.length === 0 || !inner.every(isObject)) return null;
  const columns = [...new Set(inner.slice(0, MOST_ROWS).flatMap(Object.keys))];
  return columns.length > 0 && columns.length <= MOST_COLUMNS
    ? { columns, rows: inner.slice(0, MOST_ROWS), count: inner.length }
    : null;
}

function RowsTable({ rows: { columns, rows, count } }: { rows: Rows }) {
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls can be reached by keyboard */}
      <div class="scroll" tabIndex={0} role="group" aria-label={t('tryIt.tableView')}>
        <table class="result-table">
          <thead>
            <tr>
              {columns.map((column) => (
                <th key={column} scope="col" class={typeof rows[0]?.[column] === 'number' ? 'end' : undefined}>
                  <Marks text={column} cut={60} />
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row, index) => (
              <tr key={index}>
                {columns.map((column) => (
                  <td key={column} class={typeof row[column] === 'number' ? 'num end' : undefined}>
                    {Object.hasOwn(row, column) && <Marks text={cellText(row[column])} cut={300} />}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="hint">
        {count > rows.length ? t('tryIt.firstRows', { shown: rows.length, count }) : t('tryIt.rows', { count })}
      </p>
    </>
  );
}

function cellText(value: Exact | undefined): string {
  return typeof value === 'string' ? value : value === undefined ? '' : writeJson(value);
}

/** Every message with its time; it follows the newest one unless the person reads further up. */
function Messages({ messages }: { messages: WireMessage[] }) {
  const list = useRef<HTMLOListElement>(null);
  const follows = useRef(true);
  useLayoutEffect(() => {
    if (list.current && follows.current) list.current.scrollTop = list.current.scrollHeight;
  }, [messages.length]);
  const notice = ({
    currentTarget: { scrollTop, clientHeight, scrollHeight },
  }: {
    currentTarget: HTMLOListElement;
  }) => {
    follows.current = scrollTop + clientHeight >= scrollHeight - 8;
  };
  return (
    <details class="fold messages">
      <summary>
        <h3>{t('tryIt.messagesTitle')}</h3>
        <span class="chip">{messages.length}</span>
      </summary>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls can be reached by keyboard */}
      <ol ref={list} onScroll={notice} tabIndex={0}>
        {messages.map((message, index) => (
          <li key={index}>
            <details>
              <summary>
                <Icon name={message.sent ? 'up' : 'down'} />
                <Time at={message.at.toISOString()} as="exact" />
                <span>{t(message.sent ? 'tryIt.sent' : 'tryIt.received')}</span>
                <strong>{t(`tryIt.kinds.${message.kind}`)}</strong>
                <span class="cut faint">
                  <Marks text={message.json} cut={120} />
                </span>
              </summary>
              <Wire json={message.json} />
            </details>
          </li>
        ))}
      </ol>
    </details>
  );
}

function Wire({ json }: { json: string }) {
  let value: Exact;
  try {
    value = readJson(json).value;
  } catch {
    return <Text text={json} />;
  }
  return <JsonView value={value} depth={3} />;
}
