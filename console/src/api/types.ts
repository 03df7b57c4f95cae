/**
 * The JSON of the hall's HTTP API, as the console reads it.
 *
 * One place for all shapes: /openapi.json describes the same, and tests/browser/console/test_parity.py compares what the
 * console asks for with it. Times are ISO 8601 in UTC.
 */

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

/** The ten stages of a call, in order. */
export const STAGES = [
  'find',
  'authorize',
  'limit',
  'validate',
  'verify',
  'equip',
  'run',
  'check',
  'sanitize',
  'audit',
] as const;
export type Stage = (typeof STAGES)[number];

// --- the person -------------------------------------------------------------------------------------------------------

/** `GET /api/me`. 401 for nobody. */
export interface Me {
  caller: string;
  person: string | null;
  /** How the caller was proven: local, key, shared or token. */
  proof: 'local' | 'key' | 'shared' | 'token';
  scopes: string[];
  /** What the console may show and do; the API checks each of them again. */
  may: { manage: boolean; observe: boolean; approve: boolean };
  hall: string;
  version: string;
  profile: 'local' | 'server';
  publicUrl: string | null;
  /** The processes that serve this hall, and how many of them this answer can speak for. */
  processes: { running: number; seen: number };
  /** Where the dialects are served, as `toolhall serve` prints them: {"mcp": "https://hall/mcp", ...}. */
  endpoints: Record<string, string>;
  /** Header `X-Toolhall-Token` of every change that is authenticated by cookie; null where no cookie is used. */
  token: string | null;
  /** When the session ends if nothing happens; null where there is no session. */
  sessionEndsAt: string | null;
  /** When the person last proved to be present (step-up), if ever in this session. */
  provenAt: string | null;
  hasFactor: boolean;
  /** True until the hall has its first call of a client or its first key. */
  firstRun: boolean;
  docs: string;
  oidc: boolean;
}

/** `POST /api/me/proof` {code}: a step-up for the next 15 minutes. A change that needs one is refused with code
 *  `proof_required` (403). Passkeys: `POST /api/me/proof/options` -> {id, publicKey}, then `{id, credential}`. */
export interface Proof {
  provenAt: string;
}

export interface ApiError {
  error: {
    code: string;
    message: string;
    details?: { problems?: Problem[]; [key: string]: Json | Problem[] | undefined };
  };
}
export interface Problem {
  path: string;
  message: string;
}

// --- overview and events ----------------------------------------------------------------------------------------------

export type Window = '15m' | '1h' | '24h' | '7d';

/** `GET /api/overview?window=`. */
export interface Overview {
  window: Window;
  /** Seconds of one bucket: 60 up to 1h, 3600 for 7d, 900 for 24h. */
  bucketSeconds: number;
  from: string;
  to: string;
  processes: { running: number; seen: number };
  calls: number;
  running: number;
  outcomes: Record<string, number>;
  /** Calls that ended in a stage other than by passing all of them. */
  stopped: Record<Stage, number>;
  buckets: OverviewBucket[];
  /** Calls by duration; `le` is the upper bound in microseconds, null for the rest. */
  durations: { le: number | null; calls: number }[];
  p50Us: number | null;
  p99Us: number | null;
  /** What the hall itself added to the calls (all stages but run), median; null if no call had stage times. */
  addedUs: number | null;
  topTools: { tool: string; calls: number; failed: number }[];
  topCallers: { caller: string; calls: number; refused: number }[];
  /** How many tools are active. */
  tools: number;
  /** The newest changes of tools. */
  changes: ToolEvent[];
}
/** One event of `GET /api/history`. */
export interface ToolEvent {
  at: string;
  what: string;
  id: string;
  by: string;
  detail: JsonObject;
}
/** `GET /api/needs`: what waits for the person who asks; what this person may not see is empty. */
export interface Needs {
  approvals: { count: number; firstEndsAt: string | null };
  review: { count: number };
  servers: { count: number; unwell: string[] };
  upstreams: { name: string; waiting: number; link: boolean }[];
  accounts: { count: number; first: { person: string; providerName: string } | null };
  /** Those that end within 30 days, or have ended. */
  deprecations: { id: string; sunset: string; callers: string[] }[];
  audit: { failing: boolean; problem: string | null; verifiedAt: string | null };
}
export interface OverviewBucket {
  at: string;
  ok: number;
  refused: number;
  failed: number;
  asked: number;
}

