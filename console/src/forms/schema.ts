/**
 * JSON Schema (2020-12) as a form can draw it: references followed, `allOf` merged, choices listed.
 *
 * Theory of operation. `flatten` follows `$ref` and merges `allOf` into one set of keywords; what is left of `oneOf` and
 * `anyOf` are groups of alternatives. `Shapes.of` turns that into a `Shape`, the kind of field to draw. Parts of a shape
 * are computed when they are asked for, so a schema may contain itself. Nothing here validates: the hall does, and its
 * problems are placed at the fields. What no field can draw has the kind "any", with the reason, and is edited as JSON.
 */

import { type Exact, type ExactObject, isObject, sameJson, unescapePointer } from '../json/exact';

export type Kind =
  | 'string'
  | 'number'
  | 'integer'
  | 'boolean'
  | 'null'
  | 'enum'
  | 'object'
  | 'array'
  | 'choice'
  | 'any';

/** Why a part is edited as JSON. */
export type AnyReason = 'anything' | 'reference' | 'contradiction' | 'unknown_type' | 'too_deep';

export interface Member {
  name: string;
  required: boolean;
  shape: Shape;
}
export interface EnumOption {
  value: Exact;
  label: string | null;
}
export interface Alternative {
  label: string | null;
  shape: Shape;
}

/** A part of a schema as it is drawn. */
export interface Shape {
  kind: Kind;
  /** All keywords that hold here, merged. */
  keywords: ExactObject;
  nullable: boolean;
  /** For "any". */
  reason: AnyReason | null;
  /** For "enum". */
  options: EnumOption[];
  /** For "choice". */
  readonly alternatives: Alternative[];
  /** For "object": the declared and the required members. */
  readonly members: Member[];
  /** For "object": the shape of other members; null where none are allowed. */
  rest(): Shape | null;
  /** For "object": whether the schema speaks of members that it does not name. */
  offersMore: boolean;
  /** For "array": the shape of an item; null where none is allowed. */
  item(index: number): Shape | null;
  /** For "array": how many items have a shape of their own. */
  tuple: number;
  /** Keywords that the form does not show and the hall checks. */
  unseen: string[];
}

