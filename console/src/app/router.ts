/** Addresses: the hash holds the screen, its path and every filter, so that an address can be sent to a colleague. */

import { computed, signal } from '@preact/signals';

export interface Route {
  /** The first segment: the screen. */
  screen: string;
  /** The segments after it, decoded. */
  path: string[];
  query: URLSearchParams;
}

export type Query = Record<string, string | number | null | undefined>;

const hash = signal(globalThis.location?.hash ?? '');
export const route = computed(() => parse(hash.value));

/** Follow the address bar; the answer ends it. */
export function followAddress(): () => void {
  const follow = () => {
    hash.value = location.hash;
  };
  addEventListener('hashchange', follow);
  return () => removeEventListener('hashchange', follow);
}

/** The route of a hash such as `#/tools/Mail.send@1.0.0/try?dialect=mcp`. */
export function parse(text: string): Route {
  const [path = '', query = ''] = text.replace(/^#\/?/, '').split(/\?(.*)/s);
  const [screen = '', ...rest] = path.split('/').filter(Boolean).map(decode);
  return { screen, path: rest, query: new URLSearchParams(query) };
}

/** The address of a screen: `href(['tools', id, 'try'], {dialect: 'mcp'})`. Empty values are left out. */
export function href(path: string[], query: Query = {}): string {
  const words = Object.entries(query).filter(
    (each): each is [string, string | number] => each[1] != null && each[1] !== '',
  );
  const search = new URLSearchParams(words.map(([name, value]) => [name, String(value)])).toString();
  return `#/${path.map(encodeSegment).join('/')}${search ? `?${search}` : ''}`;
}

/** Go to an address of `href`; `replace` leaves no step to go back to. */
export function navigate(address: string, replace = false): void {
  if (replace) history.replaceState(null, '', address);
  else if (address !== location.hash) history.pushState(null, '', address);
  hash.value = location.hash;
}

/** Change parts of the query of this address; an empty value takes one out. */
export function setQuery(changes: Query, replace = true): void {
  const { screen, path, query } = route.peek();
  navigate(href(screen ? [screen, ...path] : [], { ...Object.fromEntries(query), ...changes }), replace);
}

/** One value of the query, drawn again when it changes. */
export function query(name: string): string {
  return route.value.query.get(name) ?? '';
}

function decode(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

// An @ is allowed in a fragment, and ids read better with it.
function encodeSegment(segment: string): string {
  return encodeURIComponent(segment).replaceAll('%40', '@');
}
