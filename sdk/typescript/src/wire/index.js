/** The messages between a hall and a tool server, each read and written; `meaning` and `wire` of the shared vectors. */
export { writeCall } from './calls.js';
export { readDeclaration, writeDeclaration, } from './declarations.js';
export { readEnding, readResponse, writeEnd, writeFailure, writeResponse, } from './endings.js';
export { Malformed } from './fields.js';
export { parse, readOrder, writeAnswer, writeRequest } from './orders.js';
export { LEVELS, readReport, writeReport, } from './reports.js';
