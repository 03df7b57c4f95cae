/** `SchemaForm`: the fields of a schema, each with its type, limits, description, and the problems that belong to it. */

import { createContext } from 'preact';
import { useContext, useMemo, useState } from 'preact/hooks';
import type { Problem } from '../api/types';
import { escapePointer } from '../json/exact';
import { Icon } from '../ui/icon';
import { Marks } from '../ui/marks';
import { t } from '../words/messages';
import {
  BooleanControl,
  type ControlProps,
  EnumControl,
  JsonControl,
  jsonText,
  NumberControl,
  SuggestControl,
  TextControl,
} from './controls';
import { drawnFields, placeProblems } from './places';
import { anyShape, type Shape } from './schema';
import {
  ABSENT,
  chosen,
  filledObject,
  fits,
  formValue,
  initialItem,
  initialState,
  listItem,
  memberOf,
  memberShape,
  type State,
  stateOf,
  withMember,
} from './state';
import { markedText, typeInWords, valueInWords } from './words';
import '../words/en/form';

interface FormProps {
  /** Begins the ids of all fields. */
  id: string;
  shape: Shape;
  state: State;
  onChange: (state: State) => void;
  problems?: readonly Problem[];
  /** Completions of members of the whole, by name. */
  suggest?: Suggest | undefined;
}

/** Which members have completions, and what completes them. */
export interface Suggest {
  names: readonly string[];
  values: (name: string, typed: string) => Promise<string[]>;
}

interface FormParts {
  id: string;
  suggest?: Suggest | undefined;
  problems: ReadonlyMap<string, Problem[]>;
}

const Parts = createContext<FormParts>({ id: '', problems: new Map() });
const NO_PROBLEMS: readonly Problem[] = [];

/** The fields of a schema. */
export function SchemaForm({ id, shape, state, onChange, problems = NO_PROBLEMS, suggest }: FormProps) {
  const placed = useMemo(() => placeProblems(problems, drawnFields(shape, state)), [problems, shape, state]);
  const parts = useMemo(() => ({ id, problems: placed, suggest }), [id, placed, suggest]);
  const isPlain = shape.kind === 'object' && (state.is === 'object' || state.is === 'absent');
  return (
    <Parts.Provider value={parts}>
      <div class="schema-form">
        {isPlain ? (
          <>
            <Problems path="" />
            <Members path="" shape={shape} state={state} onChange={onChange} />
          </>
        ) : (
          <Field path="" name={t('form.arguments')} required shape={shape} state={state} onChange={onChange} />
        )}
      </div>
    </Parts.Provider>
  );
}

/** The id of the element that holds the field of a pointer. */
export function fieldId(form: string, path: string): string {
  return form + path.replace(/[^\w-]/g, (character) => `_${character.charCodeAt(0).toString(16)}.`);
}

interface FieldProps {
  path: string;
  name: string;
  required: boolean;
  shape: Shape;
  state: State;
  onChange: (state: State) => void;
  /** An item of a list is always sent: a text that is not filled in is empty. */
  inList?: boolean;
  /** Takes it out of its list or map. */
  onRemove?: () => void;
}