/** `GET /api/events?topics=calls,approvals,tools,servers,health,audit,upstreams&...filters of /api/audit`: server-sent events with ids.
 *  `event:` is the topic, `data:` one of these; `more` says how many were left out after 20 in a second. */
export type HallEvent =
  | { topic: 'calls'; record: AuditRecord }
  | { topic: 'calls'; more: number }
  | { topic: 'approvals'; id: string; state: string }
  | { topic: 'tools'; ids: string[] }
  | { topic: 'servers'; id: string; state: string }
  | { topic: 'upstreams'; name: string; state: string }
  | { topic: 'health'; status: string }
  | { topic: 'audit'; verified: number; total: number; done: boolean; problem: string | null };

// --- calls ------------------------------------------------------------------------------------------------------------

/** A line of the audit. `GET /api/audit?caller=&tool=&outcome=&stage=&verdict=&grant=&call=&level=&dialect=&server=&since=&until=&cursor=&limit=`.
 *  caller, tool, outcome, grant, dialect and server take globs (`Mail.*`), several separated by commas; outcome also takes
 *  the groups `refused` and `failed`; newest first; a cursor is stable under new records. */
export interface AuditRecord {
  log: string;
  number: number;
  at: string;
  call: string;
  caller: string;
  person?: string;
  actingFor?: string;
  /** Ends with `/console` if a person made the call in the console, with `/management` if it changed the hall. */
  dialect: string;
  tool: string;
  definitionSha256?: string;
  argumentsSha256?: string;
  level?: number;
  verdict?: 'allow' | 'deny' | 'verify';
  grant?: string;
  reason?: string;
  approval?: string;
  outcome: string;
  phase?: 'intent';
  durationUs?: number;
  bytesIn?: number;
  bytesOut?: number;
  redactions?: number;
  /** Where the call ended; `audit` if it passed all stages. */
  stage?: Stage;
  /** Ten whole numbers, microseconds per stage; left out where none were taken. */
  stagesUs?: number[];
  /** The tool server that ran it. */
  server?: string;
}
export interface AuditPage {
  records: AuditRecord[];
  nextCursor?: string;
}

/** `GET /api/calls/{call}`. 404 once its records are dropped. */
export interface CallDetail {
  call: string;
  /** "refused", "failed", "asked", "ok", "tool_error" or "running" (an intent without an end). */
  kind: 'ok' | 'tool_error' | 'refused' | 'failed' | 'asked' | 'running';
  intent: AuditRecord | null;
  end: AuditRecord | null;
  stages: {
    stage: Stage;
    state: 'passed' | 'stopped' | 'not_reached' | 'skipped';
    us: number | null;
    reason: string | null;
    fix: string | null;
  }[];
  grant: Grant | null;
  approval: Approval | null;
  tool: ToolSummary | null;
}

/** `GET /api/audit/state`. */
export interface AuditState {
  logs: { log: string; records: number; head: string | null }[];
  lastCheckpointAt: string | null;
  /** The last whole verification by this process, whoever asked for it; null after a restart. */
  verified: { at: string; records: number; problem: string | null } | null;
  verifying: { verified: number; total: number } | null;
  failing: boolean;
  behind: boolean;
}
/** `POST /api/audit/verify` {} -> 202 AuditState; 409 while one runs; progress as events of the topic `audit`. */

// --- access -----------------------------------------------------------------------------------------------------------

/** `POST /api/check` {caller, tool, arguments?, draft?: NewGrant}. Effect-free; for each stage up to equip. Without
 *  arguments, validate is "unknown" and the verdict is that for valid ones. */
