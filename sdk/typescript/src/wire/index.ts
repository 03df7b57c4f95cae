/** The messages between a hall and a tool server, each read and written; `meaning` and `wire` of the shared vectors. */

export type { Annotations, Block } from './blocks.js';
export { type Call, type CallContext, type Kind, type LentToken, type SeenCaller, writeCall } from './calls.js';
export {
  type Declaration,
  type Effect,
  type MethodDeclaration,
  type Output,
  readDeclaration,
  writeDeclaration,
} from './declarations.js';
export {
  type End,
  type Failure,
  type Response,
  type Role,
  readEnding,
  readResponse,
  writeEnd,
  writeFailure,
  writeResponse,
} from './endings.js';
export { type Id, Malformed } from './fields.js';
export { type Answer, type Order, parse, type Request, readOrder, writeAnswer, writeRequest } from './orders.js';
export type { Action, Question, Reply, Root } from './questions.js';
export {
  type Asked,
  CHANGED,
  type Changed,
  LEVELS,
  type Log,
  type LogLevel,
  type Progress,
  type Report,
  readReport,
  writeReport,
} from './reports.js';
