"""Names whose values are secrets, in any spelling: `password`, `X-API-Key`, `dbPassWord`, `user_pin`."""

import re
import unicodedata
from functools import lru_cache

# Anywhere in a name whose letters and digits have been pushed together.
_ANYWHERE = re.compile(
    r"passw(?:or)?d|passphrase|passcode|passwort|kennwort|contrasena|motdepasse|senha"
    r"|secret|credential|authoriz|authoris|bearer|cookie|connectionstring|sessionid|sessid|jwt"
    r"|token(?!i[sz])"  # a tokenizer holds none
    r"|(?:api|app|access|account|activation|auth|client|deploy|encryption|hmac|license|master|pass|private|recovery"
    r"|service|session|shared|signing|ssh|storage|webhook)key"
    r"|(?:auth|mfa|otp|pin|recovery|security|verification)code|onetimecode|clientassertion|samlresponse"
    r"|seedphrase|mnemonic|creditcard|cardnumber"
)
# These are parts of harmless words too, so they must stand alone: `user_pin`, but not `pinned`.
_WORDS = frozenset({"auth", "cvc", "cvv", "otp", "pass", "pin", "pw", "pwd", "sid", "ssn", "totp"})
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_LONGEST = 256


def is_secret_name(name: str) -> bool:
    """Whether what goes by this name must not be shown; one that is too long to be looked at counts as such."""
    return len(name) > _LONGEST or _is_secret(name)


@lru_cache(maxsize=1024)
def _is_secret(name: str) -> bool:
    plain = _plain(name)
    joined = "".join(filter(str.isalnum, plain)).casefold()
    return bool(_ANYWHERE.search(joined)) or any(word.casefold() in _WORDS for word in _WORD.findall(plain))


def may_count(name: str) -> bool:
    """Whether a number by this name says how many there are: `max_tokens` is no secret."""
    return "".join(filter(str.isalnum, _plain(name))).casefold().endswith("tokens")


def _plain(name: str) -> str:
    """Without accents and other forms of the same letters."""
    return unicodedata.normalize("NFKD", name)
