/** Definition: what the tool takes and returns as a table, the exact document of each dialect, findings, digests. */

import { useEffect, useMemo, useState } from 'preact/hooks';
import { dialectRequest, HallError } from '../../api/client';
import type { Finding, Json, ToolDetail } from '../../api/types';
import { query, setQuery } from '../../app/router';
import { type Shape, Shapes } from '../../forms/schema';
import { markedText, typeInWords, valueInWords } from '../../forms/words';
import { type Exact, escapePointer } from '../../json/exact';
import { CopyButton, Facts, Time } from '../../ui/basics';
import { Icon } from '../../ui/icon';
import { JsonView } from '../../ui/json';
import { Marks } from '../../ui/marks';
import { ErrorState, Waiting } from '../../ui/states';
import { rich, t } from '../../words/messages';
import { Document, FindingLine, type LineNote } from './document';
import '../../words/en/definition';
import '../../words/en/dialects';
import '../../words/en/form';

/** The dialects that definitions are written in. */
export const DIALECTS = [
  'mcp',
  'mcp@2025-11-25',
  'mcp@2025-06-18',
  'oxp',
  'hub',
  'machine',
  'openapi',
  'openai',
  'openai@responses',
  'openai@strict',
  'openai@responses-strict',
  'anthropic',
  'gemini',
] as const;
const ORIGINAL = 'original';
const NO_FINDINGS: Finding[] = [];

export function DefinitionTab({ tool }: { tool: ToolDetail }) {
  return (
    <div class="definition">
      <div class="stack">
        <SchemaCard title={t('definition.input')} schema={tool.inputSchema} findings={tool.findings} prefix="input" />
        {tool.kind !== 'tool' ? null : tool.outputSchema ? (
          <SchemaCard
            title={t('definition.output')}
            schema={tool.outputSchema}
            findings={NO_FINDINGS}
            prefix="output"
          />
        ) : (
          <section class="card">
            <header>
              <h2>{t('definition.output')}</h2>
            </header>
            <p class="in soft">{t('definition.noOutput')}</p>
          </section>
        )}
        <ExamplesCard examples={tool.examples ?? []} />
        <FactsCard tool={tool} />
      </div>
      <div class="stack">
        <FindingsCard findings={tool.findings} />
        <DialectCard tool={tool} />
      </div>
    </div>
  );
}

// --- the schema as a table --------------------------------------------------------------------------------------------

interface Row {
  path: string;
  name: string;
  depth: number;
  required: boolean;
  shape: Shape;
  note: string | null;
}

const MAX_DEPTH = 6;
const MAX_ROWS = 300;

/** The parts of a schema in reading order; one that contains itself is named, not repeated. */
export function schemaRows(top: Shape): Row[] {
  const rows: Row[] = [];
  const visit = (shape: Shape, path: string, depth: number, above: readonly Shape[]): void => {
    if (rows.length >= MAX_ROWS || depth > MAX_DEPTH) return;
    const add = (name: string, part: Shape, at: string, required: boolean) => {
      const known = above.includes(part);
      rows.push({ path: at, name, depth, required, shape: part, note: known ? t('definition.recursive') : null });
      if (!known) visit(part, at, depth + 1, [...above, part]);
    };
    for (const member of shape.members)
      add(member.name, member.shape, `${path}/${escapePointer(member.name)}`, member.required);
    if (shape.kind === 'object' && shape.offersMore && shape.members.length === 0) {
      const rest = shape.rest();
      if (rest && rest.kind !== 'any') add('*', rest, `${path}/*`, false);
    }
    if (shape.kind === 'array') {
      const item = shape.tuple === 0 ? shape.item(0) : null;
      for (let index = 0; index < Math.min(shape.tuple, 20); index++) {
        const part = shape.item(index);
        if (part) add(`${index + 1}.`, part, `${path}/${index}`, true);
      }
      if (item && (item.kind === 'object' || item.kind === 'choice')) add('[ ]', item, `${path}/*`, false);
    }
    for (const [index, alternative] of shape.alternatives.entries()) {
      add(alternative.label ?? typeInWords(alternative.shape), alternative.shape, `${path}|${index}`, false);
    }
  };
  visit(top, '', 0, [top]);
  return rows;
}

