/** Letters of other scripts that most typefaces draw like a Latin one; the same table as model/names.py. */

const pairs = (letters: string, latin: string): [string, string][] =>
  [...letters].map((letter, index) => [letter, latin[index % latin.length] ?? '']);

export const LOOKALIKES: Record<string, string> = Object.fromEntries([
  ...pairs('авекмнорстухѕіјԛԝьгһԁӏ', 'abekmhopctyxsijqwbrhdl'),
  ...pairs('αβγεηικνορτυχωϲϳ', 'abyenikvoptuxwcj'),
  ...pairs('ɑɡıȷոսցօհӏᴏᴠᴡᴢⅼ', 'agijnugohlovwzl'),
  ...pairs('‐‑‒–—―−﹘﹣－', '-'),
  ...pairs('․·・｡。', '.'),
]);
