/** What a tool returned, a resource read or a prompt said, as the last message of its call. */

import { type Content, embedded, isContent, Reply, text } from './content.js';
import type { Json } from './json.js';
import { Message } from './message.js';
import type { Call } from './wire/calls.js';
import { kindOf, type MethodDeclaration } from './wire/declarations.js';
import { type End, writeEnd } from './wire/endings.js';
import { expanded } from './wire/uri-template.js';

type Meaning = Omit<End, 'kind' | 'id'>;

/** Throws for what JSON cannot say, and for what is no content where only content can be. */
export function writeReturned(call: Call, declaration: MethodDeclaration, returned: unknown): string {
  return writeEnd({ kind: 'end', id: call.id, ...meaning(call, declaration, returned) });
}

function meaning(call: Call, declaration: MethodDeclaration, returned: unknown): Meaning {
  if (call.complete !== null) return { value: returned as Json };
  switch (kindOf(declaration)) {
    case 'resource':
      return contents(call, declaration.resource ?? {}, returned);
    case 'prompt':
      return messages(returned);
    case 'tool':
      return result(returned);
  }
}

function result(returned: unknown): Meaning {
  if (returned === undefined) return { nothing: true };
  if (isContent(returned)) return { content: [returned] };
  if (Array.isArray(returned) && returned.length > 0 && returned.every(isContent)) return { content: returned };
  if (!(returned instanceof Reply)) return { value: returned as Json };
  const { content = [], value, meta, isError } = returned.options;
  const more = { content, ...(meta && { meta }), ...(isError && { is_error: true as const }) };
  return value === undefined ? more : { value: value as Json, ...more };
}

/** Nothing at all: there is no such resource. */
function contents(call: Call, { uri: template, mime_type }: Record<string, Json>, returned: unknown): Meaning {
  if (returned === undefined || returned === null) return { nothing: true };
  const parts = Array.isArray(returned) && returned.every(isContent) ? returned : [returned];
  if (parts.length === 0) return { nothing: true };
  const uri = call.uri ?? expanded(String(template), call.params);
  const content = parts.map((part) => contentOf(part, uri, typeof mime_type === 'string' ? mime_type : undefined));
  if (content.some(({ type }) => type !== 'resource'))
    throw new TypeError('a resource is read as embedded(...) content');
  return { content };
}

function contentOf(part: unknown, uri: string, mimeType: string | undefined): Content {
  if (isContent(part)) return part;
  if (typeof part === 'string') return embedded(uri, part, mimeType ?? 'text/plain');
  if (part instanceof Uint8Array) return embedded(uri, part, mimeType ?? 'application/octet-stream');
  const written = JSON.stringify(part) as string | undefined;
  if (written === undefined) throw new TypeError('JSON cannot say this value');
  return embedded(uri, written, mimeType ?? 'application/json');
}

function messages(returned: unknown): Meaning {
  const said = (Array.isArray(returned) ? returned : [returned]).map(message);
  if (said.length === 0) throw new TypeError('a prompt says at least one message');
  return { content: said.map(({ content }) => content), roles: said.map(({ role }) => role) };
}

function message(part: unknown): Message {
  if (part instanceof Message) return part;
  if (typeof part === 'string') return Message.user(text(part));
  if (isContent(part)) return Message.user(part);
  throw new TypeError('a prompt says text, content and messages');
}
