/** The words of the screen Contracts. */

import { addWords } from '../messages';

export const contracts = addWords({
  contracts: {
    about: 'A version is a promise. Here is what newer versions break, what will end, and whom it concerns.',
    breaking: 'Newest versions that break the one before',
    noBreaking: 'No newest version breaks the one before it.',
    newest: 'Newest version',
    before: 'Breaks',
    changes: 'What breaks',
    hurt: 'Still call the old one',
    ending: 'Tools that will end',
    noEnding: 'No tool is deprecated.',
    tool: 'Tool',
    lastDay: 'Last day',
    ended: 'ended {day}',
    notSet: 'not set',
    successor: 'Instead',
    since: 'Deprecated',
    stillCall: 'Still called by',
    nobody: 'nobody',
    calls: { one: '{count} call', other: '{count} calls' },
    moreCallers: { one: 'and {count} more', other: 'and {count} more' },
    lock: 'Check a lock file',
    lockWhy:
      'Paste or choose a tools.lock, as toolhall lock writes it. The hall compares every digest with what it serves now.',
    lockFile: 'Lock file',
    upload: 'Choose a file',
    check: 'Check it',
    lockHolds: { one: 'The one tool of it is as it was.', other: 'All {count} tools of it are as they were.' },
    lockDrifts: { one: '{count} of {checked} tools differs.', other: '{count} of {checked} tools differ.' },
  },
} as const);
