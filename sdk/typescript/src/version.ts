/** The version of a toolkit: semantic, so that a hall can tell which one is newer. */

const NUMBER = '(?:0|[1-9]\\d*)';
const MARK = '(?:0|[1-9]\\d*|\\d*[A-Za-z-][0-9A-Za-z-]*)';
const BUILD = '[0-9A-Za-z-]+';
// semver.org, 2.0.0
const SEMANTIC = new RegExp(
  `^${NUMBER}\\.${NUMBER}\\.${NUMBER}(?:-${MARK}(?:\\.${MARK})*)?(?:\\+${BUILD}(?:\\.${BUILD})*)?$`,
);

/** Throws for what is none, where the author wrote it. */
export function semantic(version: string, owner: string): string {
  if (typeof version === 'string' && SEMANTIC.test(version)) return version;
  const written = JSON.stringify(version);
  throw new TypeError(`${owner}: ${written} is not a semantic version: write three numbers such as '1.2.0'`);
}
