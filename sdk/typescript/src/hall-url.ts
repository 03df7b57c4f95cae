/** Where a hall takes messages; and only where nobody on the way can read the key and the secrets in them. */

/** Whether the hall's address ends with `/hub` or not. Throws for one that must not be spoken to, and says what to write. */
export function hubUrl(hall: string): URL {
  const url = URL.canParse(hall) ? new URL(hall) : null;
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw new TypeError("this is not the address of a hall; write it like 'http://127.0.0.1:8000'");
  }
  if (url.username || url.password || url.search || url.hash) {
    throw new TypeError('the address of a hall must hold no user name, password or query: it would end up in logs');
  }
  if (url.protocol === 'http:' && !isThisMachine(url.hostname)) {
    throw new TypeError(`${url.origin} would be sent secrets that others can read on the way; use https`);
  }
  url.pathname = url.pathname.replace(/(\/hub)?\/*$/, '/hub');
  return url;
}

/** As a URL writes it. Other names may lead here, too, but not on every machine. */
function isThisMachine(host: string): boolean {
  return host === 'localhost' || host === '[::1]' || /^127\.\d+\.\d+\.\d+$/.test(host);
}
