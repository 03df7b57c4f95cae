/** `tool_request`: run a tool, read a resource or get a prompt, with what it declared that it needs. */

import { isObject, type JsonObject, stated } from '../json.js';
import {
  anyTextIn,
  type Id,
  idIn,
  Malformed,
  objectIn,
  oneOf,
  optionalNumber,
  optionalObject,
  optionalText,
  textIn,
  textsIn,
} from './fields.js';

/** The caller, as far as a tool may know it. */
export interface SeenCaller {
  id: string;
  person: string | null;
  proof: string;
  scopes: string[];
  acting_for: string | null;
}

/** An account's token, for one call. */
export interface LentToken {
  token: string;
  scopes: string[];
  expires_at: number | null;
}

/** What a call brings beside its parameters. */
export interface CallContext {
  call: string;
  timeout: number | null;
  caller: SeenCaller | null;
  can: string[];
  user_id: string | null;
  secrets: Record<string, string>;
  accounts: Record<string, LentToken>;
  /** Types of messages that this hall reads besides those that every hall does. */
  reports: string[];
}

export type Kind = 'tool' | 'resource' | 'prompt';
const KINDS: readonly Kind[] = ['tool', 'resource', 'prompt'];

export interface Call {
  kind: 'call';
  id: Id;
  tool: string;
  method: string;
  params: JsonObject;
  version: string | null;
  /** What the method is called as. */
  of: Kind;
  /** The URI that is read; `params` are the values of its variables. */
  uri: string | null;
  /** Complete this argument instead; `params` are `typed` and `given`. */
  complete: string | null;
  context: CallContext;
}

export function readCall(message: JsonObject): Call {
  const metadata = optionalObject(message, 'metadata') ?? {};
  return {
    kind: 'call',
    id: idIn(message),
    tool: textIn(message, 'tool'),
    method: textIn(message, 'method'),
    params: optionalObject(message, 'params') ?? {},
    version: optionalText(metadata, 'version'),
    of: message.kind === undefined ? 'tool' : oneOf(message, 'kind', KINDS),
    uri: optionalText(message, 'uri'),
    complete: optionalText(message, 'complete'),
    context: readContext(optionalObject(message, 'context') ?? {}),
  };
}

export function writeCall(call: Call): string {
  const { id, tool, method, params, version, uri, complete } = call;
  const kind = call.of === 'tool' ? null : call.of;
  const metadata = version === null ? null : { version };
  const context = writeContext(call.context);
  const more = stated({ metadata, kind, uri, complete, context: Object.keys(context).length > 0 ? context : null });
  return JSON.stringify({ type: 'tool_request', id, tool, method, params, ...more });
}

function readContext(context: JsonObject): CallContext {
  const caller = optionalObject(context, 'caller');
  return {
    call: optionalText(context, 'call') ?? '',
    timeout: optionalNumber(context, 'timeout'),
    caller: caller === null ? null : readCaller(caller),
    can: textsIn(context, 'can'),
    user_id: optionalText(context, 'user_id'),
    secrets: readSecrets(optionalObject(context, 'secrets') ?? {}),
    accounts: readAccounts(optionalObject(context, 'accounts') ?? {}),
    reports: textsIn(context, 'reports'),
  };
}

function readCaller(caller: JsonObject): SeenCaller {
  return {
    id: anyTextIn(caller, 'id'),
    person: optionalText(caller, 'person'),
    proof: optionalText(caller, 'proof') ?? 'none',
    scopes: textsIn(caller, 'scopes'),
    acting_for: optionalText(caller, 'acting_for'),
  };
}

function readSecrets(secrets: JsonObject): Record<string, string> {
  if (Object.values(secrets).every((each) => typeof each === 'string')) return secrets as Record<string, string>;
  throw new Malformed('secrets must be texts');
}

function readAccounts(accounts: JsonObject): Record<string, LentToken> {
  return Object.fromEntries(Object.entries(accounts).map(([provider, lent]) => [provider, readToken(lent)]));
}

function readToken(lent: JsonObject[string]): LentToken {
  const account = objectIn(lent, 'an account');
  const [token, scopes] = [anyTextIn(account, 'token'), textsIn(account, 'scopes')];
  return { token, scopes, expires_at: optionalNumber(account, 'expires_at') };
}

/** Members that say nothing are left out. */
function writeContext(context: CallContext): JsonObject {
  const says = (value: unknown): boolean => !(value === '' || (isObject(value) && Object.keys(value).length === 0));
  const { can, reports, ...rest } = stated({ ...context });
  const some = Object.fromEntries(Object.entries(rest).filter(([, value]) => says(value)));
  const lists = stated({
    can: context.can.length > 0 ? can : null,
    reports: context.reports.length > 0 ? reports : null,
  });
  return { ...some, ...lists };
}
