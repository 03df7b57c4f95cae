/** The words of the first run. */

import { addWords } from '../messages';

export const firstRun = addWords({
  first: {
    title: 'Your hall is open',
    served: {
      one: '{count} tool, served in {dialects} and as REST at {address}.',
      other: '{count} tools, served in {dialects} and as REST at {address}.',
    },
    dialects: { one: '{count} dialect', other: '{count} dialects' },
    onlyHere: 'Only this machine can reach it.',
    try: 'Try a tool here',
    noTool: 'This hall has no tool yet. Start it with a file of tools: toolhall serve my_tools.py',
    run: 'Run',
    runs: 'Running',
    openTool: 'Open the tool',
    took: 'took {time}',
    connect: 'Connect your agent',
    tools: 'Your tools',
    allTools: { one: 'The one tool', other: 'All {count} tools' },
  },
} as const);
