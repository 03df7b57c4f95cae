/** The body of a request, up to a limit. */

import type { IncomingMessage } from 'node:http';

export const MOST_BYTES = 2 * 1024 * 1024 + 65_536; // what a hall takes at most, as it is written here

/** Null for one that is too large; rejects for one that breaks off. */
export function bodyOf(request: IncomingMessage): Promise<Buffer | null> {
  if (Number(request.headers['content-length'] ?? 0) > MOST_BYTES) return Promise.resolve(null);
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    request.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size <= MOST_BYTES) chunks.push(chunk);
      else {
        request.pause();
        resolve(null);
      }
    });
    request.on('end', () => resolve(Buffer.concat(chunks)));
    request.on('error', reject);
    request.on('close', () => reject(new Error('the request broke off')));
  });
}
