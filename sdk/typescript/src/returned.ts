/** What a tool returned, as its last message. */

import { isContent, Reply } from './content.js';
import type { Json } from './json.js';
import { type End, writeEnd } from './wire/endings.js';
import type { Id } from './wire/fields.js';

/** Throws for what JSON cannot say. */
export function writeReturned(id: Id, returned: unknown): string {
  return writeEnd({ kind: 'end', id, ...meaning(returned) });
}

function meaning(returned: unknown): Omit<End, 'kind' | 'id'> {
  if (returned === undefined) return { nothing: true };
  if (isContent(returned)) return { content: [returned] };
  if (Array.isArray(returned) && returned.length > 0 && returned.every(isContent)) return { content: returned };
  if (!(returned instanceof Reply)) return { value: returned as Json };
  const { content = [], value, meta, isError } = returned.options;
  const more = { content, ...(meta && { meta }), ...(isError && { is_error: true as const }) };
  return value === undefined ? more : { value: value as Json, ...more };
}
