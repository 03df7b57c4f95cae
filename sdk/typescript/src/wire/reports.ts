/** What a tool server tells while a call runs: progress, log lines, changed resources, questions. */

import { type Json, type JsonObject, stated } from '../json.js';
import {
  anyTextIn,
  type Id,
  idIn,
  Malformed,
  numberIn,
  oneOf,
  optionalNumber,
  optionalObject,
  optionalText,
} from './fields.js';
import { type Question, readEach, readQuestion, writeQuestion } from './questions.js';

export const LEVELS = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'] as const;
export type LogLevel = (typeof LEVELS)[number];

export interface Progress {
  kind: 'progress';
  id: Id;
  progress: number;
  total: number | null;
  message: string | null;
}

export interface Log {
  kind: 'log';
  id: Id;
  level: LogLevel;
  data: Json;
  logger: string | null;
}

/** The type of `Changed`, which goes only to a hall that says that it reads it. */
export const CHANGED = 'tool_changed';

/** What this URI means has changed. */
export interface Changed {
  kind: 'changed';
  id: Id;
  uri: string;
}

/** Put these to the caller; none at all: let it hang up for `retry_ms`. */
export interface Asked {
  kind: 'question';
  id: Id;
  number: number;
  questions: Record<string, Question>;
  retry_ms: number | null;
}

export type Report = Progress | Log | Changed | Asked;

export function readReport(message: JsonObject): Report {
  const id = idIn(message);
  switch (message.type) {
    case 'tool_progress': {
      const [total, text] = [optionalNumber(message, 'total'), optionalText(message, 'message')];
      return { kind: 'progress', id, progress: numberIn(message, 'progress'), total, message: text };
    }
    case 'tool_log': {
      const [level, logger] = [oneOf(message, 'level', LEVELS), optionalText(message, 'logger')];
      return { kind: 'log', id, level, data: message.data ?? null, logger };
    }
    case CHANGED:
      return { kind: 'changed', id, uri: anyTextIn(message, 'uri') };
    case 'tool_question': {
      const questions = readEach(optionalObject(message, 'questions') ?? {}, readQuestion);
      const number = numberIn(message, 'number');
      return { kind: 'question', id, number, questions, retry_ms: optionalNumber(message, 'retry_ms') };
    }
    default:
      throw new Malformed(`there is no report of type ${anyTextIn(message, 'type').slice(0, 32)}`);
  }
}

export function writeReport(report: Report): string {
  const { id } = report;
  switch (report.kind) {
    case 'progress': {
      const { progress, total, message } = report;
      return JSON.stringify({ type: 'tool_progress', id, progress, ...stated({ total, message }) });
    }
    case 'log': {
      const { level, data, logger } = report;
      return JSON.stringify({ type: 'tool_log', id, level, data, ...stated({ logger }) });
    }
    case 'changed':
      return JSON.stringify({ type: CHANGED, id, uri: report.uri });
    case 'question': {
      const { number, retry_ms } = report;
      const asked = Object.entries(report.questions).map(([key, each]) => [key, writeQuestion(each)]);
      const questions = asked.length > 0 ? Object.fromEntries(asked) : null;
      return JSON.stringify({ type: 'tool_question', id, number, ...stated({ questions, retry_ms }) });
    }
  }
}
