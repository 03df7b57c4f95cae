/** The words of connecting a client. */

import { addWords } from '../messages';

export const connect = addWords({
  connect: {
    client: 'Client',
    into: 'Put this into {file}',
    orRun: 'Or run',
    inProject: 'Run this in a Python environment with the package mcp',
    inShell: 'Run this in a shell',
    key: 'The hall asks for a key. Set it as {name} where the client is started.',
    makeKey: 'Make a key',
    waiting: 'Waiting for its first call.',
    waitingWhy: 'It appears here the moment it comes.',
    came: 'The first call came: {caller} called {tool}.',
    see: 'See the call',
    go: 'Go to the Overview',
  },
} as const);
