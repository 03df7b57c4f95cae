/** A caller of tool servers: one POST, and the messages that come back. */

import * as http from 'node:http';
import type { JsonObject } from '@toolhall/sdk';

export interface Heard {
  status: number;
  type: string;
  headers: http.IncomingHttpHeaders;
  messages: JsonObject[];
}

export interface Exchange {
  /** The next message, as soon as it is there. */
  next(): Promise<JsonObject>;
  /** Everything, once the reply is over. */
  whole: Promise<Heard>;
  hangUp(): void;
}

export interface Sending {
  token?: string;
  type?: string;
  method?: string;
}

export function call(method: string, params: JsonObject = {}, more: JsonObject = {}): JsonObject {
  return { type: 'tool_request', id: '17', tool: 'Kit', method, params, ...more };
}

/** Send a message and wait for the whole reply. */
export async function post(url: string, message: JsonObject | string | Buffer, how: Sending = {}): Promise<Heard> {
  return await exchange(url, message, how).whole;
}

export async function get(url: string): Promise<Heard> {
  return await send(url, '', { method: 'GET' }).whole;
}

export function exchange(url: string, message: JsonObject | string | Buffer, how: Sending = {}): Exchange {
  const body = typeof message === 'string' || Buffer.isBuffer(message) ? message : JSON.stringify(message);
  return send(`${url}/hub`, body, how);
}

function send(url: string, body: string | Buffer, how: Sending): Exchange {
  const messages: JsonObject[] = [];
  const waiting: ((message: JsonObject) => void)[] = [];
  let read = 0;
  const take = (line: string) => {
    const message = JSON.parse(line) as JsonObject;
    messages.push(message);
    const resolve = waiting.shift();
    if (resolve !== undefined) {
      read += 1;
      resolve(message);
    }
  };
  const headers = {
    'content-type': how.type ?? 'application/json',
    'content-length': Buffer.byteLength(body),
    ...(how.token !== undefined && { authorization: `Bearer ${how.token}` }),
  };
  const request = http.request(url, { method: how.method ?? 'POST', headers, agent: false });
  const whole = new Promise<Heard>((resolve, reject) => {
    request.on('error', reject);
    request.on('response', (response) => {
      let rest = '';
      response.setEncoding('utf8');
      response.on('error', reject);
      response.on('data', (chunk: string) => {
        const lines = (rest + chunk).split('\n');
        rest = lines.pop() ?? '';
        lines.forEach(take);
      });
      response.on('end', () => {
        if (rest !== '') take(rest);
        const type = response.headers['content-type'] ?? '';
        resolve({ status: response.statusCode ?? 0, type, headers: response.headers, messages });
      });
    });
  });
  whole.catch(() => {}); // whoever hangs up does not wait for it
  request.end(body);
  const next = () =>
    new Promise<JsonObject>((resolve) => {
      const message = messages[read];
      if (message === undefined) waiting.push(resolve);
      else {
        read += 1;
        resolve(message);
      }
    });
  return { next, whole, hangUp: () => request.destroy() };
}
