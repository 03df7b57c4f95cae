/** A tool to try, and values to try it with: from its examples, else from its schema. */

import { signal } from '@preact/signals';
import { hall, segments } from '../../api/client';
import type { Json, JsonObject, ToolDetail, ToolPage, ToolSummary } from '../../api/types';

const MOST_REQUIRED = 3;
const FALLBACK = 'Calculator.Add';
/** So many tools are asked for, and shown by the first run. */
export const SHOWN = 12;
/** So many tools are looked at for one that is short. */
const LOOKED_AT = 6;

/** The first tool that is short: its definition says so. Null if there is none, undefined until that is known. */
export const sample = signal<ToolDetail | null | undefined>(undefined);

/** Look for the sample, unless there is one; definitions are read one by one. */
export async function findSample(tools?: readonly ToolSummary[]): Promise<void> {
  if (sample.value) return;
  const none = { tools: [] as ToolSummary[] };
  const among =
    tools ??
    (
      await hall
        .get<ToolPage>('api/tools', { query: { kind: 'tool', state: 'active', limit: SHOWN } })
        .catch(() => none)
    ).tools;
  for (const each of candidates(among).slice(0, LOOKED_AT)) {
    const detail = await hall.get<ToolDetail>(segments('api/tools', each.id)).catch(() => null);
    if (sample.value) return;
    if (detail && isShort(detail)) {
      sample.value = detail;
      return;
    }
  }
  sample.value = null;
}

/** The arguments of the sample, as the first run fills them in. */
export const sampleArguments = (detail: ToolDetail): JsonObject =>
  Object.fromEntries(sampleFields(detail).map((each) => [each.name, each.value]));

/** The tools to try, best first: those that only read, then the calculator of the examples, then any harmless one. */
export function candidates(tools: readonly ToolSummary[]): ToolSummary[] {
  const plain = tools.filter((each) => each.served && each.newest && !each.requirements.length);
  const reading = plain.filter((each) => each.effect === 'reads');
  const known = plain.filter((each) => `${each.toolkit}.${each.tool}` === FALLBACK);
  const low = plain.filter((each) => each.effect !== 'destroys' && each.effectiveLevel <= 3);
  return [...new Set([...reading, ...known, ...low])];
}

/** Whether a person can fill in its fields at a glance. */
export function isShort(detail: Pick<ToolDetail, 'inputSchema'>): boolean {
  const names = requiredOf(detail.inputSchema);
  return names.length <= MOST_REQUIRED && names.every((name) => isPlain(property(detail.inputSchema, name)));
}

export interface SampleField {
  name: string;
  type: 'string' | 'number' | 'integer' | 'boolean' | 'choice';
  choices: Json[];
  value: Json;
  description: string | null;
}

/** The required fields with their values; all plain ones of its example. */
export function sampleFields(detail: Pick<ToolDetail, 'inputSchema' | 'examples'>): SampleField[] {
  const example = exampleOf(detail.examples);
  const named = Object.keys(example).filter((name) => isPlain(property(detail.inputSchema, name)));
  const names = [...new Set([...requiredOf(detail.inputSchema), ...named])].slice(0, MOST_REQUIRED);
  return names.map((name, at) => {
    const schema = property(detail.inputSchema, name);
    const type = Array.isArray(schema.enum) ? 'choice' : (schema.type as SampleField['type']);
    return {
      name,
      type,
      choices: Array.isArray(schema.enum) ? schema.enum : [],
      value: example[name] ?? guess(schema, at),
      description: typeof schema.description === 'string' ? schema.description : null,
    };
  });
}

// An example is the arguments themselves, or a named one that holds them.
function exampleOf(examples: readonly JsonObject[] | undefined): JsonObject {
  const [first] = examples ?? [];
  if (!first) return {};
  for (const name of ['arguments', 'input']) if (isObject(first[name])) return first[name];
  return first;
}

function guess(schema: JsonObject, at: number): Json {
  if (schema.default !== undefined) return schema.default;
  if (Array.isArray(schema.examples) && schema.examples[0] !== undefined) return schema.examples[0];
  if (Array.isArray(schema.enum) && schema.enum[0] !== undefined) return schema.enum[0];
  if (schema.type === 'boolean') return false;
  if (schema.type === 'string') return schema.format === 'date' ? new Date().toISOString().slice(0, 10) : '';
  const wished = at === 0 ? 40 : 2;
  const least = typeof schema.minimum === 'number' ? schema.minimum : -Infinity;
  const most = typeof schema.maximum === 'number' ? schema.maximum : Infinity;
  return Math.min(most, Math.max(least, wished));
}

function requiredOf(schema: JsonObject): string[] {
  return Array.isArray(schema.required)
    ? schema.required.filter((each): each is string => typeof each === 'string')
    : [];
}

function property(schema: JsonObject, name: string): JsonObject {
  const found = isObject(schema.properties) ? schema.properties[name] : undefined;
  return isObject(found) ? found : {};
}

const PLAIN = ['string', 'number', 'integer', 'boolean'];
const isPlain = (schema: JsonObject): boolean => Array.isArray(schema.enum) || PLAIN.includes(String(schema.type));
const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The text of a field as the value of its type; undefined for a field that is left empty and not a text. */
export function readField(field: Pick<SampleField, 'type' | 'choices'>, text: string): Json | undefined {
  if (field.type === 'choice') return field.choices.find((each) => JSON.stringify(each) === text);
  if (field.type === 'boolean') return text === 'true';
  if (field.type === 'string') return text;
  // What is no number goes to the hall as it is, which says what is wrong with it.
  return text.trim() === '' ? undefined : Number.isFinite(Number(text)) ? Number(text) : text;
}
