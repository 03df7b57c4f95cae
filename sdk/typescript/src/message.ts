/** What a prompt says: messages, each of somebody and with one block. */

import { type Content, text } from './content.js';
import type { Role } from './wire/endings.js';

export class Message {
  private constructor(
    readonly role: Role,
    readonly content: Content,
  ) {}

  /** What the user says. */
  static user(said: string | Content): Message {
    return new Message('user', typeof said === 'string' ? text(said) : said);
  }

  /** What the model says. */
  static assistant(said: string | Content): Message {
    return new Message('assistant', typeof said === 'string' ? text(said) : said);
  }
}
