/** Content that a tool returns: text, pictures, sound, files; alone, in a list, or in a `reply` with a value. */

import type { Json, JsonObject } from './json.js';
import type { Annotations, Block } from './wire/blocks.js';

/** Tells a block from a value that merely looks like one; JSON does not show it. */
const MADE = Symbol('@toolhall/sdk content');

export type Content = Block & { readonly [MADE]: true };

export interface Notes {
  annotations?: Annotations;
  meta?: JsonObject;
}

export interface LinkOptions extends Notes {
  title?: string;
  description?: string;
  mimeType?: string;
  size?: number;
}

export const text = (words: string, notes?: Notes): Content => made({ type: 'text', text: words }, notes);

export const image = (data: Uint8Array, mimeType = 'image/png', notes?: Notes): Content =>
  made({ type: 'image', data: base64(data), mimeType }, notes);

export const audio = (data: Uint8Array, mimeType = 'audio/wav', notes?: Notes): Content =>
  made({ type: 'audio', data: base64(data), mimeType }, notes);

/** A file that the client may fetch. */
export function link(uri: string, name: string, options: LinkOptions = {}): Content {
  const { annotations, meta, ...more } = options;
  return made(
    { type: 'resource_link', uri, name, ...more },
    { ...(annotations && { annotations }), ...(meta && { meta }) },
  );
}

/** What a URI means, itself: text, or bytes. */
export function embedded(uri: string, held: string | Uint8Array, mimeType?: string, notes?: Notes): Content {
  const inside = typeof held === 'string' ? { text: held } : { blob: base64(held) };
  return made({ type: 'resource', resource: { uri, ...(mimeType !== undefined && { mimeType }), ...inside } }, notes);
}

export interface ReplyOptions<T> {
  content?: Content[];
  value?: T;
  meta?: JsonObject;
  /** The content says what went wrong. */
  isError?: boolean;
}

/** Content and a value together, or either with metadata. */
export class Reply<T = Json> {
  constructor(readonly options: ReplyOptions<T>) {}
}

export const reply = <T = never>(options: ReplyOptions<T>): Reply<T> => new Reply(options);

export function isContent(value: unknown): value is Content {
  return typeof value === 'object' && value !== null && MADE in value;
}

function made(block: Block, notes: Notes = {}): Content {
  const { annotations, meta } = notes;
  return { ...block, ...(annotations && { annotations }), ...(meta && { _meta: meta }), [MADE]: true };
}

function base64(data: Uint8Array): string {
  return Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('base64');
}
