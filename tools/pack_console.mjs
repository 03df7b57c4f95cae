// Packs what Vite built for the Python package: node tools/pack_console.mjs console/dist src/toolhall/console
//
// Everything but index.html goes below -/DIGEST/, where the digest is that of the content, so that browsers may keep it forever. Texts are
// there as .gz, and as .br as far as the wheel has room: first what every visit loads, then what gains most. Fonts are compressed already.
// src/toolhall/web/static_files.py serves them.

import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, extname, join } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';

const [from, to] = process.argv.slice(2);
const PACKED_ALREADY = new Set(['.woff2', '.png', '.ico', '.webp']);
const SHELL = 'index.html';
const MAX_BYTES = 245_000; // of all files: the wheel may grow by 250 kB, with the heads of its entries
// What the policy of the console forbids, and what would not work below a path: better here than in a browser.
const FORBIDDEN = [
  [/<script(?![^>]*\bsrc=)/i, 'an inline script'],
  [/<style|\sstyle=/i, 'an inline style'],
  [/\son\w+=/i, 'an inline handler'],
  [/\b(?:src|href)="(?:\/|[a-z]+:)/i, 'an address that is not relative'],
];

const names = readdirSync(from, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => join(entry.parentPath, entry.name).slice(join(from, '/').length))
  .sort();
const read = (name) => readFileSync(join(from, name));
const assets = names.filter((name) => name !== SHELL);
const hash = createHash('sha256');
for (const name of assets) hash.update(`${name}\0`).update(createHash('sha256').update(read(name)).digest());
const digest = hash.digest('hex').slice(0, 16);

const packed = []; // [path, content]
const brotli = []; // {path, content, gain}: the same texts, and how many bytes each saves
const pack = (path, content) => {
  if (PACKED_ALREADY.has(extname(path))) {
    packed.push([path, content]);
    return;
  }
  const params = { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: content.length };
  const gzip = gzipSync(content, { level: 9 });
  const smaller = brotliCompressSync(content, { params });
  packed.push([`${path}.gz`, gzip]);
  brotli.push({ path: `${path}.br`, content: smaller, gain: gzip.length - smaller.length });
};

const shell = read(SHELL).toString().replaceAll(/\b(src|href)="\.\/(?=[^"])/g, `$1="./-/${digest}/`);
for (const [pattern, what] of FORBIDDEN) {
  if (pattern.test(shell)) throw new Error(`${SHELL} has ${what}, which the policy of the console forbids`);
}
for (const name of assets) pack(`-/${digest}/${name}`, read(name));
pack(SHELL, Buffer.from(shell)); // last: it tells that the rest is there

let room = MAX_BYTES - packed.reduce((sum, [, content]) => sum + content.length, 0);
if (room < 0) throw new Error(`the console is ${MAX_BYTES - room} bytes, and the wheel has room for ${MAX_BYTES}`);
const isFirst = ({ path }) => path.startsWith(SHELL) || shell.includes(path.slice(0, -'.br'.length));
brotli.sort((one, other) => isFirst(other) - isFirst(one) || other.gain - one.gain);
const kept = brotli.filter(({ content }) => {
  const fits = content.length <= room;
  if (fits) room -= content.length;
  return fits;
});
rmSync(to, { recursive: true, force: true });
for (const [path, content] of [...kept.map((each) => [each.path, each.content]), ...packed]) {
  mkdirSync(dirname(join(to, path)), { recursive: true });
  writeFileSync(join(to, path), content);
}
