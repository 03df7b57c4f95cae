/** Completions of the variables of a resource and of the arguments of a prompt. */

import type { Context } from './context.js';
import { badArguments } from './errors.js';
import { isObject } from './json.js';
import type { Call } from './wire/calls.js';

/**
 * What completes an argument, the best first: texts, or a function that returns them. A function that takes what was
 * `typed` chooses by itself what fits; of the others those count that begin with it. `given` are the other arguments.
 */
export type Completion =
  | readonly string[]
  | ((
      typed: string,
      given: Readonly<Record<string, string>>,
      ctx: Context,
    ) => readonly string[] | Promise<readonly string[]>);

/** Run the completion that a call asks for. */
export async function completed(completion: Completion, call: Call, ctx: Context): Promise<string[]> {
  const { typed, given = {} } = call.params;
  if (typeof typed !== 'string' || !isObject(given)) {
    throw badArguments([{ path: '/typed', reason: 'a completion has typed, a text, and given, an object' }]);
  }
  const chooses = typeof completion === 'function' && completion.length > 0;
  const texts =
    typeof completion === 'function' ? await completion(typed, given as Record<string, string>, ctx) : completion;
  if (!Array.isArray(texts) || !texts.every((each) => typeof each === 'string')) {
    throw new TypeError(`the completion of ${call.complete} returned something other than a list of texts`);
  }
  const start = typed.toLowerCase();
  return chooses ? texts : texts.filter((each) => each.toLowerCase().startsWith(start));
}
