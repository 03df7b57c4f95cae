"""The environment variables that a worker process may see: none that could hold a secret."""

from collections.abc import Mapping

# Enough to run Python and to find programs, files, time zones and certificates.
_PROGRAMS = ("PATH", "VIRTUAL_ENV", "HOME", "USER", "LOGNAME", "TMPDIR", "TMP", "TEMP")
_PLACES = ("LANG", "LANGUAGE", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR")
_ALLOWED = frozenset((*_PROGRAMS, *_PLACES))


def surroundings(environment: Mapping[str, str], also: tuple[str, ...] = ()) -> dict[str, str]:
    """What of this environment is passed on; `also` names more."""
    return {
        name: value for name, value in environment.items() if name in _ALLOWED or name in also or name.startswith("LC_")
    }
