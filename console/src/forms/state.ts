/**
 * What a form holds: a tree beside the tree of shapes, and its ways to JSON and back.
 *
 * Absent, null and empty are three things everywhere. A value that no field of its shape can show (a wrong type, a member
 * that is not allowed) is kept as JSON at its place, so reading any value and writing it again changes nothing.
 */

import {
  type Exact,
  type ExactObject,
  escapePointer,
  isObject,
  JsonError,
  readJson,
  sameJson,
  typedNumber,
  writeJson,
} from '../json/exact';
import { anyShape, hasType, type Shape } from './schema';

export type State =
  | { is: 'absent' }
  | { is: 'value'; value: Exact }
  /** A number that is being typed. */
  | { is: 'typed'; text: string }
  | { is: 'object'; members: [name: string, state: State][] }
  | { is: 'list'; items: { key: number; state: State }[] }
  | { is: 'choice'; option: number; state: State }
  /** JSON that is typed by hand, because no field can show it or the person prefers it. */
  | { is: 'json'; text: string };

/** A place that holds no JSON yet: the reason is a word of the form. */
export interface Unfinished {
  path: string;
  reason: 'number' | JsonError['reason'];
  line: number;
  column: number;
}

export const ABSENT: State = { is: 'absent' };
const MAX_DEPTH = 6;
/** A longer list, or an object with more members, is one JSON field: a thousand fields help nobody. */
const MOST_FIELDS = 200;
let lastKey = 0;

/** A new item of a list, with a key that stays when others are removed. */
export function listItem(state: State): { key: number; state: State } {
  lastKey += 1;
  return { key: lastKey, state };
}

/** What a field holds before anybody typed: nothing, but for what is required and can be only one thing. */
export function initialState(shape: Shape, required: boolean, depth = 0): State {
  if (!required || depth > MAX_DEPTH) return ABSENT;
  const preset = shape.keywords.default;
  if (preset !== undefined) return stateOf(shape, preset);
  switch (shape.kind) {
    case 'enum':
      return shape.options.length === 1 && shape.options[0] && !shape.nullable
        ? { is: 'value', value: shape.options[0].value }
        : ABSENT;
    case 'null':
      return { is: 'value', value: null };
    case 'object':
      return filledObject(shape, depth);
    case 'array':
      return {
        is: 'list',
        items: Array.from({ length: Math.min(shape.tuple, 20) }, (_, index) =>
          listItem(initialItem(shape, index, depth + 1)),
        ),
      };
    case 'choice':
      return shape.nullable ? ABSENT : chosen(shape, 0, depth + 1);
    default:
      return ABSENT;
  }
}

/** An object with its required members begun. */
export function filledObject(shape: Shape, depth = 0): State {
  const begun = shape.members.map((member): [string, State] => [
    member.name,
    initialState(member.shape, member.required, depth + 1),
  ]);
  return { is: 'object', members: begun.filter(([, state]) => state.is !== 'absent') };
}

/** A new item at a place of a list. */
export function initialItem(shape: Shape, index: number, depth = 0): State {
  const item = shape.item(index) ?? anyShape({}, 'anything');
  const state = initialState(item, true, depth);
  return state.is === 'absent' && item.kind === 'string' ? { is: 'value', value: '' } : state;
}

/** A choice, begun with one of its alternatives. */
export function chosen(shape: Shape, option: number, depth = 0): State {
  const alternative = shape.alternatives[option];
  return { is: 'choice', option, state: alternative ? initialState(alternative.shape, true, depth) : ABSENT };
}

/** The state that shows a value; undefined is absent. */
export function stateOf(shape: Shape, value: Exact | undefined): State {
  if (value === undefined) return ABSENT;
  if (value === null && shape.nullable) return { is: 'value', value };
  switch (shape.kind) {
    case 'enum':
      return shape.options.some((option) => sameJson(option.value, value)) ? { is: 'value', value } : asJson(value);
    case 'object':
      return isObject(value) && Object.keys(value).length <= MOST_FIELDS ? objectState(shape, value) : asJson(value);
    case 'array':
      return Array.isArray(value) && value.length <= MOST_FIELDS ? listState(shape, value) : asJson(value);
    case 'choice': {
      const option = shape.alternatives.findIndex((each) => fits(each.shape, value));
      const alternative = shape.alternatives[option];
      return alternative ? { is: 'choice', option, state: stateOf(alternative.shape, value) } : asJson(value);
    }
    case 'any':
      return asJson(value);
    default:
      return hasType(value, shape.kind) ? { is: 'value', value } : asJson(value);
  }
}

