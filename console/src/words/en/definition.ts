/** The words of a tool's definition. */

import { addWords } from '../messages';

export const definition = addWords({
  definition: {
    input: 'What it takes',
    output: 'What it returns',
    noOutput: 'What it returns is not declared.',
    name: 'Name',
    type: 'Type',
    description: 'Description',
    asDialect: 'As a model or client sees it',
    original: 'as it came',
    document: 'The document',
    noDocument: 'No document: {reason}',
    findings: 'Findings',
    noFindings: 'Lint finds no fault.',
    digests: 'Digests',
    shown: 'What models see',
    contract: 'What calls rely on',
    documentDigest: 'The document as it came',
    examples: 'Examples',
    recursive: 'as above',
    closed: 'no other members',
    registered: 'Registered',
    registeredBy: '{time} by {who}',
    origin: 'From',
    dialect: 'Written as',
    tags: 'Tags',
    finding: 'at {path}',
  },
} as const);