function Field(props: FieldProps) {
  const { path, name, required, shape, state, onChange, onRemove } = props;
  const { id: form, problems, suggest } = useContext(Parts);
  const id = fieldId(form, path);
  const { description, title } = shape.keywords;
  const hints = [`${id}-hint`, ...(problems.has(path) ? [`${id}-wrong`] : [])];
  const control: ControlProps = {
    id,
    shape,
    state,
    onChange,
    label: markedText(name),
    describedBy: hints.join(' '),
    invalid: problems.has(path),
  };
  if (suggest?.names.includes(name) && path === `/${escapePointer(name)}`)
    control.suggest = (typed) => suggest.values(name, typed);
  const isGroup =
    state.is === 'object' || state.is === 'list' || state.is === 'choice' || (state.is === 'absent' && isNested(shape));
  const isChoice = !isGroup && state.is !== 'json' && (shape.kind === 'boolean' || shape.kind === 'enum');
  const label = (
    <>
      <Marks text={name} cut={80} />
      <span class="type">
        <Marks text={typeInWords(shape)} />
      </span>
      {required && <span class="type must">{t('shared.required')}</span>}
      {shape.keywords.deprecated === true && <span class="type">{t('form.deprecated')}</span>}
    </>
  );
  return (
    <div
      class={isGroup ? 'field group' : 'field'}
      {...(isGroup ? { role: 'group', 'aria-labelledby': `${id}-label` } : {})}
    >
      <div class="label">
        {isGroup || isChoice ? (
          <span class="row" id={`${id}-label`} tabIndex={isGroup ? -1 : undefined}>
            {label}
          </span>
        ) : (
          <label class="row" for={id}>
            {label}
          </label>
        )}
        <span class="row push">
          <Toggles {...props} />
          {onRemove && (
            <button
              type="button"
              class="button bare low"
              aria-label={t('form.removeNamed', { name: control.label })}
              onClick={onRemove}
            >
              <Icon name="cross" />
            </button>
          )}
        </span>
      </div>
      <span class="hint" id={`${id}-hint`}>
        {typeof title === 'string' && title !== name && <Marks text={title} cut={300} />}
        {typeof title === 'string' && title !== name && '. '}
        {typeof description === 'string' && <Marks text={description} cut={1000} />}
        <Default shape={shape} state={state} />
        {shape.unseen.length > 0 && ` ${t('form.unseen', { words: shape.unseen.join(', ') })}`}
      </span>
      {isGroup ? <Nested {...props} /> : <Control {...control} />}
      <Problems path={path} />
    </div>
  );
}

const isNested = (shape: Shape) => shape.kind === 'object' || shape.kind === 'array' || shape.kind === 'choice';

function Control(props: ControlProps) {
  const { shape, state } = props;
  if (state.is === 'json') return <JsonControl {...props} text={state.text} />;
  if (state.is === 'value' && state.value === null && shape.kind !== 'string') return <code class="null">null</code>;
  if (props.suggest && ['string', 'number', 'integer'].includes(shape.kind))
    return <SuggestControl {...props} suggest={props.suggest} />;
  switch (shape.kind) {
    case 'string':
      return <TextControl {...props} />;
    case 'number':
    case 'integer':
      return <NumberControl {...props} />;
    case 'boolean':
      return <BooleanControl {...props} />;
    case 'enum':
      return <EnumControl {...props} />;
    case 'null':
      return <code class="null">{state.is === 'absent' ? t('form.notSent') : 'null'}</code>;
    default:
      return <JsonControl {...props} text={jsonText(formValue(state))} />;
  }
}

/** What the hall says about a field. */
function Problems({ path }: { path: string }) {
  const { id, problems } = useContext(Parts);
  const own = problems.get(path);
  if (!own) return null;
  return (
    <div class="wrong" id={`${fieldId(id, path)}-wrong`} data-problem-at={path}>
      {own.map((problem, index) => (
        <p key={index}>
          <Icon name="warning" />
          <span>
            {problem.path !== path && <code>{problem.path} </code>}
            <Marks text={problem.message} cut={500} />
          </span>
        </p>
      ))}
    </div>
  );
}

function Default({ shape, state }: { shape: Shape; state: State }) {
  const { default: preset } = shape.keywords;
  const { pattern, examples } = shape.keywords;
  const example = Array.isArray(examples) ? examples[0] : undefined;
  return (
    <>
      {preset !== undefined && state.is === 'absent' && (
        <> {t('form.default', { value: markedText(valueInWords(preset)) })}</>
      )}
      {typeof pattern === 'string' && (
        <>
          {' '}
          {t('form.pattern')} <code>{markedText(pattern.slice(0, 200))}</code>
        </>
      )}
      {example !== undefined && state.is === 'absent' && (
        <> {t('form.example', { value: markedText(valueInWords(example)) })}</>
      )}
    </>
  );
}

