/** Prompts as an author writes them: the messages with which a person starts a conversation. */

import { type Definition, declaredAs, type Options } from './beside-tools.js';
import type { Completion } from './completion.js';
import type { Content } from './content.js';
import type { Context } from './context.js';
import type { Message } from './message.js';
import { jsonSchemaOf, type Schema, type Taken, taken } from './schema.js';
import { PROMPT_KEY, readPromptKey } from './wire/kinds.js';

type Arguments<I> = I extends Schema ? Taken<I> : Record<never, never>;

export interface PromptOptions<I extends Schema | undefined> extends Omit<Options<string>, 'name'> {
  /** Its arguments. Clients send texts; what is no text by its schema is read from it. */
  input?: I;
  /** What completes each argument. */
  complete?: { readonly [Argument in keyof Arguments<I>]?: Completion };
}

/** What a prompt says: text, a block or a message, or several of these; the user says what is no message. */
export type Said = string | Content | Message | readonly (string | Content | Message)[];

export function prompt<const Name extends string, const I extends Schema | undefined = undefined>(
  name: Name,
  options: PromptOptions<I>,
  write: (args: Arguments<I>, ctx: Context) => Said | Promise<Said>,
): Definition<Name> {
  const { input, complete = {} } = options;
  const completes = Object.keys(complete);
  return declaredAs('prompt', { ...options, name }, write, () => {
    const params = input === undefined ? { type: 'object', properties: {} } : jsonSchemaOf(input, 'input');
    const info = completes.length > 0 ? { completes } : {};
    readPromptKey({ [PROMPT_KEY]: info }, params);
    return {
      input: params,
      resource: null,
      prompt: info,
      completions: complete as Record<string, Completion>,
      run: async (call, ctx) =>
        await write((input === undefined ? {} : await taken(input, call.params)) as Arguments<I>, ctx),
    };
  });
}
