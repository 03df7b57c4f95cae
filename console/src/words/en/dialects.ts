/** The words of a tool's dialects. */

import { addWords } from '../messages';

export const dialects = addWords({
  dialects: {
    dialect: 'Dialect',
    says: 'What it says of this tool',
    exact: 'exact',
    losses: { one: '{count} loss', other: '{count} losses' },
    refused: 'cannot say it',
    path: 'Path',
    reason: 'What is lost',
    show: 'Show the document',
    hide: 'Hide the document',
    documentOf: 'The document in {dialect}',
    why: 'A loss is a part of the definition that a dialect has no words for. The hall checks it all the same.',
  },
} as const);