/** Null, empty and not sent: what no keyboard can type. */
function Toggles({ name, required, inList, shape, state, onChange }: FieldProps) {
  const isNull = state.is === 'value' && state.value === null;
  const isEmpty = state.is === 'value' && state.value === '';
  const offersEmpty =
    !inList &&
    shape.kind === 'string' &&
    (state.is === 'absent' || isEmpty) &&
    !(Number(shape.keywords.minLength ?? 0) > 0);
  const canClear =
    !required &&
    state.is !== 'absent' &&
    !isNull &&
    !isEmpty &&
    shape.kind !== 'string' &&
    shape.kind !== 'any' &&
    shape.kind !== 'number' &&
    shape.kind !== 'integer';
  const label = markedText(name);
  const toggle = (word: 'null' | 'empty', on: boolean, value: null | '') => (
    <button
      type="button"
      class="toggle"
      aria-pressed={on}
      aria-label={t(word === 'null' ? 'form.sendNull' : 'form.sendEmpty', { name: label })}
      onClick={() => onChange(on ? ABSENT : { is: 'value', value })}
    >
      {word === 'null' ? <code>null</code> : t('form.empty')}
    </button>
  );
  return (
    <>
      {offersEmpty && (!required || isEmpty || shape.nullable) && toggle('empty', isEmpty, '')}
      {shape.nullable && toggle('null', isNull, null)}
      {canClear && (
        <button
          type="button"
          class="toggle"
          aria-label={t('form.clearNamed', { name: label })}
          onClick={() => onChange(ABSENT)}
        >
          {t('form.clear')}
        </button>
      )}
    </>
  );
}

// --- what holds other fields ------------------------------------------------------------------------------------------

function Nested(props: FieldProps) {
  const { path, name, shape, state, onChange } = props;
  if (state.is === 'absent') {
    const label = markedText(name);
    return (
      <div class="row">
        <button
          type="button"
          class="button low"
          aria-label={t('form.addNamed', { name: label })}
          onClick={() => onChange(begun(shape))}
        >
          <Icon name="plus" />
          {t('form.add')}
        </button>
        {shape.kind === 'array' && (
          <button
            type="button"
            class="toggle"
            aria-label={t('form.sendEmptyList', { name: label })}
            onClick={() => onChange({ is: 'list', items: [] })}
          >
            {t('form.empty')}
          </button>
        )}
      </div>
    );
  }
  return (
    <div class="nest">
      {state.is === 'choice' && <Choice {...props} state={state} />}
      {state.is === 'list' && <Items {...props} state={state} />}
      {state.is === 'object' && <Members path={path} shape={shape} state={state} onChange={onChange} />}
    </div>
  );
}

function begun(shape: Shape): State {
  if (shape.kind === 'object') return filledObject(shape);
  if (shape.kind === 'choice') return chosen(shape, 0);
  const items = Array.from({ length: Math.max(1, Math.min(shape.tuple, 20)) }, (_, index) =>
    listItem(initialItem(shape, index)),
  );
  return { is: 'list', items };
}

function Choice({ path, name, shape, state, onChange }: FieldProps & { state: State & { is: 'choice' } }) {
  const { id } = useContext(Parts);
  const alternative = shape.alternatives[state.option];
  const choose = (option: number) => {
    const next = shape.alternatives[option];
    const value = formValue(state.state);
    onChange(
      next && value !== undefined && fits(next.shape, value)
        ? { is: 'choice', option, state: stateOf(next.shape, value) }
        : chosen(shape, option),
    );
  };
  return (
    <>
      <select
        id={fieldId(id, path)}
        aria-label={t('form.formOf', { name: markedText(name) })}
        value={String(state.option)}
        onChange={(event) => choose(Number(event.currentTarget.value))}
      >
        {shape.alternatives.map((each, index) => (
          <option key={index} value={String(index)}>
            {each.label === null ? typeInWords(each.shape) : markedText(each.label.slice(0, 120))}
          </option>
        ))}
      </select>
      {alternative && (
        <Inner
          path={path}
          name={name}
          shape={alternative.shape}
          state={state.state}
          onChange={(inner) => onChange({ is: 'choice', option: state.option, state: inner })}
        />
      )}
    </>
  );
}

/** What an alternative holds, without a label of its own: it has the one of its choice. */
function Inner({ path, name, shape, state, onChange }: Omit<FieldProps, 'required'>) {
  const { id: form, problems } = useContext(Parts);
  if (shape.kind === 'object' && (state.is === 'object' || state.is === 'absent')) {
    return <Members path={path} shape={shape} state={state} onChange={onChange} />;
  }
  if (isNested(shape) && state.is !== 'json' && state.is !== 'value') {
    return <Nested path={path} name={name} required={false} shape={shape} state={state} onChange={onChange} />;
  }
  const label = t('form.valueOf', { name: markedText(name) });
  const id = `${fieldId(form, path)}-value`;
  return (
    <>
      <label class="sr" for={id}>
        {label}
      </label>
      <Control
        id={id}
        shape={shape}
        state={state}
        onChange={onChange}
        label={label}
        describedBy={undefined}
        invalid={problems.has(path)}
      />
    </>
  );
}