export interface CheckAnswer {
  caller: string;
  tool: string;
  /** What the call would do: reach the tool, be refused, or wait for a person. "unknown": it depends on what is not known now. */
  verdict: 'runs' | 'refused' | 'asks' | 'unknown';
  /** find, authorize, limit, validate, verify, equip. */
  stages: CheckStage[];
  /** What was assumed of the caller: sentences for people, often none. */
  notes: string[];
}
export interface CheckStage {
  stage: Stage;
  state: 'pass' | 'stop' | 'ask' | 'unknown' | 'not_reached';
  /** The rule that decided: a grant's id, `level`, `scope`, a setting. */
  rule: string | null;
  words: string;
  problems?: Problem[];
}

/** `GET /api/access?callers=&tools=&cursor=`: globs; at most 10,000 pairs. */
export interface AccessPage {
  pairs: AccessPair[];
  nextCursor?: string;
}
export interface AccessPair {
  caller: string;
  tool: string;
  toolkit: string;
  verdict: 'yes' | 'if' | 'asks' | 'no';
  rule: string | null;
  words: string;
  conditions: { path: string; oneOf: Json[] }[];
}

/** `GET /api/callers`. */
export interface CallerRow {
  name: string;
  proof: string;
  owner: string | null;
  scopes: string[];
  keys: ApiKey[];
  lastAt: string | null;
  calls: number;
  refused: number;
}

export interface ApiKey {
  id: string;
  name: string;
  owner: string | null;
  shared: boolean;
  scopes: string[];
  createdAt: string;
  expiresAt: string | null;
  lastUsedAt: string | null;
  revokedAt: string | null;
  by: string;
}
export interface Grant {
  id: string;
  effect: 'permit' | 'forbid';
  callers: string;
  tools: string;
  conditions: { path: string; oneOf: Json[] }[];
  createdAt: string;
  by: string;
  /** Calls it decided in the last 30 days, as far as records are kept; in lists. */
  calls?: number;
}
export interface NewGrant {
  callers: string;
  tools: string;
  effect?: 'permit' | 'forbid';
  conditions?: ({ path: string; equals: Json } | { path: string; oneOf: Json[] })[];
}

/** `GET /api/approvals`; `?state=decided` for the last 24 hours. */
export interface Approval {
  id: string;
  state: string;
  how: string;
  tool: string;
  level: number;
  effect: string | null;
  caller: string;
  person: string | null;
  actingFor: string | null;
  dialect: string;
  shown: string;
  shownSha256: string;
  argumentsSha256: string;
  definitionSha256: string;
  codeSha256: string | null;
  createdAt: string;
  expiresAt: string;
  approver: string | null;
  method: string | null;
  decidedAt: string | null;
  mayApprove: boolean;
  url: string;
  /** The reason that was given with a no. */
  reason: string | null;
  /** What differs from the last one of this caller and tool that was approved; null if there is none. */
  differences: { since: string; changes: { path: string; before: Json | null; after: Json | null }[] } | null;
}
/** `POST /api/approvals/{id}/approve` {code} or a passkey {id, credential} after `/options`; `/deny` {reason?}. */

// --- tools ------------------------------------------------------------------------------------------------------------

