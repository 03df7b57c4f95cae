/** What a tool server tells while a call runs: progress, log lines, questions. */
import { stated } from '../json.js';
import { anyTextIn, idIn, Malformed, numberIn, oneOf, optionalNumber, optionalObject, optionalText, } from './fields.js';
import { readEach, readQuestion, writeQuestion } from './questions.js';
export const LEVELS = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'];
export function readReport(message) {
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
        case 'tool_question': {
            const questions = readEach(optionalObject(message, 'questions') ?? {}, readQuestion);
            const number = numberIn(message, 'number');
            return { kind: 'question', id, number, questions, retry_ms: optionalNumber(message, 'retry_ms') };
        }
        default:
            throw new Malformed(`there is no report of type ${anyTextIn(message, 'type').slice(0, 32)}`);
    }
}
export function writeReport(report) {
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
        case 'question': {
            const { number, retry_ms } = report;
            const asked = Object.entries(report.questions).map(([key, each]) => [key, writeQuestion(each)]);
            const questions = asked.length > 0 ? Object.fromEntries(asked) : null;
            return JSON.stringify({ type: 'tool_question', id, number, ...stated({ questions, retry_ms }) });
        }
    }
}
