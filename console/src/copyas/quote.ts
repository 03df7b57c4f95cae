/** Values as source text: for a POSIX shell, for Python and for TypeScript. */

import { type Exact, ExactNumber, quoteJson, writeJson } from '../json/exact';

/** A word of a POSIX shell. */
export function shellWord(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** Whether both languages read all numbers of a value as they are written. */
export function isPortable(value: Exact): boolean {
  if (value instanceof ExactNumber) return false;
  if (value === null || typeof value !== 'object') return true;
  return (Array.isArray(value) ? value : Object.values(value)).every(isPortable);
}

/** A value as a Python expression. */
export function pythonLiteral(value: Exact, margin = ''): string {
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value === 'string') return pythonString(value);
  return nested(value, margin, pythonString, pythonLiteral);
}

/** A value as a TypeScript expression. */
export function scriptLiteral(value: Exact, margin = ''): string {
  if (typeof value === 'string') return quoteJson(value);
  return nested(value, margin, scriptKey, scriptLiteral);
}

// As a plain key, `__proto__` would set the prototype.
function scriptKey(key: string): string {
  return key === '__proto__' ? '["__proto__"]' : /^[A-Za-z_$][\w$]*$/.test(key) ? key : quoteJson(key);
}

function nested(
  value: Exact,
  margin: string,
  key: (name: string) => string,
  write: (value: Exact, margin: string) => string,
): string {
  if (value instanceof ExactNumber || value === null || typeof value !== 'object') return writeJson(value);
  const inner = `${margin}    `;
  const isArray = Array.isArray(value);
  const parts = isArray
    ? value.map((each) => write(each, inner))
    : Object.entries(value).map(([name, each]) => `${key(name)}: ${write(each, inner)}`);
  const [open, close] = isArray ? ['[', ']'] : ['{', '}'];
  const line = open + parts.join(', ') + close;
  if (line.length + margin.length <= 76 && !line.includes('\n')) return line;
  return `${open}\n${parts.map((part) => `${inner}${part},\n`).join('')}${margin}${close}`;
}

// JSON's escapes are Python's too, but for pairs of surrogates: each would be a character of its own.
function pythonString(text: string): string {
  return quoteJson(text).replace(
    /(\\\\)|\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})/g,
    (whole: string, backslash: string | undefined, high: string, low: string) => {
      if (backslash !== undefined) return whole;
      const point = (Number.parseInt(high, 16) - 0xd800) * 0x400 + (Number.parseInt(low, 16) - 0xdc00) + 0x10000;
      return `\\U${point.toString(16).padStart(8, '0')}`;
    },
  );
}
