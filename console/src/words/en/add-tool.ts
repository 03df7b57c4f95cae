/** The words of adding a definition. */

import { addWords } from '../messages';

export const addTool = addWords({
  addTool: {
    title: 'Add a definition',
    why: 'A definition in any dialect: MCP, OpenAPI, OXP, hub, Machine Context, or a bare function. It is put aside until somebody has read it; nothing is served at once.',
    paste: 'Paste',
    file: 'File',
    url: 'Address',
    how: 'Where it comes from',
    document: 'The definition, as JSON',
    chooseFile: 'A file of JSON',
    urlLabel: 'Address of a document on this hall',
    urlWhy:
      'A page may fetch from its own hall only. For a document elsewhere, download it, or let the command line read it: {command}',
    fetch: 'Fetch it',
    fetchFailed: 'There is no JSON at this address ({status}).',
    dialect: 'Dialect',
    detect: 'as it looks',
    check: 'Check it',
    register: 'Register',
    clean: 'Nothing to find fault with.',
    findings: { one: '{count} finding', other: '{count} findings' },
    tools: { one: 'Registers {count} tool: {names}', other: 'Registers {count} tools: {names}' },
    as: 'Read as {dialect}',
    registered: 'Registered',
    waits: 'It waits for review before it is served.',
    review: 'Review it',
  },
} as const);
