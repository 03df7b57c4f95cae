/** `useRun`: one run of a tool, read of a resource or get of a prompt from its page, over REST or MCP, with all that is known of it. */

import { useEffect, useRef, useState } from 'preact/hooks';
import { BASE, BY_CONSOLE, dialectHeaders, dialectRequest, HallError, hall, OF_DIALECTS } from '../../api/client';
import { useEvents } from '../../api/events';
import { mayLook, me } from '../../api/me';
import type { AuditPage, AuditRecord, CallDetail, ToolDetail } from '../../api/types';
import { type Exact, writeJson } from '../../json/exact';
import { callOverMcp, parameterHeaders, type Question, type Replies } from '../../run/mcp';
import {
  type Outcome,
  type OwnCall,
  type Progress,
  recordOf,
  restOutcome,
  restPromptOutcome,
  restReadOutcome,
  type WireMessage,
  withoutAnswer,
} from '../../run/outcome';
import { completeRequest, mcpRequest, readUri, restRequest, type Target } from '../../run/target';

export type Via = 'mcp' | 'rest';

export interface Run {
  running: boolean;
  outcome: Outcome | null;
  messages: WireMessage[];
  progress: Progress | null;
  asked: { questions: Question[]; reply: (replies: Replies) => void } | null;
  /** The call as the hall recorded it, once it did. */
  call: CallDetail | null;
}

const IDLE: Run = { running: false, outcome: null, messages: [], progress: null, asked: null, call: null };
const MOST_MESSAGES = 1_000;
/** So many records of a tool are looked at for the one of a run. */
const LOOKED_AT = 20;
/** When the record of a call is looked for: most are there at once. */
const LOOK_MS = [0, 100, 300, 700, 1500];

export function useRun(tool: ToolDetail) {
  const [run, setRun] = useState<Run>(IDLE);
  const abort = useRef<AbortController | null>(null);
  const ask = useRef<((replies: Replies) => void) | null>(null);
  useEffect(() => () => abort.current?.abort(), []);
  // The hall takes the stage times of all calls only while somebody listens to them.
  useEvents(['calls'], () => {}, { filters: { tool: tool.id } });

  const start = async (args: Exact, via: Via): Promise<Outcome> => {
    abort.current?.abort();
    const control = new AbortController();
    abort.current = control;
    const change = (to: (run: Run) => Partial<Run>) =>
      !control.signal.aborted && setRun((before) => ({ ...before, ...to(before) }));
    setRun({ ...IDLE, running: true });
    const began = performance.now();
    const earlier = await ownCalls(tool.id, control.signal).catch(() => undefined);
    let bytesIn = 0;
    const heard: Hearing = {
      signal: control.signal,
      message: (message) => {
        if (message.sent) bytesIn = new TextEncoder().encode(message.json).length;
        change(({ messages }) => ({ messages: [...messages.slice(1 - MOST_MESSAGES), message] }));
      },
      progress: (progress) => change(() => ({ progress })),
      ask: (questions) =>
        new Promise((resolve) => {
          const reply = (replies: Replies) => {
            ask.current = null;
            change(() => ({ asked: null }));
            resolve(replies);
          };
          ask.current = reply;
          change(() => ({ asked: { questions, reply } }));
        }),
    };
    let outcome: Outcome;
    try {
      outcome = via === 'mcp' ? await overMcp(tool, args, heard) : await overRest(tool, args, heard);
    } catch (error) {
      const isCancelled = control.signal.aborted;
      const message = error instanceof HallError ? error.message : null;
      outcome = withoutAnswer(isCancelled ? 'cancelled' : 'failed', message, performance.now() - began);
    }
    if (abort.current === control) setRun((now) => ({ ...now, running: false, outcome, asked: null }));
    if (earlier)
      void recorded(tool.id, { earlier, bytesIn, within: outcome.milliseconds }, control.signal).then(
        (call) => abort.current === control && call && setRun((now) => ({ ...now, call })),
      );
    return outcome;
  };
  const cancel = () => {
    ask.current?.(null);
    abort.current?.abort();
  };
  return { run, start, cancel, clear: () => setRun(IDLE) };
}

interface Hearing {
  signal: AbortSignal;
  message: (message: WireMessage) => void;
  progress: (progress: Progress) => void;
  ask: (questions: Question[]) => Promise<Replies>;
}

/** What a page asks of this hall; an older version of a tool is called by its id. */
export function targetOf(tool: ToolDetail): Target {
  const { kind, toolkit, uri } = tool;
  const published = tool.newest ? tool.name : tool.id;
  return { kind, hall: BASE.slice(0, -1), toolkit, tool: tool.tool, version: tool.version, published, uri };
}

async function overMcp(tool: ToolDetail, args: Exact, heard: Hearing): Promise<Outcome> {
  return callOverMcp({
    url: `${BASE}mcp`,
    asks: mcpRequest(targetOf(tool), args),
    version: me.value?.version ?? '0',
    headers: { ...(await dialectHeaders()), ...ownHeaders(tool, args) },
    signal: heard.signal,
    onMessage: heard.message,
    onProgress: heard.progress,
    ask: heard.ask,
  });
}

