/** What was thrown, as the log shows it: redacted part by part, because a text that was laid out hides what it holds. */

import { inspect } from 'node:util';
import type { Redactor } from './redacting.js';

const DEPTH = 4;
const MOST = 500; // parts; an exception may hold half the program

export function shown(thrown: unknown, redactor: Redactor): string {
  try {
    return new Showing(redactor).thrown(thrown, DEPTH);
  } catch {
    return 'what was thrown cannot be shown';
  }
}

class Showing {
  #left = MOST;

  constructor(private readonly redactor: Redactor) {}

  thrown(thrown: unknown, depth: number): string {
    if (!(thrown instanceof Error)) return inspect(this.#part(thrown, depth), { depth: DEPTH });
    const { stack, cause, message } = thrown;
    const members = this.#members(thrown, depth, ['stack', 'message', 'cause', 'errors']);
    const held = Object.keys(members).length > 0 ? ` ${inspect(members, { depth: DEPTH })}` : '';
    const others = thrown instanceof AggregateError ? thrown.errors : [];
    const causes = [...(cause === undefined ? [] : [cause]), ...others].slice(0, depth > 0 ? this.#left : 0);
    const told = causes.map((each) => `\ncaused by ${this.thrown(each, depth - 1)}`);
    return this.redactor.text(stack ?? message) + held + told.join('');
  }

  #part(value: unknown, depth: number): unknown {
    this.#left -= 1;
    if (typeof value === 'string') return this.redactor.text(value);
    if (typeof value === 'number' || typeof value === 'bigint') return this.redactor.text(String(value));
    if (typeof value === 'function' || typeof value === 'symbol') return `[${typeof value}]`;
    if (typeof value !== 'object' || value === null) return value;
    if (depth <= 0 || this.#left <= 0) return '[more]';
    if (value instanceof Error) return this.redactor.text(value.stack ?? value.message);
    if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return `[${value.byteLength} bytes]`;
    if (value instanceof Map || value instanceof Set) return this.#part([...value], depth);
    if (Array.isArray(value)) return value.slice(0, this.#left).map((each) => this.#part(each, depth - 1));
    return this.#members(value, depth);
  }

  /** What is there to be read; nothing is run for it. */
  #members(holder: object, depth: number, without: string[] = []): Record<string, unknown> {
    const found: Record<string, unknown> = {};
    for (const key of Object.keys(holder)) {
      const property = Object.getOwnPropertyDescriptor(holder, key);
      if (this.#left <= 0) break;
      if (without.includes(key) || property === undefined || !('value' in property)) continue;
      found[this.redactor.text(key)] = this.#part(property.value, depth - 1);
    }
    return found;
  }
}
