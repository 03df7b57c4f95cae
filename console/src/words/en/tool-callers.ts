/** The words of the callers and the history of a tool. */

import { addWords } from '../messages';

export const toolCallers = addWords({
  toolCallers: {
    caller: 'Caller',
    calls: 'Calls',
    last: 'Last call',
    versions: 'Versions',
    dialects: 'Dialects',
    none: 'Nobody called this tool yet, as far as records are kept.',
    others: { one: 'and {count} call of others', other: 'and {count} calls of others' },
    seeCalls: 'See its calls',
  },
  toolHistory: {
    when: 'When',
    who: 'Who',
    what: 'What',
    version: 'Version',
    none: 'Nothing happened to this tool yet.',
    detail: '{name} {value}',
    details: {
      document: 'document {value}',
      sunset: 'last day {value}',
      successor: 'successor {value}',
      to: 'to {value}',
      reason: '{value}',
    },
  },
} as const);