/** Arguments of a tool that its schema wants in headers, too. */
function ownHeaders(tool: ToolDetail, args: Exact): Record<string, string> {
  return tool.kind === 'tool' ? parameterHeaders(tool.inputSchema, args) : {};
}

async function overRest(tool: ToolDetail, args: Exact, heard: Hearing): Promise<Outcome> {
  const target = targetOf(tool);
  const { method, url, body } = restRequest(target, args);
  const headers: Record<string, string> = { ...(await dialectHeaders()), ...ownHeaders(tool, args), Accept: '*/*' };
  const init: RequestInit = { method, headers, signal: heard.signal, ...OF_DIALECTS };
  if (body !== undefined) {
    headers['Content-Type'] = 'application/json';
    init.body = writeJson(body);
  }
  const uri = tool.kind === 'resource' ? readUri(target, args) : null;
  heard.message({ at: new Date(), sent: true, kind: 'request', json: uri ?? writeJson(args) });
  const began = performance.now();
  const response = await fetch(url, init);
  const content = new Uint8Array(await response.arrayBuffer());
  const text = new TextDecoder().decode(content);
  const took = performance.now() - began;
  heard.message({ at: new Date(), sent: false, kind: response.ok ? 'result' : 'error', json: text });
  if (response.ok && uri !== null) {
    const type = response.headers.get('content-type') ?? '';
    return restReadOutcome({ uri, type, isList: response.headers.has('toolhall-contents') }, content, took);
  }
  return response.ok && tool.kind === 'prompt'
    ? restPromptOutcome(text, took)
    : restOutcome(response.status, text, took);
}

const COMPLETE_MS = 150;

/** Completions of one variable or argument, a moment after typing stopped; none where the hall has none. */
export function completer(tool: ToolDetail) {
  let asked = 0;
  return async (argument: string, typed: string, given: Exact): Promise<string[]> => {
    const mine = ++asked;
    await new Promise((resolve) => setTimeout(resolve, COMPLETE_MS));
    if (mine !== asked) return [];
    const body = completeRequest(targetOf(tool), argument, typed, given);
    const response = await dialectRequest('complete', body).catch(() => null);
    if (!response?.ok) return [];
    const { values } = (await response.json()) as { values: string[] };
    return values;
  };
}

/** The newest calls that this person made in the console; undefined if they may not look. */
async function ownCalls(tool: string, signal: AbortSignal): Promise<AuditRecord[] | undefined> {
  if (!mayLook() || !me.value) return undefined;
  const query = { tool, caller: me.value.caller, dialect: BY_CONSOLE, limit: LOOKED_AT };
  return (await hall.get<AuditPage>('api/audit', { query, signal })).records;
}

async function recorded(tool: string, own: OwnCall, signal: AbortSignal): Promise<CallDetail | null> {
  for (const wait of LOOK_MS) {
    await new Promise((resolve) => setTimeout(resolve, wait));
    if (signal.aborted) return null;
    try {
      const record = recordOf(own, (await ownCalls(tool, signal)) ?? []);
      if (record) return await hall.get<CallDetail>(`api/calls/${encodeURIComponent(record.call)}`, { signal });
    } catch {
      // it is only told where the time went
    }
  }
  return null;
}

// --- the runs of this tab ---------------------------------------------------------------------------------------------

/** A run that the person made in this browser tab. */
export interface PastRun {
  at: string;
  id: string;
  arguments: string;
  kind: Outcome['kind'];
  milliseconds: number;
}

const STORED = 'toolhall.runs';
const MOST_RUNS = 50;
const MOST_LETTERS = 20_000;

export function pastRuns(tool: ToolDetail): PastRun[] {
  return readRuns().filter((run) => run.id.split('@')[0] === tool.id.split('@')[0]);
}

/** Keep a run in this tab; what is secret by its schema is not kept, and neither is what is very long. */
export function rememberRun(run: PastRun): void {
  if (run.arguments.length > MOST_LETTERS) return;
  writeRuns([run, ...readRuns()].slice(0, MOST_RUNS));
}

export function forgetRuns(tool: ToolDetail): void {
  writeRuns(readRuns().filter((run) => run.id.split('@')[0] !== tool.id.split('@')[0]));
}

function readRuns(): PastRun[] {
  try {
    const stored: unknown = JSON.parse(sessionStorage.getItem(STORED) ?? '[]');
    return Array.isArray(stored)
      ? (stored as PastRun[]).filter((run) => typeof run?.arguments === 'string' && typeof run.id === 'string')
      : [];
  } catch {
    return [];
  }
}

function writeRuns(runs: PastRun[]): void {
  try {
    sessionStorage.setItem(STORED, JSON.stringify(runs));
  } catch {
    // a browser without storage forgets them
  }
}

/** Whether a schema marks anything as secret: then arguments are not kept. */
export function hasSecrets(schema: unknown, depth = 0): boolean {
  if (typeof schema !== 'object' || schema === null || depth > 12) return false;
  const { writeOnly, format } = schema as { writeOnly?: unknown; format?: unknown };
  return (
    writeOnly === true || format === 'password' || Object.values(schema).some((each) => hasSecrets(each, depth + 1))
  );
}