const TYPES = ['object', 'array', 'string', 'integer', 'number', 'boolean', 'null'];
const UNSEEN = [
  'not',
  'if',
  'dependentSchemas',
  'dependentRequired',
  'dependencies',
  'propertyNames',
  'contains',
  'unevaluatedProperties',
  'unevaluatedItems',
];
const HINTS: [string, string[]][] = [
  ['object', ['properties', 'required', 'additionalProperties', 'patternProperties', 'minProperties', 'maxProperties']],
  ['array', ['items', 'prefixItems', 'minItems', 'maxItems', 'uniqueItems']],
  ['string', ['pattern', 'minLength', 'maxLength', 'format']],
  ['number', ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf']],
];
const MAX_STEPS = 64;

interface Flat {
  keywords: ExactObject;
  /** Alternatives of each `oneOf` and `anyOf` that holds here. */
  groups: Exact[][];
  /** Why nothing can be said, or why nothing fits. */
  reason: AnyReason | null;
}

/** The shapes of one schema document. */
export class Shapes {
  private readonly names: Map<string, Exact>;
  private readonly known = new WeakMap<object, Shape>();

  constructor(private readonly root: Exact) {
    this.names = namedSchemas(root);
  }

  /** The shape of the whole document. */
  get top(): Shape {
    return this.of(this.root);
  }

  /** The shape of a schema in it. */
  of(schema: Exact): Shape {
    if (!isObject(schema)) return this.shape(this.flatten(schema, 0), 0);
    const known = this.known.get(schema);
    if (known) return known;
    const made = this.shape(this.flatten(schema, 0), 0);
    this.known.set(schema, made);
    return made;
  }

  private flatten(schema: Exact, steps: number): Flat {
    if (schema === false) return { keywords: {}, groups: [], reason: 'contradiction' };
    if (!isObject(schema)) return { keywords: {}, groups: [], reason: null };
    if (steps > MAX_STEPS) return { keywords: {}, groups: [], reason: 'too_deep' };
    const { $ref: reference, $dynamicRef: dynamic, allOf, oneOf, anyOf, ...keywords } = schema;
    const groups = [oneOf, anyOf].filter((group): group is Exact[] => Array.isArray(group) && group.length > 0);
    const parts: Flat[] = [{ keywords: withConst(keywords), groups, reason: null }];
    if (typeof (reference ?? dynamic) === 'string') {
      const target = this.resolve((reference ?? dynamic) as string);
      parts.push(
        target === undefined ? { keywords: {}, groups: [], reason: 'reference' } : this.flatten(target, steps + 1),
      );
    }
    for (const each of Array.isArray(allOf) ? allOf : []) parts.push(this.flatten(each, steps + 1));
    return parts.reduce(merge);
  }

  private resolve(reference: string): Exact | undefined {
    const [document = '', fragment = ''] = reference.split('#', 2);
    const base = document === '' ? this.root : this.names.get(document);
    if (base === undefined || fragment === '') return base;
    let path: string;
    try {
      path = decodeURIComponent(fragment);
    } catch {
      return undefined;
    }
    if (!path.startsWith('/')) return this.names.get(`#${path}`);
    return valueAt(base, path);
  }

  private shape(flat: Flat, steps: number): Shape {
    if (flat.reason !== null) return anyShape(flat.keywords, flat.reason);
    if (steps > MAX_STEPS) return anyShape(flat.keywords, 'too_deep');
    const { keywords } = flat;
    if (Array.isArray(keywords.enum)) return enumShape(keywords, keywords.enum);
    const [group, ...others] = flat.groups;
    if (group) return this.choice({ keywords, groups: others, reason: null }, group, steps);
    const types = typesOf(keywords);
    if (types.some((type) => !TYPES.includes(type))) return anyShape(keywords, 'unknown_type');
    const nullable = types.includes('null') && types.length > 1;
    const kinds = types.filter(
      (type) => !(nullable && type === 'null') && !(type === 'integer' && types.includes('number')),
    );
    const [kind] = kinds;
    if (kind === undefined) {
      const guess = HINTS.find(([, words]) => words.some((word) => word in keywords));
      return guess ? this.single(keywords, guess[0] as Kind, false) : anyShape(keywords, 'anything');
    }
    if (kinds.length === 1) return this.single(keywords, kind as Kind, nullable);
    const alternatives = kinds.map((each) => ({
      label: null,
      shape: this.single({ ...keywords, type: each }, each as Kind, false),
    }));
    return { ...this.single(keywords, 'choice', nullable), alternatives };
  }

  /** The alternatives of a group, each with all that holds beside it. */
  private choice(base: Flat, group: Exact[], steps: number): Shape {
    const options: { flat: Flat; label: string | null }[] = [];
    let nullable = false;
    for (const each of group) {
      const own = this.flatten(each, 0);
      const flat = merge({ ...own, keywords: { ...own.keywords } }, withoutWords(base));
      if (flat.reason === 'contradiction') continue;
      if (isNull(flat)) nullable = true;
      else options.push({ flat, label: labelOf(each, own) });
    }
    const [first] = options;
    if (!first)
      return nullable
        ? this.single({ ...base.keywords, type: 'null' }, 'null', false)
        : anyShape(base.keywords, 'contradiction');
    if (options.length === 1) {
      const only = this.shape(
        { ...first.flat, keywords: { ...first.flat.keywords, ...wordsOf(base.keywords) } },
        steps + 1,
      );
      return nullable ? withNull(only) : only;
    }
    if (options.every(({ flat }) => Array.isArray(flat.keywords.enum) && flat.keywords.enum.length === 1)) {
      const values = options.map(({ flat }) => (flat.keywords.enum as Exact[])[0] as Exact);
      const shape = enumShape(base.keywords, values);
      shape.options = values.map((value, index) => ({ value, label: options[index]?.label ?? null }));
      return nullable ? withNull(shape) : shape;
    }
    const shapes = this;
    const alternatives = options.map(({ flat, label }) => ({
      label,
      get shape(): Shape {
        const made = shapes.shape(flat, steps + 1);
        Object.defineProperty(this, 'shape', { value: made });
        return made;
      },
    }));
    return { ...this.single(base.keywords, 'choice', nullable), alternatives };
  }

  private single(keywords: ExactObject, kind: Kind, nullable: boolean): Shape {
    const shapes = this;
    const prefix = prefixOf(keywords);
    const following =
      keywords.prefixItems === undefined && Array.isArray(keywords.items) ? keywords.additionalItems : keywords.items;
    return {
      kind,
      keywords,
      nullable,
      reason: null,
      options: [],
      alternatives: [],
      tuple: prefix.length,
      offersMore: kind === 'object' && offersMore(keywords),
      unseen: UNSEEN.filter((word) => word in keywords),
      get members(): Member[] {
        const made = kind === 'object' ? shapes.members(keywords) : [];
        Object.defineProperty(this, 'members', { value: made });
        return made;
      },
      rest: () => this.rest(keywords),
      item: (index) => {
        const schema = index < prefix.length ? prefix[index] : following;
        return schema === false ? null : this.of(schema ?? true);
      },
    };
  }

  private members(keywords: ExactObject): Member[] {
    const properties = isObject(keywords.properties) ? keywords.properties : {};
    const required = Array.isArray(keywords.required)
      ? keywords.required.filter((each) => typeof each === 'string')
      : [];
    const declared = Object.entries(properties).filter(([name, schema]) => schema !== false || required.includes(name));
    const named = declared.map(([name, schema]) => ({ name, required: required.includes(name), schema }));
    const unnamed = [...new Set(required)].filter((name) => !Object.hasOwn(properties, name));
    return [
      ...named.map(({ name, required: must, schema }) => lazyMember(name, must, () => this.of(schema))),
      ...unnamed.map((name) => lazyMember(name, true, () => this.rest(keywords) ?? anyShape({}, 'contradiction'))),
    ];
  }

  private rest(keywords: ExactObject): Shape | null {
    // Patterns are not matched here: a hostile one could hold up the page. One pattern speaks for all names, several for none.
    const patterns = isObject(keywords.patternProperties) ? Object.values(keywords.patternProperties) : [];
    const others = keywords.additionalProperties;
    if (patterns.length > 0 && (others === undefined || others === false)) {
      return patterns.length === 1 && patterns[0] !== undefined ? this.of(patterns[0]) : anyShape({}, 'anything');
    }
    if (patterns.length > 0) return anyShape({}, 'anything');
    if (keywords.additionalProperties === false) return null;
    return this.of(keywords.additionalProperties ?? true);
  }
}

function lazyMember(name: string, required: boolean, make: () => Shape): Member {
  return {
    name,
    required,
    get shape(): Shape {
      const made = make();
      Object.defineProperty(this, 'shape', { value: made });
      return made;
    },
  };
}

/** A part that is edited as JSON. */
export function anyShape(keywords: ExactObject, reason: AnyReason): Shape {
  return {
    kind: 'any',
    keywords,
    nullable: false,
    reason,
    options: [],
    alternatives: [],
    members: [],
    offersMore: false,
    tuple: 0,
    unseen: [],
    rest: () => null,
    item: () => null,
  };
}

function enumShape(keywords: ExactObject, values: Exact[]): Shape {
  const options = values.filter((each) => each !== null).map((value) => ({ value, label: null }));
  const shape = anyShape(keywords, 'contradiction');
  const hasNull = values.includes(null);
  if (options.length === 0) return hasNull ? { ...shape, kind: 'null', reason: null } : shape;
  return { ...shape, kind: 'enum', reason: null, options, nullable: hasNull };
}

function withNull(shape: Shape): Shape {
  if (shape.nullable || shape.kind === 'null' || shape.kind === 'any') return shape;
  return Object.create(shape, { nullable: { value: true, enumerable: true } }) as Shape;
}

function isNull(flat: Flat): boolean {
  const { type, enum: values } = flat.keywords;
  const types = Array.isArray(type) ? type : [type];
  return (
    (types.length === 1 && types[0] === 'null') || (Array.isArray(values) && values.length === 1 && values[0] === null)
  );
}

function typesOf(keywords: ExactObject): string[] {
  const types = Array.isArray(keywords.type) ? keywords.type : keywords.type === undefined ? [] : [keywords.type];
  return [...new Set(types.map((type) => (typeof type === 'string' ? type : '?')))];
}

function offersMore(keywords: ExactObject): boolean {
  const { additionalProperties: more, properties } = keywords;
  if (more === false) return 'patternProperties' in keywords;
  const isClosed = isObject(properties) && Object.keys(properties).length > 0 && more === undefined;
  return !isClosed || ['patternProperties', 'if', 'dependentSchemas', 'dependencies'].some((word) => word in keywords);
}

function prefixOf(keywords: ExactObject): Exact[] {
  const prefix = keywords.prefixItems ?? keywords.items;
  return Array.isArray(prefix) ? prefix : [];
}

function withConst({ const: only, ...keywords }: ExactObject): ExactObject {
  if (only === undefined) return keywords;
  const values = Array.isArray(keywords.enum) ? keywords.enum.filter((each) => sameJson(each, only)) : [only];
  return { ...keywords, enum: values };
}

/** Words for people: those of the place where a schema is used count before those of what it refers to. */
const WORDS = ['title', 'description', 'default', 'examples', 'deprecated', 'readOnly', 'writeOnly'];

function wordsOf(keywords: ExactObject): ExactObject {
  return Object.fromEntries(Object.entries(keywords).filter(([word]) => WORDS.includes(word)));
}

function withoutWords(flat: Flat): Flat {
  return {
    ...flat,
    keywords: Object.fromEntries(Object.entries(flat.keywords).filter(([word]) => !WORDS.includes(word))),
  };
}

function merge(one: Flat, other: Flat): Flat {
  const keywords: ExactObject = { ...other.keywords, ...one.keywords };
  let reason = one.reason ?? other.reason;
  for (const word of Object.keys(one.keywords)) {
    const [a, b] = [one.keywords[word], other.keywords[word]];
    if (a === undefined || b === undefined || sameJson(a, b)) continue;
    const both = combine(word, a, b);
    if (both === undefined) reason ??= 'contradiction';
    else keywords[word] = both;
  }
  if (Array.isArray(keywords.enum)) {
    const allowed = typesOf(keywords);
    keywords.enum = keywords.enum.filter((each) => allowed.length === 0 || allowed.some((type) => hasType(each, type)));
    if (keywords.enum.length === 0) reason ??= 'contradiction';
  }
  return { keywords, groups: [...one.groups, ...other.groups], reason };
}

/** Both values of a keyword at once; undefined if nothing fits both. */
function combine(word: string, a: Exact, b: Exact): Exact | undefined {
  if (word === 'type') {
    const types = intersectTypes([a].flat(), [b].flat());
    return types.length === 0 ? undefined : types.length === 1 ? types[0] : types;
  }
  if (word === 'enum' && Array.isArray(a) && Array.isArray(b)) {
    const values = a.filter((each) => b.some((that) => sameJson(each, that)));
    return values.length === 0 ? undefined : values;
  }
  if (word === 'required' && Array.isArray(a) && Array.isArray(b)) return [...new Set([...a, ...b])];
  if (['properties', 'patternProperties', '$defs', 'definitions'].includes(word) && isObject(a) && isObject(b)) {
    const keys = [...new Set([...Object.keys(b), ...Object.keys(a)])];
    return Object.fromEntries(keys.map((key) => [key, bothOf(own(a, key), own(b, key))]));
  }
  if (word === 'items' || word === 'additionalProperties')
    return a === false || b === false ? false : { allOf: [a, b] };
  if (word === 'prefixItems' && Array.isArray(a) && Array.isArray(b)) {
    return Array.from({ length: Math.max(a.length, b.length) }, (_, index) => bothOf(a[index], b[index]));
  }
  if (typeof a === 'number' && typeof b === 'number') {
    if (/^(min|exclusiveMin)/.test(word)) return Math.max(a, b);
    if (/^(max|exclusiveMax)/.test(word)) return Math.min(a, b);
  }
  return a;
}

function own(value: ExactObject, key: string): Exact | undefined {
  return Object.hasOwn(value, key) ? value[key] : undefined;
}

function bothOf(a: Exact | undefined, b: Exact | undefined): Exact {
  if (a === undefined || b === undefined) return a ?? b ?? true;
  return sameJson(a, b) ? a : { allOf: [a, b] };
}

function intersectTypes(one: Exact[], other: Exact[]): Exact[] {
  const fits = (type: Exact, types: Exact[]) =>
    types.includes(type) || (type === 'integer' && types.includes('number'));
  const narrow = [...one.filter((type) => fits(type, other)), ...other.filter((type) => fits(type, one))];
  return [...new Set(narrow)];
}

/** Whether a value has a type of JSON Schema. */
export function hasType(value: Exact, type: string): boolean {
  switch (type) {
    case 'null':
      return value === null;
    case 'boolean':
    case 'string':
      return typeof value === type;
    case 'integer':
      return typeof value === 'number' ? Number.isInteger(value) : isNumber(value) && /^-?\d+(\.0+)?$/.test(value.text);
    case 'number':
      return typeof value === 'number' || isNumber(value);
    case 'array':
      return Array.isArray(value);
    default:
      return isObject(value);
  }
}

function isNumber(value: Exact): value is Exclude<Exact, null | boolean | number | string | Exact[] | ExactObject> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !isObject(value);
}