function asJson(value: Exact): State {
  return { is: 'json', text: writeJson(value, 2) };
}

function objectState(shape: Shape, value: ExactObject): State {
  return {
    is: 'object',
    members: Object.entries(value).map(([name, each]) => [name, stateOf(memberShape(shape, name), each)]),
  };
}

function listState(shape: Shape, value: Exact[]): State {
  return {
    is: 'list',
    items: value.map((each, index) => listItem(stateOf(shape.item(index) ?? anyShape({}, 'contradiction'), each))),
  };
}

/** The shape of a member, declared or not. */
export function memberShape(shape: Shape, name: string): Shape {
  return shape.members.find((member) => member.name === name)?.shape ?? shape.rest() ?? anyShape({}, 'contradiction');
}

/** Whether a field of this shape can show a value: a look at its form, no validation. */
export function fits(shape: Shape, value: Exact, depth = 0): boolean {
  if (value === null && shape.nullable) return true;
  if (depth > MAX_DEPTH) return true;
  switch (shape.kind) {
    case 'any':
      return shape.reason !== 'contradiction';
    case 'enum':
      return shape.options.some((option) => sameJson(option.value, value));
    case 'choice':
      return shape.alternatives.some((each) => fits(each.shape, value, depth + 1));
    case 'array':
      return (
        Array.isArray(value) && value.every((each, index) => index > 20 || fitsItem(shape.item(index), each, depth + 1))
      );
    case 'object':
      return isObject(value) && fitsMembers(shape, value, depth + 1);
    default:
      return hasType(value, shape.kind);
  }
}

function fitsItem(shape: Shape | null, value: Exact, depth: number): boolean {
  return shape !== null && fits(shape, value, depth);
}

function fitsMembers(shape: Shape, value: ExactObject, depth: number): boolean {
  if (shape.members.some((member) => member.required && !Object.hasOwn(value, member.name))) return false;
  return Object.entries(value).every(([name, each]) => {
    const declared = shape.members.find((member) => member.name === name);
    return fitsItem(declared ? declared.shape : shape.rest(), each, depth);
  });
}

/** The JSON of a form: undefined where nothing is said. What is not finished is listed, with its place. */
export function formValue(state: State, unfinished: Unfinished[] = [], path = ''): Exact | undefined {
  switch (state.is) {
    case 'absent':
      return undefined;
    case 'value':
      return state.value;
    case 'typed': {
      const number = typedNumber(state.text);
      if (number === undefined) unfinished.push({ path, reason: 'number', line: 1, column: 1 });
      return number;
    }
    case 'json':
      return typedJson(state.text, unfinished, path);
    case 'choice':
      return formValue(state.state, unfinished, path);
    case 'list':
      return state.items.map(({ state: item }, index) => formValue(item, unfinished, `${path}/${index}`) ?? null);
    case 'object': {
      const members = state.members.map(([name, member]): [string, Exact | undefined] => [
        name,
        formValue(member, unfinished, `${path}/${escapePointer(name)}`),
      ]);
      return Object.fromEntries(members.filter((member): member is [string, Exact] => member[1] !== undefined));
    }
  }
}

function typedJson(text: string, unfinished: Unfinished[], path: string): Exact | undefined {
  if (text.trim() === '') return undefined;
  try {
    return readJson(text).value;
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    unfinished.push({ path, reason: error.reason, line: error.line, column: error.column });
    return undefined;
  }
}

/** The state with one member of an object changed; an absent one is left out. */
export function withMember(state: State, name: string, member: State): State {
  const members = state.is === 'object' ? state.members : [];
  if (member.is === 'absent') return { is: 'object', members: members.filter(([other]) => other !== name) };
  return members.some(([other]) => other === name)
    ? { is: 'object', members: members.map((each) => (each[0] === name ? [name, member] : each)) }
    : { is: 'object', members: [...members, [name, member]] };
}

/** The member of an object, absent if it is not there. */
export function memberOf(state: State, name: string): State {
  return (state.is === 'object' ? state.members.find(([other]) => other === name)?.[1] : undefined) ?? ABSENT;
}
