/** The type of a field in words, with its limits, as it stands beside the label. */

import type { Exact } from '../json/exact';
import { writeJson } from '../json/exact';
import { markHidden } from '../ui/hidden';
import { number } from '../words/format';
import { t } from '../words/messages';
import type { Shape } from './schema';
import '../words/en/form';

/** Such as "integer, 5 to 480" or "list of email, at most 50". */
export function typeInWords(shape: Shape): string {
  const nullable = shape.nullable ? [t('form.orNull')] : [];
  return [kindInWords(shape), ...limitsInWords(shape), ...nullable].join(', ');
}

function kindInWords(shape: Shape): string {
  const { kind, keywords } = shape;
  switch (kind) {
    case 'string':
      return typeof keywords.format === 'string' ? keywords.format.slice(0, 40) : t('form.string');
    case 'enum':
      return t('form.oneOf', { count: shape.options.length });
    case 'choice':
      return t('form.oneOfForms', { count: shape.alternatives.length });
    case 'array': {
      const item = shape.tuple === 0 ? shape.item(0) : null;
      if (shape.tuple > 0) return t('form.tuple', { count: shape.tuple });
      return item && item.kind !== 'any'
        ? t('form.listOf', { type: item.kind === 'array' ? t('form.list') : kindInWords(item) })
        : t('form.list');
    }
    default:
      return t(`form.${kind}`);
  }
}

function limitsInWords({ kind, keywords }: Shape): string[] {
  if (kind === 'string') return range(keywords.minLength, keywords.maxLength, 'form.characters');
  if (kind === 'array') return range(keywords.minItems, keywords.maxItems, 'form.itemsIn');
  if (kind === 'object') return range(keywords.minProperties, keywords.maxProperties, 'form.membersIn');
  if (kind !== 'number' && kind !== 'integer') return [];
  const bounds = range(keywords.minimum, keywords.maximum, null);
  const { exclusiveMinimum: above, exclusiveMaximum: below, multipleOf: step } = keywords;
  if (isNumber(above)) bounds.push(t('form.above', { least: written(above) }));
  if (isNumber(below)) bounds.push(t('form.below', { most: written(below) }));
  if (isNumber(step)) bounds.push(t('form.multiple', { step: written(step) }));
  return bounds;
}

function range(
  least: Exact | undefined,
  most: Exact | undefined,
  unit: 'form.characters' | 'form.itemsIn' | 'form.membersIn' | null,
): string[] {
  const [from, to] = [isNumber(least) && !(unit && least <= 0) ? least : null, isNumber(most) ? most : null];
  const of = (words: string, count: number) => (unit ? t(unit, { range: words, count }) : words);
  if (from !== null && to !== null && from !== to)
    return [of(t('form.between', { least: written(from), most: written(to) }), to)];
  if (from !== null && from === to) return [of(t('form.exactly', { count: written(from) }), from)];
  if (from !== null) return [of(t('form.least', { least: written(from) }), from)];
  return to === null ? [] : [of(t('form.most', { most: written(to) }), to)];
}

const isNumber = (value: Exact | undefined): value is number => typeof value === 'number';
const written = (value: number) => (Math.abs(value) < 1e15 && Number.isInteger(value) ? number(value) : String(value));

/** A value on one line, as it stands in a list of choices or a hint. */
export function valueInWords(value: Exact): string {
  const text = typeof value === 'string' && value !== '' ? value : writeJson(value);
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}

/** A text that a program wrote, where no elements can be: hidden characters as `<U+XXXX>`. */
export function markedText(text: string): string {
  return markHidden(text)
    .map((piece) => piece.text)
    .join('');
}
