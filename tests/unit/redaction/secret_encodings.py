"""A secret in the forms that it may take, written by other means than it is looked for."""

import base64
import html
import json
import quopri
from collections.abc import Callable
from urllib.parse import quote

SECRET = "tk_canary9QwEr/R4nd0m+V4lu3"  # what the tools in tests/threats/leaky_tools.py use


def _lines(secret: str, end: str) -> str:
    """As mail and the command `base64` write it; their lines are longer, as secrets are."""
    text = base64.b64encode(secret.encode()).decode()
    return end.join(text[at : at + 9] for at in range(0, len(text), 9))


def _apart(text: str, blank: str, size: int) -> str:
    return blank.join(text[at : at + size] for at in range(0, len(text), size))


def _pairs(data: bytes) -> list[tuple[int, int]]:
    return list(zip(data[::2], data[1::2], strict=True))


FORMS: dict[str, Callable[[str], str]] = {
    "raw": str,
    "base64": lambda secret: base64.b64encode(secret.encode()).decode(),
    "base64url": lambda secret: base64.urlsafe_b64encode(secret.encode()).decode().rstrip("="),
    "hex": lambda secret: secret.encode().hex(),
    "hex in any case": lambda secret: "".join(
        letter.upper() if index % 3 else letter for index, letter in enumerate(secret.encode().hex())
    ),
    "hex apart": lambda secret: secret.encode().hex(":"),
    "percent": lambda secret: "".join(f"%{byte:02X}" for byte in secret.encode()),
    "json": lambda secret: "".join(f"\\u{high:02x}{low:02x}" for high, low in _pairs(secret.encode("utf-16-be"))),
    "html": lambda secret: "".join(f"&#{ord(letter)};" for letter in secret),
}
VARIANTS: dict[str, Callable[[str], str]] = {
    "base64 after one byte": lambda secret: base64.b64encode(b"x" + secret.encode() + b"yz").decode(),
    "base64 after two bytes": lambda secret: base64.b64encode(b"xy" + secret.encode() + b"z").decode(),
    "base64 in lines": lambda secret: _lines(secret, "\n"),
    "base64 in lines of another system": lambda secret: _lines(secret, "\r\n    "),
    "base64 in lines, in json": lambda secret: _lines(secret, "\\r\\n"),
    "base64 in lines, in json twice": lambda secret: _lines(secret, "\\\\n"),
    "base64url after one byte": lambda secret: base64.urlsafe_b64encode(b"?" + secret.encode()).decode(),
    "upper hex": lambda secret: secret.encode().hex().upper(),
    "reversed case": lambda secret: secret.encode().hex().swapcase(),
    "hex with blanks": lambda secret: secret.encode().hex(" "),
    "backslash x": lambda secret: "".join(f"\\x{byte:02x}" for byte in secret.encode()),
    "percent where needed": lambda secret: quote(secret, safe=""),
    "percent in part": lambda secret: secret[:3] + FORMS["percent"](secret[3]) + secret[4:],
    "percent twice": lambda secret: quote("".join(f"%{byte:02x}" for byte in secret.encode()), safe=""),
    "json where needed": json.dumps,
    "json twice": lambda secret: json.dumps(json.dumps(secret)),
    "json in part": lambda secret: secret[:3] + FORMS["json"](secret[3]) + secret[4:],
    "html where needed": html.escape,
    "html twice": lambda secret: html.escape(html.escape(secret)),
    "html in hex": lambda secret: "".join(f"&#x{ord(letter):X};" for letter in secret),
    "html in part": lambda secret: secret[:3] + f"&#0{ord(secret[3])};" + secret[4:],
    "html in json": lambda secret: json.dumps(html.escape(secret)),
    "percent in html": lambda secret: html.escape(quote(secret, safe="")),
    "html in zeros": lambda secret: "".join(f"&#x00{ord(letter):X};" for letter in secret),
    "upper case": str.upper,
    "lower case": str.lower,
    "swapped case": str.swapcase,
    "base64 with blanks": lambda secret: _apart(base64.b64encode(secret.encode()).decode(), " ", 4),
    "base64 with tabs and lines": lambda secret: _apart(base64.b64encode(secret.encode()).decode(), "\t\n ", 7),
    "base64 of utf-16-le": lambda secret: base64.b64encode(secret.encode("utf-16-le")).decode(),
    "base64 of utf-16-be": lambda secret: base64.b64encode(secret.encode("utf-16-be")).decode(),
    "base64 of utf-16 after a mark": lambda secret: base64.b64encode(secret.encode("utf-16")).decode(),
    "hex of utf-16-le": lambda secret: secret.encode("utf-16-le").hex(),
    "hex of utf-16-be": lambda secret: secret.encode("utf-16-be").hex(" "),
    "base32": lambda secret: base64.b32encode(secret.encode()).decode(),
    "base32 in groups": lambda secret: _apart(base64.b32encode(secret.encode()).decode().lower(), " ", 4),
    "bytes": lambda secret: str(list(secret.encode())),
    "bytes without blanks": lambda secret: json.dumps(list(secret.encode()), separators=(",", ":")),
    "bytes by index": lambda secret: json.dumps({str(at): byte for at, byte in enumerate(secret.encode())}),
    "signed bytes": lambda secret: str([byte - 256 if byte > 127 else byte for byte in secret.encode()]),
    "code points": lambda secret: str(list(map(ord, secret))),
    "bytes in hex": lambda secret: f"{{{', '.join(f'0x{byte:02x}' for byte in secret.encode())}}}",
    "bytes in bare hex": lambda secret: str([hex(byte).upper() for byte in secret.encode()]),
    "octal": lambda secret: "".join(f"\\{byte:03o}" for byte in secret.encode()),
    "octal in part": lambda secret: secret[:3] + "".join(f"\\{byte:03o}" for byte in secret[3].encode()) + secret[4:],
    "octal with a zero": lambda secret: "".join(f"\\0{byte:03o}" for byte in secret.encode()),
    "backslash U": lambda secret: "".join(f"\\U{ord(letter):08x}" for letter in secret),
    "backslash u in braces": lambda secret: "".join(f"\\u{{{ord(letter):x}}}" for letter in secret),
    "as python writes ascii": ascii,
    "as python writes bytes": lambda secret: repr(secret.encode()),
    "quoted-printable": lambda secret: "".join(f"={byte:02X}" for byte in secret.encode()),
    "quoted-printable where needed": lambda secret: quopri.encodestring(secret.encode(), quotetabs=True).decode(),
    "quoted-printable in lines": lambda secret: _apart(secret, "=\n", 5),
}
CASES = ("upper case", "lower case", "swapped case")  # of secrets that are long enough not to be a word
EVERY = FORMS | VARIANTS
