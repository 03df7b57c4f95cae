/** The words of the screen Limits. */

import { addWords } from '../messages';

export const limits = addWords({
  limits: {
    about: 'How much callers and tools may use, and whom it held back.',
    effective: 'Limits in force',
    perCaller: 'Each caller',
    perTool: 'Each tool',
    perPair: 'Each caller and tool',
    rate: '{rate} a second, {burst} at once',
    unlimited: 'no limit',
    atOnce: 'Requests at once',
    atOnceTotal: { one: '{count} in all', other: '{count} in all' },
    atOnceCaller: 'At once, each caller',
    atOnceTool: 'At once, each tool',
    costs: 'Costs',
    cost: '{tools} costs {cost}',
    oneEach: 'each call costs 1',
    fullest: 'Fullest now',
    noneFull: 'Nobody has used any of a limit in the last moments.',
    of: 'Limit of',
    kinds: { caller: 'caller', tool: 'tool', pair: 'caller and tool' },
    who: 'Who',
    fill: 'Used',
    refused: 'Held back in the last hour',
    noneRefused: 'Nobody was held back in the last hour.',
    caller: 'Caller',
    last: 'Last time',
    held: 'Calls held back',
    preview: 'What another limit would have done',
    previewWhy: 'The calls of the last hour are counted again with these limits. Nothing is changed.',
    rateLabel: 'Calls a second',
    burstLabel: 'At once',
    tryOut: 'Count again',
    howToSet: 'Limits are settings: call_burst, calls_per_second, tool_limit and pair_limit in toolhall.toml.',
    wouldRefuse: {
      one: 'It would have refused {count} of {calls} calls.',
      other: 'It would have refused {count} of {calls} calls.',
    },
  },
} as const);
