/** The words of the screen Accounts. */

import { addWords } from '../messages';

export const accounts = addWords({
  accounts: {
    about:
      'Accounts of other services that people have linked. Tools use them for the person who linked them, and for nobody else.',
    linked: 'Linked accounts',
    empty: 'No account is linked yet. Link one below, or let a tool ask for it.',
    providers: 'Services that can be linked',
    noProviders: 'The settings name no provider. Add one under [providers] in toolhall.toml.',
    noScopes: 'no scopes by default',
    link: 'Link {provider}',
    linkWhy: '{provider} asks you what you allow. Its tokens stay sealed in this hall.',
    goThere: 'Go on at {provider}, in a new tab. The account appears here when you have allowed it.',
    begin: 'Go on',
    open: 'Open the page',
    provider: 'Service',
    user: 'Person',
    scopes: 'What it allows',
    scopesHint: 'Words of the service, with spaces between them.',
    scopesHintManager: 'Words of the service, with spaces between them. The account will be your own.',
    broken: 'link it again',
    works: 'works',
    again: 'Link again',
    disconnect: 'Disconnect',
    disconnectOf: 'Disconnect {provider} of {user}',
    removeTitle: 'Disconnect {provider}?',
    removeWhy: 'The tokens of {user} are revoked at {provider} and forgotten. Tools that need them ask again.',
    unrevoked: 'The account is forgotten here, but its service may still honour the tokens: {message}',
    unused: 'no tool',
    moreTools: { one: 'and {count} more', other: 'and {count} more' },
  },
} as const);
