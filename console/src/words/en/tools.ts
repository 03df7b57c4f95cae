/** The words of the screen Tools. */

import { addWords } from '../messages';

export const tools = addWords({
  tools: {
    count: {
      tool: { one: '{count} tool', other: '{count} tools' },
      resource: { one: '{count} resource', other: '{count} resources' },
      prompt: { one: '{count} prompt', other: '{count} prompts' },
    },
    found: {
      tool: { one: '{count} tool found', other: '{count} tools found' },
      resource: { one: '{count} resource found', other: '{count} resources found' },
      prompt: { one: '{count} prompt found', other: '{count} prompts found' },
    },
    search: {
      tool: 'Search tools by name, words or tag',
      resource: 'Search resources by name, words or tag',
      prompt: 'Search prompts by name, words or tag',
    },
    view: 'Show as',
    grid: 'Cards',
    table: 'Table',
    filters: 'Filters',
    clearFilters: 'Clear the filters',
    facet: {
      toolkit: 'Toolkit',
      effect: 'Effect',
      level: 'Level',
      state: 'State',
      origin: 'From',
      server: 'Tool server',
      tag: 'Tag',
    },
    any: 'any',
    withCount: '{value} ({count})',
    version: 'Version',
    effect: 'Effect',
    level: 'Level',
    state: 'State',
    from: 'From',
    uri: 'URI',
    type: 'Type',
    noMatch: {
      tool: 'No tool matches what you search and filter for.',
      resource: 'No resource matches what you search and filter for.',
      prompt: 'No prompt matches what you search and filter for.',
    },
    none: {
      tool: 'This hall has no tool yet. Start it with a file of tools (toolhall serve my_tools.py), or add a definition.',
      resource:
        "This hall has no resource that you may read. One is a function with @resource('shop://orders/{number}') above it, in the file that the hall serves.",
      prompt:
        'This hall has no prompt that you may get. One is a function with @prompt above it, in the file that the hall serves.',
    },
    add: 'Add a definition',
    states: {
      registered: 'registered',
      quarantined: 'to be reviewed',
      active: 'served',
      inactive: 'not served',
      withheld: 'gone from its upstream',
      unreachable: 'active, but nothing runs it',
    },
    ends: 'ends {day}',
    deprecated: 'deprecated',
    needs: { secret: 'needs the secret {name}', account: 'needs an account: {name}', user: 'needs to know the user' },
    published: 'published as {name}',
    reads: 'reads {uri}',
    newest: 'newest',
    older: 'This is not the newest version: calls without a version reach another one.',
    about: { tool: 'About this tool', resource: 'About this resource', prompt: 'About this prompt' },
    tabs: {
      try: 'Try it',
      definition: 'Definition',
      dialects: 'Dialects',
      versions: 'Versions',
      callers: 'Callers',
      history: 'History',
    },
  },
} as const);
