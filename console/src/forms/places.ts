/** Where problems belong: each JSON pointer of the hall is placed at the field that shows it. */

import type { Problem } from '../api/types';
import { escapePointer } from '../json/exact';
import { type AnyReason, anyShape, type Shape } from './schema';
import { memberShape, type State } from './state';

/** The pointers of all fields that are drawn now. */
export function drawnFields(shape: Shape, state: State, path = '', found = new Set<string>()): Set<string> {
  found.add(path);
  if (state.is === 'choice') {
    const alternative = shape.alternatives[state.option];
    if (alternative) drawnFields(alternative.shape, state.state, path, found);
  } else if (state.is === 'list') {
    state.items.forEach((item, index) => {
      drawnFields(shape.item?.(index) ?? anyShape({}, 'anything'), item.state, `${path}/${index}`, found);
    });
  } else if (state.is === 'object') {
    for (const member of shape.members) found.add(`${path}/${escapePointer(member.name)}`);
    for (const [name, member] of state.members)
      drawnFields(memberShape(shape, name), member, `${path}/${escapePointer(name)}`, found);
  }
  return found;
}

/** Problems by field: that of their path, or the nearest around it. */
export function placeProblems<T extends Pick<Problem, 'path'>>(
  problems: readonly T[],
  fields: ReadonlySet<string>,
): Map<string, T[]> {
  const placed = new Map<string, T[]>();
  for (const problem of problems) {
    let path = problem.path;
    while (path !== '' && !fields.has(path)) path = path.slice(0, path.lastIndexOf('/'));
    placed.set(path, [...(placed.get(path) ?? []), problem]);
  }
  return placed;
}

/** A part of a schema that is edited as JSON. */
export interface JsonPart {
  path: string;
  reason: AnyReason;
}

/** Every part that has no field of its own, down to a depth; `*` stands for items and members without a name. */
export function jsonParts(shape: Shape, depth = 5, path = ''): JsonPart[] {
  if (shape.kind === 'any') return [{ path, reason: shape.reason ?? 'anything' }];
  if (depth === 0) return [];
  const parts = shape.alternatives.flatMap((each) => jsonParts(each.shape, depth - 1, path));
  for (const member of shape.members)
    parts.push(...jsonParts(member.shape, depth - 1, `${path}/${escapePointer(member.name)}`));
  if (shape.kind === 'array') {
    for (let index = 0; index <= shape.tuple; index++) {
      const item = shape.item(index);
      if (item) parts.push(...jsonParts(item, depth - 1, `${path}/${index < shape.tuple ? index : '*'}`));
    }
  }
  const rest = shape.kind === 'object' && shape.offersMore ? shape.rest() : null;
  return rest ? [...parts, ...jsonParts(rest, depth - 1, `${path}/*`)] : parts;
}
