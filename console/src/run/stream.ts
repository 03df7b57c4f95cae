/** Server-sent events of one response, message by message. */

const MAX_MESSAGE = 64 * 1024 * 1024;

/** The data of each event as it comes; keep-alives are left out. */
export async function* eventData(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let buffer = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      buffer += decoder.decode(value, { stream: !done });
      if (buffer.length > MAX_MESSAGE) throw new Error('the stream has a message that is too large');
      // A carriage return at the end may be half of a line break: it waits for what follows.
      const held = !done && buffer.endsWith('\r') ? '\r' : '';
      const events = buffer.slice(0, buffer.length - held.length).split(/(?:\r\n|\n|\r(?!\n)){2}/);
      buffer = (events.pop() ?? '') + held;
      for (const event of events) {
        const data = dataOf(event);
        if (data !== null) yield data;
      }
      if (done) return;
    }
  } finally {
    reader.releaseLock();
  }
}

function dataOf(event: string): string | null {
  const lines = event.split(/\r\n|\n|\r/).filter((line) => line === 'data' || line.startsWith('data:'));
  return lines.length === 0 ? null : lines.map((line) => line.slice(5).replace(/^ /, '')).join('\n');
}