function Items({ path, name, shape, state, onChange }: FieldProps & { state: State & { is: 'list' } }) {
  const { items } = state;
  const next = shape.item(items.length);
  const set = (key: number, item: State) =>
    onChange({ is: 'list', items: items.map((each) => (each.key === key ? { key, state: item } : each)) });
  return (
    <>
      {items.length === 0 && <span class="hint">{t('form.emptyList')}</span>}
      {items.map((item, index) => (
        <Field
          key={item.key}
          path={`${path}/${index}`}
          name={`${name} ${index + 1}`}
          required={false}
          shape={shape.item(index) ?? anyShape({}, 'contradiction')}
          state={item.state}
          inList
          onChange={(changed) => set(item.key, sentItem(shape.item(index), changed))}
          onRemove={() => onChange({ is: 'list', items: items.filter(({ key }) => key !== item.key) })}
        />
      ))}
      {next && (
        <button
          type="button"
          class="button low start"
          aria-label={t('form.addItemTo', { name: markedText(name) })}
          onClick={() => onChange({ is: 'list', items: [...items, listItem(initialItem(shape, items.length))] })}
        >
          <Icon name="plus" />
          {t('form.addItem')}
        </button>
      )}
    </>
  );
}

function sentItem(shape: Shape | null, state: State): State {
  return state.is === 'absent' && shape?.kind === 'string' ? { is: 'value', value: '' } : state;
}

interface MembersProps {
  path: string;
  shape: Shape;
  state: State;
  onChange: (state: State) => void;
}

function Members({ path, shape, state, onChange }: MembersProps) {
  const declared = new Set(shape.members.map((member) => member.name));
  const others = state.is === 'object' ? state.members.filter(([name]) => !declared.has(name)) : [];
  const at = (name: string) => `${path}/${escapePointer(name)}`;
  return (
    <>
      {shape.members.length === 0 && others.length === 0 && !shape.offersMore && (
        <span class="hint">{t('form.noMembers')}</span>
      )}
      {shape.members.map((member) => (
        <Field
          key={member.name}
          path={at(member.name)}
          name={member.name}
          required={member.required}
          shape={member.shape}
          state={memberOf(state, member.name)}
          onChange={(changed) => onChange(withMember(state, member.name, changed))}
        />
      ))}
      {others.map(([name, member]) => (
        <Field
          key={`other ${name}`}
          path={at(name)}
          name={name}
          required={false}
          shape={memberShape(shape, name)}
          state={member}
          onChange={(changed) => onChange(replaceMember(state, name, changed))}
          onRemove={() => onChange(withMember(state, name, ABSENT))}
        />
      ))}
      {shape.offersMore && <AddMember path={path} shape={shape} state={state} onChange={onChange} />}
    </>
  );
}

// A member that the schema does not name stays in sight while it is empty, so it is not taken out.
function replaceMember(state: State, name: string, member: State): State {
  if (member.is !== 'absent' || state.is !== 'object') return withMember(state, name, member);
  return { is: 'object', members: state.members.map((each) => (each[0] === name ? [name, ABSENT] : each)) };
}

function AddMember({ path, shape, state, onChange }: MembersProps) {
  const { id } = useContext(Parts);
  const [name, setName] = useState('');
  const rest = shape.rest();
  const taken = memberOf(state, name).is !== 'absent' || shape.members.some((member) => member.name === name);
  if (!rest) return null;
  const add = () => {
    if (taken || name === '') return;
    const members = state.is === 'object' ? state.members : [];
    onChange({ is: 'object', members: [...members, [name, initialState(rest, true)]] });
    setName('');
  };
  const field = `${fieldId(id, path)}-new`;
  return (
    <div class="row add-member">
      <label class="sr" for={field}>
        {t('form.newMember')}
      </label>
      <input
        id={field}
        value={name}
        placeholder={t('form.newMember')}
        autocomplete="off"
        aria-invalid={taken}
        onInput={(event) => setName(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== 'Enter' || event.ctrlKey || event.metaKey) return;
          event.preventDefault();
          add();
        }}
      />
      <button type="button" class="button low" disabled={taken || name === ''} onClick={add}>
        <Icon name="plus" />
        {t('form.addMember')}
      </button>
    </div>
  );
}
