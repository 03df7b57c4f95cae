/** The words of the frame's dialogs. */

import { addWords } from '../messages';

export const dialogs = addWords({
  preferences: {
    theme: 'Theme',
    themeSystem: 'System',
    themeLight: 'Light',
    themeDark: 'Dark',
    letters: 'Single letters are shortcuts',
    lettersWhy: 'Off, if a letter could be typed by accident, such as by speech.',
    language: 'Language',
    languageSystem: 'Of the browser',
    languageEn: 'English',
    languagePseudo: 'Pseudo-language, for tests',
    languagePseudoRtl: 'Pseudo-language, right to left',
    clock: 'Times',
    clockLocal: 'Of this place',
    clockUtc: 'UTC',
    trace: 'Where traces are',
    traceWhy: 'An address with {call} in it. A call then links to its spans, which have its id as toolhall.call.id.',
  },
  keys: {
    goOverview: 'go to Overview',
    goTools: 'go to Tools',
    goCalls: 'go to Calls',
    goApprovals: 'go to Approvals',
    find: 'find',
    next: 'next in the list',
    previous: 'previous in the list',
    open: 'open',
    close: 'close',
    edit: 'edit the filter',
    pause: 'pause what is live, or let it go on',
    run: 'run',
    help: 'show these keys',
    or: 'or',
    followedBy: 'then',
    off: 'Single letters are turned off in your preferences.',
    note: 'No single key approves anything.',
  },
} as const);
