/** Words from elsewhere, as they may be shown in a terminal or a log: in one line, without codes that would do something there. */
export function plain(words: string): string {
  return words.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ');
}
