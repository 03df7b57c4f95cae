/** The URI that a URI template (RFC 6570, as the hall serves them) and values make, and values as texts. */

import { type Exact, isObject, writeJson } from '../json/exact';

interface Operator {
  first: string;
  separator: string;
  /** Whether names stand before values. */
  named?: boolean;
  /** What follows the name of an empty value. */
  ifEmpty?: string;
  /** Whether reserved characters stay as they are. */
  reserved?: boolean;
}

const OPERATORS: Record<string, Operator> = {
  '': { first: '', separator: ',' },
  '+': { first: '', separator: ',', reserved: true },
  '#': { first: '#', separator: ',', reserved: true },
  '.': { first: '.', separator: '.' },
  '/': { first: '/', separator: '/' },
  ';': { first: ';', separator: ';', named: true },
  '?': { first: '?', separator: '&', named: true, ifEmpty: '=' },
  '&': { first: '&', separator: '&', named: true, ifEmpty: '=' },
};

/** The URI; a variable without a value leaves nothing behind. */
export function expandUri(template: string, values: Exact): string {
  return template.replace(/\{([+#./;?&]?)([^{}]*)\}|[^{}]+/g, (literal, sign: string, names?: string) =>
    names === undefined ? encodeReserved(literal) : expression(OPERATORS[sign], names.split(','), values),
  );
}

function expression(operator: Operator | undefined, names: string[], values: Exact): string {
  if (!operator) return '';
  const { first, separator, named, ifEmpty = '', reserved } = operator;
  const encode = reserved ? encodeReserved : encodePart;
  const parts = names.flatMap((variable) => {
    const name = variable.replace(/\*$/, '');
    const value = isObject(values) && Object.hasOwn(values, name) ? values[name] : undefined;
    if (value === undefined || value === null || (Array.isArray(value) && value.length === 0)) return [];
    const texts = (Array.isArray(value) ? value : [value]).map((each) => encode(textOf(each)));
    const joined = texts.join(variable === name ? ',' : separator);
    if (!named) return [joined];
    return [joined === '' ? name + ifEmpty : `${name}=${joined}`];
  });
  return parts.length > 0 ? first + parts.join(separator) : '';
}

/** A value as it stands in a URI, or in the arguments of a prompt: a text as it is, all else as JSON. */
export function textOf(value: Exact): string {
  return typeof value === 'string' ? value : writeJson(value);
}

/** One part of a path, percent-encoded. */
export function encodePart(part: string): string {
  return encodeURIComponent(wellFormed(part)).replace(
    /[!'()*]/g,
    (each) => `%${each.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

// What is percent-encoded already stays as it is.
function encodeReserved(text: string): string {
  return wellFormed(text)
    .split(/(%[0-9A-Fa-f]{2})/)
    .map((part, index) => (index % 2 ? part : encodeURI(part).replaceAll('%5B', '[').replaceAll('%5D', ']')))
    .join('');
}

// Half a pair of surrogates has no bytes.
function wellFormed(text: string): string {
  return text.replace(/\p{Surrogate}/gu, '\ufffd');
}
