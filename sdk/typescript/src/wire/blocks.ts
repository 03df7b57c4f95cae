/** Blocks of content in MCP's words. */

import type { Json, JsonObject } from '../json.js';
import { anyTextIn, Malformed, objectIn, oneOf, optionalObject } from './fields.js';

/** Notes on a block: for whom it is, and how much it matters. */
export interface Annotations {
  audience?: ('user' | 'assistant')[];
  priority?: number;
  lastModified?: string;
}

interface Noted {
  annotations?: Annotations;
  _meta?: JsonObject;
}

export type Block = Noted &
  (
    | { type: 'text'; text: string }
    | { type: 'image' | 'audio'; data: string; mimeType: string }
    | {
        type: 'resource_link';
        uri: string;
        name: string;
        title?: string;
        description?: string;
        mimeType?: string;
        size?: number;
      }
    | { type: 'resource'; resource: { uri: string; mimeType?: string } & ({ text: string } | { blob: string }) }
  );

const TYPES = ['text', 'image', 'audio', 'resource_link', 'resource'] as const;
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

export function readBlocks(listed: Json): Block[] {
  if (Array.isArray(listed)) return listed.map(readBlock);
  throw new Malformed('content must be a list');
}

function readBlock(value: Json): Block {
  const block = objectIn(value, 'a block of content');
  optionalObject(block, 'annotations');
  optionalObject(block, '_meta');
  const type = oneOf(block, 'type', TYPES);
  if (type === 'text') anyTextIn(block, 'text');
  else if (type === 'resource_link') [anyTextIn(block, 'uri'), anyTextIn(block, 'name')];
  else if (type === 'resource') readResource(objectIn(block.resource, 'resource'));
  else [base64In(block, 'data'), anyTextIn(block, 'mimeType')];
  return block as unknown as Block;
}

function readResource(resource: JsonObject): void {
  anyTextIn(resource, 'uri');
  if ('blob' in resource) base64In(resource, 'blob');
  else anyTextIn(resource, 'text');
}

function base64In(from: JsonObject, key: string): void {
  if (!BASE64.test(anyTextIn(from, key))) throw new Malformed(`${key} must be base64`);
}