/** `GET /api/tools?query=&kind=&state=&toolkit=&effect=&level=&origin=&server=&tag=&limit=&cursor=`. */
export interface ToolPage {
  tools: ToolSummary[];
  nextCursor?: string;
  /** The number of tools that match, and counts by facet over all tools that match without the facet itself: the 100 most
   *  frequent values, those filtered by first. A tool without an effect counts as `none` (also `?effect=none`). */
  total: number;
  facets: Record<
    'toolkit' | 'kind' | 'effect' | 'level' | 'state' | 'origin' | 'server' | 'tag',
    Record<string, number>
  >;
}
export interface ToolSummary {
  id: string;
  kind: 'tool' | 'resource' | 'prompt';
  /** The URI of a resource, or its URI template. */
  uri: string | null;
  mimeType: string | null;
  toolkit: string;
  tool: string;
  version: string;
  name: string;
  title: string | null;
  description: string;
  state: 'registered' | 'quarantined' | 'active' | 'inactive' | 'withheld';
  origin: string;
  originDetail: string;
  by: string;
  registeredAt: string;
  changedAt: string;
  deprecatedAt: string | null;
  sunset: string | null;
  successor: string | null;
  dialect: string;
  digests: { shown: string; contract: string; document: string };
  served: boolean;
  effectiveLevel: number;
  level: number | null;
  effect: 'reads' | 'writes' | 'destroys' | null;
  tags: string[];
  requirements: { kind: 'secret' | 'account' | 'user'; name: string }[];
  server: string | null;
  newest: boolean;
}
export interface ToolDetail extends ToolSummary {
  document: Json;
  findings: Finding[];
  versions: {
    id: string;
    state: string;
    registeredAt: string;
    sunset: string | null;
    deprecatedAt: string | null;
    successor: string | null;
  }[];
  inputSchema: JsonObject;
  outputSchema: JsonObject | null;
  examples: JsonObject[];
  /** The variables of a resource, or arguments of a prompt, that have completions. */
  completes: string[];
}
/** `POST /api/definitions/check?dialect=` with a document: what registering it would do; nothing is stored. */
export interface DefinitionCheck {
  dialect: string;
  tools: { id: string; name: string }[];
  findings: Finding[];
}
/** `fix` says what is wrong and how to mend it. */
export interface Finding {
  rule: string;
  severity: 'error' | 'warning';
  path: string;
  fix: string;
}

/** `GET /api/tools/{id}/diff?from=ID`: what `toolhall diff` computes, and who called what changed. `from` left out: the version before. */
export interface ToolDiff {
  from: string | null;
  to: string;
  required: 'major' | 'minor' | 'patch' | 'none';
  declared: 'major' | 'minor' | 'patch' | 'none';
  ok: boolean;
  changes: { kind: 'breaking' | 'feature' | 'fix'; path: string; reason: string }[];
  callers: { caller: string; calls: number; last: string }[];
  /** As MCP shows them. */
  documents: { from: Json | null; to: Json };
}
/** `GET /api/tools/{id}/losses`: one row per dialect and revision. */
export interface ToolLosses {
  dialects: { dialect: string; exact: boolean; refused: string[] | null; losses: { path: string; reason: string }[] }[];
}

/** `GET /api/tasks?state=&tool=&caller=&limit=&cursor=`, the newest first; `open` are those that have not ended. */
export interface TaskPage {
  tasks: Task[];
  nextCursor?: string;
}
export interface Task {
  id: string;
  /** With its version. */
  tool: string;
  caller: string;
  actingFor: string | null;
  dialect: string;
  state: 'working' | 'input_required' | 'completed' | 'failed' | 'cancelled';
  /** Null if they cannot be decrypted. */
  questions: string[] | null;
  attempts: number;
  createdAt: string;
  updatedAt: string;
  expiresAt: string;
}
/** `GET /api/tasks/{id}`, and `POST /api/tasks/{id}/cancel`. */
export interface TaskDetails extends Task {
  /** The code of the error, if it has failed. */
  error: string | null;
}

/** `GET /api/contracts`; callers are those of the newest 10,000 calls. */
export interface Contracts {
  breaking: { from: string; to: string; changes: ToolDiff['changes']; callers: ToolDiff['callers'] }[];
  deprecations: {
    id: string;
    sunset: string | null;
    successor: string | null;
    deprecatedAt: string | null;
    callers: ToolDiff['callers'];
  }[];
}
/** `POST /api/contracts/lock` with the text of a lock file as {"lock": {...}}: what `toolhall verify` says. */
export interface LockCheck {
  ok: boolean;
  checked: number;
  drift: { tool: string; what: string }[];
}

// --- what tools need, and who runs them -------------------------------------------------------------------------------

