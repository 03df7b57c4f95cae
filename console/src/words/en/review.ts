/** The words of the screen Review. */

import { addWords } from '../messages';

export const review = addWords({
  review: {
    about: 'Definitions from outside. Models read every word of them, so a person reads them first.',
    waiting: 'Waiting for review',
    empty: 'Nothing waits for review. Definitions that come from outside the hall stop here first.',
    choose: 'Choose a definition to read it.',
    definition: 'One definition',
    tool: 'Tool',
    origin: 'From',
    came: 'Came',
    by: 'By',
    published: 'Published as',
    digest: 'Digest of the document',
    document: 'The document, as it came',
    findings: 'Findings',
    noFindings: 'The linter found nothing.',
    changes: 'Different from what is served',
    firstVersion: 'No other version of this tool is known.',
    noChanges: 'It says the same as {from}.',
    kinds: { breaking: 'breaking', feature: 'feature', fix: 'fix' },
    decide: 'Your decision',
    serve: 'I have read it: serve',
    refuse: 'Refuse and remove',
    refuseTitle: 'Remove {tool}?',
    refuseWhy: 'The definition is forgotten. Its history stays, and it can be registered again.',
  },
} as const);
