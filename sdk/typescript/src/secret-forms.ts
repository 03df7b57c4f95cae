/** The forms in which a secret may turn up in a text: the same as in Python, but for letters that nobody escapes. */

const SHORTEST_DISGUISED = 6; // a shorter one would be found where it is not
const LONGEST_SPELLED = 128; // letters; of more, no pattern is made
const NEVER_ESCAPED = /^[\w.~-]*$/;
const BASE64 = '[A-Za-z0-9+/_-]';
const SHORT: Record<string, string> = { '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't', '\v': 'v' };
const NAMED: Record<string, string> = { '&': 'amp', '<': 'lt', '>': 'gt', '"': 'quot', "'": 'apos' };

/** What to look for, one after the other: as it is or escaped, in base64, in hex; and each of its lines. */
export function formsOf(secret: string): (string | RegExp)[] {
  if (secret.length < SHORTEST_DISGUISED) return [secret, quoted(secret)];
  const bytes = Buffer.from(secret);
  const hex = bytes.toString('hex');
  // Whoever shows a text of several lines may set them apart, or show one alone.
  const lines = secret.split(/[\r\n]+/).map((line) => line.trim());
  const others = lines.filter((line) => line !== secret && line.length >= SHORTEST_DISGUISED);
  return [...spelled(secret), ...coresOf(bytes), hex, hex.toUpperCase(), ...others.flatMap(spelled)];
}

function spelled(text: string): (string | RegExp)[] {
  if (NEVER_ESCAPED.test(text)) return [text];
  if (text.length > LONGEST_SPELLED) return [text, quoted(text), encodeURIComponent(Buffer.from(text).toString())];
  const letters = [...text.replaceAll(/\\+/g, '\\')]; // escaping makes more backslashes of one
  return [new RegExp(letters.map((letter, index) => letterOf(letter, letters[index - 1])).join(''), 'g')];
}

/** No text can be read as the same letters in two ways: to try them all would take for ever. */
function letterOf(letter: string, before: string | undefined): string {
  if (NEVER_ESCAPED.test(letter)) return literal(letter);
  const code = letter.codePointAt(0) ?? 0;
  const slashes = before === '\\' ? '' : '\\\\{1,8}'; // that letter has taken them all
  const percent = [...Buffer.from(letter)].map((byte) => `%(?:25){0,3}${hexOf(byte, 2)}`).join('');
  const unicode = Array.from(letter.split(''), (unit) => `${slashes}u${hexOf(unit.charCodeAt(0), 4)}`).join('');
  const named = NAMED[letter] === undefined ? '' : `${NAMED[letter]}|`;
  const entity = `&(?:amp;){0,3}(?:${named}#0{0,6}${code}|#[xX]0{0,6}${hexOf(code, 1)});`;
  if (letter === '\\') return `(?:(?:${percent}){1,16}|${entity}|\\\\{1,32}(?!\\\\))`;
  const short = SHORT[letter] === undefined ? '' : `|${slashes}${SHORT[letter]}`;
  const plus = letter === ' ' ? '|\\+' : '';
  return `(?:${percent}|${entity}|${unicode}${short}${plus}|\\\\{0,8}${literal(letter)})`;
}

/** What base64 makes of it at each of the three alignments, with the letters that it shares with its neighbours. */
function coresOf(bytes: Buffer): (string | RegExp)[] {
  const cores = [0, 1, 2].flatMap((ahead) =>
    (['base64', 'base64url'] as const).map((alphabet) =>
      Buffer.concat([Buffer.alloc(ahead), bytes])
        .toString(alphabet)
        .slice(Math.ceil((8 * ahead) / 6), Math.floor((8 * (ahead + bytes.length)) / 6)),
    ),
  );
  return [...new Set(cores)].map((core) =>
    core.length > 2 * LONGEST_SPELLED
      ? core
      : new RegExp(`(?:(?<!\\\\)${BASE64})?${literal(core)}${BASE64}?={0,2}`, 'g'),
  );
}

const quoted = (text: string) => JSON.stringify(text).slice(1, -1);
const literal = (text: string) => text.replaceAll(/[\\^$.*+?()[\]{}|/-]/g, '\\$&');

/** In upper or lower case. */
function hexOf(code: number, digits: number): string {
  const written = code.toString(16).padStart(digits, '0');
  return written.replaceAll(/[a-f]/g, (digit) => `[${digit}${digit.toUpperCase()}]`);
}