function SchemaCard({
  title,
  schema,
  findings,
  prefix,
}: {
  title: string;
  schema: Exact;
  findings: Finding[];
  prefix: string;
}) {
  const shape = useMemo(() => new Shapes(schema).top, [schema]);
  const rows = useMemo(() => schemaRows(shape), [shape]);
  return (
    <section class="card" aria-labelledby={`${prefix}-title`}>
      <header>
        <h2 id={`${prefix}-title`}>{title}</h2>
        {rows.length === 0 && <span class="type mono small faint">{typeInWords(shape)}</span>}
      </header>
      {rows.length === 0 ? (
        <p class="in soft">
          {shape.kind === 'object' && prefix === 'input' ? t('form.noMembers') : <Description shape={shape} />}
        </p>
      ) : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls can be reached by keyboard
        <div class="scroll" tabIndex={0} role="group" aria-label={title}>
          <table class="schema" aria-labelledby={`${prefix}-title`}>
            <thead>
              <tr>
                <th scope="col">{t('definition.name')}</th>
                <th scope="col">{t('definition.type')}</th>
                <th scope="col">{t('definition.description')}</th>
              </tr>
            </thead>
            <tbody>
              {rows.map((row, index) => (
                <SchemaRow key={index} row={row} findings={findings.filter((finding) => isAbout(finding.path, row))} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

// A finding names its place in the document, whatever dialect it came in: its end is the way through the schema.
function isAbout(path: string, { path: row }: Row): boolean {
  if (row === '' || row.includes('*') || row.includes('|')) return false;
  const inner = row
    .split('/')
    .slice(1)
    .map((part) => `/properties/${part}`)
    .join('');
  return path.endsWith(inner) || path.endsWith(`${inner}/description`);
}

function SchemaRow({ row, findings }: { row: Row; findings: Finding[] }) {
  const { name, depth, required, shape, note } = row;
  return (
    <tr>
      <th scope="row">
        <span class="indent" data-depth={Math.min(depth, MAX_DEPTH)}>
          <code>
            <Marks text={name} cut={80} />
          </code>
          {required && <span class="must tiny">{t('shared.required')}</span>}
        </span>
      </th>
      <td class="mono tiny soft">
        <Marks text={typeInWords(shape)} cut={160} />
      </td>
      <td class="small">
        {note ? <span class="faint">{note}</span> : <Description shape={shape} />}
        {findings.map((finding) => (
          <FindingLine key={finding.rule + finding.path} finding={finding} />
        ))}
      </td>
    </tr>
  );
}

function Description({ shape }: { shape: Shape }) {
  const { description, default: preset, pattern } = shape.keywords;
  return (
    <>
      {typeof description === 'string' && <Marks text={description} cut={600} />}{' '}
      {shape.kind === 'enum' && (
        <span class="values">
          {shape.options.slice(0, 12).map((option, index) => (
            <code key={index}>
              <Marks text={valueInWords(option.value)} cut={60} />
            </code>
          ))}
          {shape.options.length > 12 && t('json.rest', { count: shape.options.length - 12 })}
        </span>
      )}
      {typeof pattern === 'string' && (
        <span class="faint">
          {t('form.pattern')} <code>{markedText(pattern.slice(0, 200))}</code>
        </span>
      )}
      {preset !== undefined && (
        <span class="faint"> {t('form.default', { value: markedText(valueInWords(preset)) })}</span>
      )}
    </>
  );
}

// --- findings ---------------------------------------------------------------------------------------------------------

export const noteOf = (finding: Finding): LineNote => ({
  path: finding.path,
  severity: finding.severity,
  text: `${finding.rule}: ${finding.fix}`,
});

function FindingsCard({ findings }: { findings: Finding[] }) {
  return (
    <section class="card" aria-labelledby="findings-title">
      <header>
        <h2 id="findings-title">{t('definition.findings')}</h2>
        {findings.length > 0 && <span class="chip refused">{findings.length}</span>}
      </header>
      <div class="in stack tight">
        {findings.length === 0 ? (
          <p class="soft">
            <Icon name="check" /> {t('definition.noFindings')}
          </p>
        ) : (
          findings
            .slice(0, 50)
            .map((finding) => <FindingLine key={finding.rule + finding.path} finding={finding} place />)
        )}
      </div>
    </section>
  );
}

// --- the document of a dialect ----------------------------------------------------------------------------------------

/** Whether `GET /tools` has documents of it: what is not served has none, and neither have resources and prompts. */
export const isListed = (tool: ToolDetail) => tool.served && tool.kind === 'tool';

interface Fetched {
  dialect: string;
  document?: Json;
  refused?: string;
  error?: HallError;
}

/** The exact document of a tool in a dialect; a dialect may refuse to say it. */
export async function fetchDocument(tool: ToolDetail, dialect: string): Promise<Fetched> {
  try {
    const response = await dialectRequest('tools', undefined, { query: { dialect, tool: tool.id } });
    const said = (await response.json()) as {
      tools?: Json;
      refused?: { reason?: string }[];
      error?: { code: string; message: string };
    };
    if (!response.ok)
      throw new HallError(response.status, said.error?.code ?? '', said.error?.message ?? '', [], {}, 'GET tools');
    const documents = said.tools;
    if (Array.isArray(documents) && documents.length === 0) return { dialect, refused: refusalWords(said.refused) };
    return {
      dialect,
      document: Array.isArray(documents) && documents.length === 1 ? (documents[0] ?? null) : (documents ?? null),
    };
  } catch (error) {
    return { dialect, error: error instanceof HallError ? error : new HallError(0, 'broken', String(error)) };
  }
}

function refusalWords(refused: unknown): string {
  return refused === undefined ? t('shared.none') : JSON.stringify(refused);
}

function DialectCard({ tool }: { tool: ToolDetail }) {
  const known = [ORIGINAL, ...(isListed(tool) ? DIALECTS : [])];
  const dialect = known.find((each) => each === query('dialect')) ?? (isListed(tool) ? 'mcp' : ORIGINAL);
  return (
    <section class="card" aria-labelledby="dialect-title">
      <header>
        <h2 id="dialect-title">{t('definition.asDialect')}</h2>
        <select
          class="push narrow"
          aria-label={t('definition.document')}
          value={dialect}
          onChange={(event) => setQuery({ dialect: event.currentTarget.value })}
        >
          {known.map((each) => (
            <option key={each} value={each}>
              {each === ORIGINAL ? t('definition.original') : each}
            </option>
          ))}
        </select>
      </header>
      <div class="in">
        {dialect === ORIGINAL ? (
          <Document value={tool.document} label={t('definition.document')} notes={tool.findings.map(noteOf)} />
        ) : (
          <DialectDocument tool={tool} dialect={dialect} />
        )}
      </div>
    </section>
  );
}

/** The document of one dialect, read when it is shown. */
export function DialectDocument({ tool, dialect }: { tool: ToolDetail; dialect: string }) {
  const [fetched, setFetched] = useState<Fetched | null>(null);
  useEffect(() => {
    let isCurrent = true;
    void fetchDocument(tool, dialect).then((each) => isCurrent && setFetched(each));
    return () => {
      isCurrent = false;
    };
  }, [tool.id, tool.digests.document, dialect]);
  if (fetched?.dialect !== dialect) return <Waiting rows={8} />;
  if (fetched.error) return <ErrorState error={fetched.error} small />;
  if (fetched.document === undefined)
    return <p class="soft">{t('definition.noDocument', { reason: markedText(fetched.refused ?? '') })}</p>;
  return <Document value={fetched.document} label={t('dialects.documentOf', { dialect })} />;
}

// --- examples and facts -----------------------------------------------------------------------------------------------

function ExamplesCard({ examples }: { examples: ToolDetail['examples'] }) {
  if (examples.length === 0) return null;
  return (
    <section class="card" aria-labelledby="examples-title">
      <header>
        <h2 id="examples-title">{t('definition.examples')}</h2>
      </header>
      <div class="in stack tight">
        {examples.slice(0, 10).map((example, index) => (
          <JsonView key={index} value={example} />
        ))}
      </div>
    </section>
  );
}

function FactsCard({ tool }: { tool: ToolDetail }) {
  const digest = (value: string) => (
    <span class="digest">
      <code class="cut">{value}</code>
      <CopyButton text={value} />
    </span>
  );
  return (
    <section class="card" aria-labelledby="digests-title">
      <header>
        <h2 id="digests-title">{t('definition.digests')}</h2>
      </header>
      <div class="in">
        <Facts
          facts={[
            [t('definition.shown'), digest(tool.digests.shown)],
            [t('definition.contract'), digest(tool.digests.contract)],
            [t('definition.documentDigest'), digest(tool.digests.document)],
            [
              t('definition.registered'),
              <span key="registered">
                {rich('definition.registeredBy', {
                  time: <Time at={tool.registeredAt} as="dateTime" />,
                  who: <Marks text={tool.by} cut={80} />,
                })}
              </span>,
            ],
            [
              t('definition.origin'),
              <Marks key="origin" text={[tool.origin, tool.originDetail].filter(Boolean).join(': ')} cut={300} />,
            ],
            [t('definition.dialect'), <Marks key="dialect" text={tool.dialect} cut={60} />],
            [
              t('definition.tags'),
              (tool.tags ?? []).length > 0 ? <Marks key="tags" text={tool.tags.join(', ')} cut={300} /> : null,
            ],
          ]}
        />
      </div>
    </section>
  );
}