function labelOf(schema: Exact, flat: Flat): string | null {
  const { title, enum: values, properties, required } = flat.keywords;
  if (typeof title === 'string' && title !== '') return title;
  if (Array.isArray(values) && values.length === 1) return null;
  for (const [name, each] of Object.entries(isObject(properties) ? properties : {})) {
    if (isObject(each) && typeof each.const === 'string') return `${name}: ${each.const}`;
    if (isObject(each) && Array.isArray(each.enum) && each.enum.length === 1 && typeof each.enum[0] === 'string')
      return `${name}: ${each.enum[0]}`;
  }
  if (isObject(schema) && typeof schema.$ref === 'string')
    return unescapePointer(schema.$ref.split('/').at(-1) ?? '') || null;
  const names = Object.keys(isObject(properties) ? properties : {});
  const shown =
    names.length > 0 ? names : Array.isArray(required) ? required.filter((each) => typeof each === 'string') : [];
  return shown.length > 0 ? shown.slice(0, 3).join(', ') : null;
}

function valueAt(value: Exact, pointer: string): Exact | undefined {
  let here: Exact | undefined = value;
  for (const part of pointer.split('/').slice(1).map(unescapePointer)) {
    if (Array.isArray(here)) here = here[Number(part)];
    else if (isObject(here)) here = own(here, part);
    else return undefined;
  }
  return here;
}

/** Schemas by `$id`, `$anchor` (as `#name`) and `$dynamicAnchor`. */
function namedSchemas(root: Exact): Map<string, Exact> {
  const names = new Map<string, Exact>();
  const visit = (value: Exact, depth: number): void => {
    if (depth > MAX_STEPS || typeof value !== 'object' || value === null) return;
    if (isObject(value)) {
      if (typeof value.$id === 'string') names.set(value.$id.replace(/#$/, ''), value);
      for (const anchor of [value.$anchor, value.$dynamicAnchor])
        if (typeof anchor === 'string') names.set(`#${anchor}`, value);
    }
    if (Array.isArray(value) || isObject(value)) for (const each of Object.values(value)) visit(each, depth + 1);
  };
  visit(root, 0);
  return names;
}
