/** The words of the screen Secrets. */

import { addWords } from '../messages';

export const secrets = addWords({
  secrets: {
    about:
      'Keys and passwords that tools need. They are sealed, given to a call that needs them, and never shown again.',
    empty: 'There is no secret yet. A tool that needs one says its name.',
    set: 'Set a secret',
    replace: 'Replace',
    replaceOf: 'Replace {name}',
    removeOf: 'Remove {name}',
    rotate: 'Seal all anew',
    rotateNow: 'Seal them now',
    rotateWhy: 'All secrets are sealed again with the first vault key of the settings. Their values stay the same.',
    rotated: { one: '{count} secret was sealed anew.', other: '{count} secrets were sealed anew.' },
    name: 'Name',
    nameHint: 'As the tool writes it, such as TWILIO_API_KEY.',
    owner: 'Whose',
    ownerHint: 'A user; empty for the hall, whose secrets serve everybody.',
    ofHall: 'the hall',
    value: 'Value',
    valueHint: 'Sealed when you save. Nobody can read it here again, you included.',
    usedBy: 'Used by',
    used: 'Last used',
    changed: 'Changed',
    state: 'State',
    usable: 'opens',
    unusable: 'does not open',
    actions: 'Actions',
    removeTitle: 'Remove {name}?',
    removeWhy: {
      one: 'One tool needs it, and is refused from then on until it is set again.',
      other: '{count} tools need it, and are refused from then on until it is set again.',
    },
  },
} as const);
