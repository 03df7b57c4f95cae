/** What a running tool may ask of whoever called it, and what they reply. */

import { type Json, type JsonObject, stated } from '../json.js';
import {
  anyTextIn,
  Malformed,
  numberIn,
  objectIn,
  oneOf,
  optionalNumber,
  optionalObject,
  optionalText,
  textsIn,
} from './fields.js';

export type Question =
  | { kind: 'form'; message: string; schema: JsonObject }
  | { kind: 'visit'; message: string; url: string; id: string }
  | {
      kind: 'sample';
      messages: JsonObject[];
      max_tokens: number;
      system: string | null;
      temperature: number | null;
      stop: string[];
    }
  | { kind: 'roots' };

export interface Root {
  uri: string;
  name: string | null;
}

export type Action = 'accept' | 'decline' | 'cancel';
const ACTIONS: readonly Action[] = ['accept', 'decline', 'cancel'];

export type Reply =
  | { kind: 'filled'; action: Action; content: JsonObject | null }
  | { kind: 'sampled'; role: string; content: Json; model: string; stop_reason: string | null }
  | { kind: 'rooted'; roots: Root[] };

export function readQuestion(value: Json): Question {
  const from = objectIn(value, 'a question');
  const kind = oneOf(from, 'kind', ['form', 'visit', 'sample', 'roots']);
  if (kind === 'roots') return { kind };
  if (kind === 'sample') return readSample(from);
  const message = anyTextIn(from, 'message');
  if (kind === 'form') return { kind, message, schema: objectIn(from.schema, 'schema') };
  return { kind, message, url: anyTextIn(from, 'url'), id: anyTextIn(from, 'id') };
}

export function writeQuestion(question: Question): JsonObject {
  if (question.kind !== 'sample') return { ...question };
  const { kind, messages, max_tokens, system, temperature, stop } = question;
  return { kind, messages, max_tokens, ...stated({ system, temperature, stop: stop.length > 0 ? stop : null }) };
}

export function readReply(value: Json): Reply {
  const from = objectIn(value, 'an answer');
  const kind = oneOf(from, 'kind', ['filled', 'sampled', 'rooted']);
  if (kind === 'rooted') return { kind, roots: listIn(from, 'roots').map(readRoot) };
  if (kind === 'filled') {
    return { kind, action: oneOf(from, 'action', ACTIONS), content: optionalObject(from, 'content') };
  }
  const [role, model] = [anyTextIn(from, 'role'), anyTextIn(from, 'model')];
  return { kind, role, content: from.content ?? null, model, stop_reason: optionalText(from, 'stop_reason') };
}

function readSample(from: JsonObject): Question {
  return {
    kind: 'sample',
    messages: listIn(from, 'messages').map((each) => objectIn(each, 'a message')),
    max_tokens: numberIn(from, 'max_tokens'),
    system: optionalText(from, 'system'),
    temperature: optionalNumber(from, 'temperature'),
    stop: textsIn(from, 'stop'),
  };
}

function readRoot(value: Json): Root {
  const root = objectIn(value, 'a root');
  return { uri: anyTextIn(root, 'uri'), name: optionalText(root, 'name') };
}

function listIn(from: JsonObject, key: string): Json[] {
  const value = from[key];
  if (Array.isArray(value)) return value;
  throw new Malformed(`${key} must be a list`);
}

/** Each value of an object, read. */
export function readEach<T>(values: JsonObject, read: (value: Json) => T): Record<string, T> {
  return Object.fromEntries(Object.entries(values).map(([key, value]) => [key, read(value)]));
}
