/** URI templates (RFC 6570) as far as a tool server looks at them: which variables there are. The hall matches and expands. */

import { Malformed } from './fields.js';

const LONGEST = 8_192;
const MOST_VARIABLES = 16;
const SCHEME = /^[A-Za-z][A-Za-z0-9+.-]*:/;
const EXPRESSION = /^([+#./;?&]?)([A-Za-z0-9_.]+\*?(?:,[A-Za-z0-9_.]+\*?)*)$/;

export interface UriVariable {
  name: string;
  /** In the query, so it may be missing. */
  isQuery: boolean;
  /** `{/path*}`: a list, one text for each segment. */
  isList: boolean;
}

/** The variables of a template, in order; Malformed where it is none, with the fix. */
export function variablesOf(template: string): UriVariable[] {
  const refuse = (fix: string): never => {
    throw new Malformed(`the URI ${JSON.stringify(template.slice(0, 200))}: ${fix}`);
  };
  if (template.length > LONGEST) refuse(`it is longer than ${LONGEST} characters; shorten it`);
  const [literal = '', ...rest] = template.split('{');
  if (!SCHEME.test(literal)) refuse('it begins with a scheme of your own, such as shop://');
  const parts = rest.map((part) => part.split('}'));
  if (literal.includes('}') || parts.some((part) => part.length !== 2)) refuse('close every { with one }');
  const found = parts.flatMap(([inside = '']) => {
    const [, sign = '', names] = EXPRESSION.exec(inside) ?? [];
    if (names === undefined) return refuse(`{${inside}} is not understood; write {name}, {+name} or {?name,other}`);
    return names.split(',').map((each) => ({
      name: each.replace('*', ''),
      isQuery: sign === '?' || sign === '&',
      isList: each.endsWith('*'),
    }));
  });
  if (found.length > MOST_VARIABLES) refuse(`it has more than ${MOST_VARIABLES} variables; make several of it`);
  const names = found.map(({ name }) => name);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  return twice === undefined ? found : refuse(`the variable ${twice} is there twice; give one another name`);
}

/** The URI that these values make of a template, for a hall that does not say which one it reads. */
export function expanded(template: string, values: Readonly<Record<string, unknown>>): string {
  return template.replaceAll(/\{([+#./;?&]?)([^}]*)\}/g, (_, sign: string, names: string) => {
    const [first, separator, named] = SIGNS[sign] ?? ['', ',', false];
    const encode = sign === '+' || sign === '#' ? encodeURI : encodeURIComponent;
    const parts = names.split(',').flatMap((each) => {
      const name = each.replace('*', '');
      const value = values[name];
      if (value === undefined || value === null) return [];
      const texts = (Array.isArray(value) ? value : [value]).map((one) => encode(String(one)));
      return [named ? `${name}=${texts.join(',')}` : texts.join(separator)];
    });
    return parts.length > 0 ? first + parts.join(separator) : '';
  });
}

const SIGNS: Readonly<Record<string, [string, string, boolean]>> = {
  '#': ['#', ',', false],
  '.': ['.', '.', false],
  '/': ['/', '/', false],
  ';': [';', ';', true],
  '?': ['?', '&', true],
  '&': ['&', '&', true],
};