/** `GET /api/secrets`, with usedBy and usedAt. */
export interface SecretRow {
  name: string;
  user: string | null;
  usable: boolean;
  createdAt: string;
  changedAt: string | null;
  by: string;
  usedBy: string[];
  usedAt: string | null;
}
export interface AccountRow {
  id: string;
  provider: string;
  providerName: string;
  user: string;
  person: string | null;
  scopes: string[];
  state: string;
  linkedAt: string;
  usedAt: string | null;
  usedBy: string[];
}
/** `name` is what requests say (`google`), `displayName` what people read (`Google`). */
export interface ProviderRow {
  name: string;
  displayName: string;
  scopes: string[];
}

/** `GET /api/servers` {servers}; `POST /api/servers/{name}/drain`, `DELETE /api/servers/{name}` (forget; 409 while a lease lives).
 *  A replica's state is healthy, degraded, unhealthy or draining. */
export interface ToolServerRow {
  name: string;
  state: 'healthy' | 'degraded' | 'unhealthy' | 'gone';
  toolkits: string[];
  caller: string;
  replicas: {
    id: string;
    state: string;
    since: string;
    leaseEndsAt: string | null;
    callsInFlight: number;
    lastProbeAt: string | null;
    lastProbeOk: boolean | null;
    breaker: 'closed' | 'open' | 'half_open';
    version: string | null;
    transport: 'http' | 'websocket';
    address: string | null;
    draining: boolean;
  }[];
}
/** `GET /api/upstreams` {upstreams}; `POST` {name, settings}; `DELETE /api/upstreams/{name}`, `POST .../check|sync|off|on`. */
export interface UpstreamRow {
  name: string;
  state: 'new' | 'connecting' | 'ready' | 'away' | 'refused' | 'waiting' | 'off';
  reason: string | null;
  target: string;
  settings: Json;
  source: 'file' | 'store' | 'command line';
  where: string;
  era: 'legacy' | 'modern' | null;
  revision: string | null;
  server: { name: string; version: string } | null;
  tools: number;
  waiting: number;
  since: string | null;
  lastSync: string | null;
  nextTry: string | null;
  sessions: number;
  children: number;
  restarts: number;
  lostCalls: number;
  parkedCalls: number;
}
/** `POST /api/upstreams/{name}/check`. */
export interface UpstreamCheck {
  ok: boolean;
  steps: { name: string; ok: boolean; seconds: number; detail: string; fix: string | null }[];
}
/** `GET /api/upstreams/{name}/review`; `POST` {digest}. */
export interface UpstreamReview {
  digest: string;
  tools: { id: string; was: string | null; changes: ToolDiff['changes']; findings: Finding[]; document: Json }[];
  withheld: { tool: string; reason: string }[];
}
/** `GET /api/limits`. */
export interface Limits {
  perCaller: { rate: number; burst: number };
  perTool: { rate: number; burst: number } | null;
  perPair: { rate: number; burst: number } | null;
  concurrency: { perCaller: number; perTool: number | null; total: number };
  costs: Record<string, number>;
  fullest: { key: string; kind: 'caller' | 'tool' | 'pair'; fill: number }[];
  /** Refusals by rate limits per caller in the last hour. */
  refused: { caller: string; calls: number; lastAt: string }[];
  processes: { running: number; seen: number };
}
/** `POST /api/limits/preview` {perCaller?, perTool?, perPair?}: what would have been refused in the last hour. */
export interface LimitPreview {
  calls: number;
  refused: number;
  callers: { caller: string; refused: number }[];
}

/** `GET /api/settings`: every setting; secrets as null with `secret: true`. */
export interface SettingRow {
  name: string;
  value: Json;
  default: Json;
  source: 'default' | 'file' | 'environment' | 'option' | 'code';
  where: string | null;
  secret: boolean;
  description: string;
}
export interface Settings {
  settings: SettingRow[];
  versions: Record<string, string>;
  data: string | null;
  startedAt: string;
  process: number;
  workers: number;
  disk: { freeBytes: number; totalBytes: number } | null;
}

/** `GET /health`, as a caller with management rights sees it. */
export interface Health {
  status: 'healthy' | 'degraded' | 'unhealthy';
  uptime: number;
  tools?: number;
  components?: { core: string; tools: Record<string, string> };
}
