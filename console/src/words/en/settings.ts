/** The words of the screen Settings. */

import { addWords } from '../messages';

export const settings = addWords({
  settings: {
    about:
      'What is in force, and where each value comes from. Settings change in the file or the environment, at the next start.',
    placeholder: 'name, or source:file',
    none: 'No setting matches this filter.',
    name: 'Setting',
    value: 'Value',
    source: 'From',
    sources: { default: 'default', file: 'file', environment: 'environment', option: 'command line', code: 'code' },
    notSet: 'not set',
    secret: 'set, and not shown',
    insteadOf: 'instead of {value}',
  },
} as const);
