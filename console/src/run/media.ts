/** Media and links that a tool returned or a resource holds: only known types are shown, and only web addresses are links. */

export const IMAGES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp', 'image/avif'];
export const SOUNDS = ['audio/wav', 'audio/mpeg', 'audio/ogg', 'audio/webm', 'audio/mp4', 'audio/aac', 'audio/flac'];
const ALIASES: Record<string, string> = {
  'image/jpg': 'image/jpeg',
  'audio/mp3': 'audio/mpeg',
  'audio/x-wav': 'audio/wav',
};
const MAX_BYTES = 32 * 1024 * 1024;

/** The bytes of a picture or sound; null if the type is not on the list or the data is no base64. SVG is never shown. */
export function mediaBlob(kind: 'image' | 'audio', data: string, mimeType: string): Blob | null {
  const declared = mimeType.split(';')[0]?.trim().toLowerCase() ?? '';
  const type = ALIASES[declared] ?? declared;
  if (!(kind === 'image' ? IMAGES : SOUNDS).includes(type) || data.length > MAX_BYTES * 1.4) return null;
  const bytes = bytesOf(data);
  return bytes && new Blob([bytes], { type });
}

/** Whether content of this type is text; what it says is shown, never run. */
export function isText(mimeType: string): boolean {
  return /^(text\/|application\/(.+\+)?(json|xml|yaml|toml|javascript)\b)/i.test(mimeType);
}

/** Whether content of this type is JSON. */
export function isJson(mimeType: string): boolean {
  return /^[\w.-]+\/([\w.-]+\+)?json(;|$)/i.test(mimeType.trim());
}

/** How many bytes base64 stands for. */
export function sizeOf(data: string): number {
  return Math.floor((data.replace(/=+$/, '').length * 3) / 4);
}

/** Bytes as base64. */
export function base64Of(bytes: Uint8Array): string {
  let text = '';
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}

/** The bytes of base64; null if it is none. */
export function bytesOf(data: string): Uint8Array<ArrayBuffer> | null {
  try {
    return Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
  } catch {
    return null;
  }
}

/** A picture or sound in a data URI, as REST returns content; null if it is none that is shown. */
export function dataUri(text: string): { kind: 'image' | 'audio'; data: string; mimeType: string } | null {
  const found = /^data:((image|audio)\/[\w.+-]+);base64,([A-Za-z0-9+/=]*)$/.exec(text);
  if (!found) return null;
  const [, mimeType = '', kind, data = ''] = found;
  return { kind: kind === 'image' ? 'image' : 'audio', data, mimeType };
}

/** A web address, safe to be a link; null for `javascript:` and all else. */
export function webAddress(uri: string): string | null {
  try {
    const url = new URL(uri);
    return url.protocol === 'https:' || url.protocol === 'http:' ? url.href : null;
  } catch {
    return null;
  }
}
