/** The words of the screen Health. */

import { addWords } from '../messages';

export const health = addWords({
  health: {
    about: 'Whether the hall is set up as you think, and works.',
    hall: 'The hall',
    state: 'State',
    core: 'Core',
    uptime: 'Runs for',
    tools: 'Tools',
    healthy: 'healthy',
    degraded: 'degraded',
    unhealthy: 'unhealthy',
    toolkits: 'Toolkits',
    toolkit: 'Toolkit',
    noToolkits: 'No toolkit is served.',
    audit: 'The audit',
    toCalls: 'Calls',
    records: 'Records',
    inLogs: { one: '{records} in one log', other: '{records} in {count} logs' },
    checkpoint: 'Last checkpoint',
    verified: 'Last verified',
    chainHolds: 'and the chain holds',
    machine: 'What it runs on',
    started: 'Started',
    process: 'Process',
    processOf: { one: '{process}, the only one', other: '{process}, one of {count}' },
    store: 'Data',
    inMemory: 'in memory: it is gone when the hall stops',
    disk: 'Disk',
    diskFree: '{free} free, {share} of it',
    versions: { toolhall: 'Toolhall', python: 'Python', sqlite: 'SQLite', platform: 'System' },
  },
} as const);
