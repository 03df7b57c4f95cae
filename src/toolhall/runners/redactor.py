"""Takes the secrets of one call out of everything that it says: exact values, in every form that they may have."""

import msgspec

from toolhall.model.json import Json, encode
from toolhall.model.secret import Secret
from toolhall.model.secret_shapes import HIDDEN
from toolhall.runners.disguises import Disguises


class Redactor:
    """Knows the secrets that this call uses, and counts how often it hid one."""

    __slots__ = ("_secrets", "count", "lent", "tail")

    def __init__(self, secrets: tuple[Secret, ...], credential: Secret | None = None) -> None:
        self._secrets = [
            secret.known(Disguises) for secret in (secrets if credential is None else (credential, *secrets))
        ]
        self.lent = secrets  # what the tool is given, without the caller's own credential
        self.tail = ""  # the end of what `next` has seen
        self.count = 0

    def text(self, text: str) -> str:
        """The text without them."""
        data = _bytes(text)
        for secret in self._secrets:
            if secret.holds(data):
                text = self._hidden(text, secret.spans(text))
                data = _bytes(text)
        return text

    def data(self, data: bytes) -> bytes:
        """Bytes that are no text, or may be none."""
        if not self.finds(data):
            return data
        return self.text(data.decode(errors="surrogateescape")).encode(errors="surrogateescape")

    def json(self, encoded: bytes) -> bytes:
        """The same JSON without them; byte for byte the same where there are none."""
        return encode(self.value(msgspec.json.decode(encoded))) if self.finds(encoded) else encoded

    def value(self, value: Json) -> Json:
        """The value without them: in texts, keys and numbers."""
        match value:
            case str():
                return self.text(value)
            case dict():
                return {self.text(key): self.value(part) for key, part in value.items()}
            case list():
                return [self.value(part) for part in value]
            case bool() | None:
                return value
            case _:
                written = str(value)
                return value if self.text(written) == written else HIDDEN

    def finds(self, data: bytes) -> bool:
        """Whether any of them is in it."""
        return any([secret.holds(data) for secret in self._secrets])  # noqa: C419 - a generator costs more than a miss

    def next(self, text: str) -> str:
        """The next piece of a text that comes in pieces: a secret that is cut in two, wherever, is hidden in both.

        Nothing is held back: an end that may become a secret is hidden at once, and so is what goes on with it.
        """
        before, whole = len(self.tail), self.tail + text
        data, spans = _bytes(whole), list[tuple[int, int]]()
        for secret in self._secrets:
            if secret.holds(data):
                spans += secret.spans(whole)
            begun = secret.begun(whole)
            if begun:
                spans.append((len(whole) - begun, len(whole)))
        self.tail = whole[-max(secret.reach for secret in self._secrets) :]
        return self._hidden(whole, [(max(start, before), end) for start, end in spans if end > before])[before:]

    def _hidden(self, text: str, spans: list[tuple[int, int]]) -> str:
        parts, at = [], 0
        for start, end in sorted(spans):
            if end > at:
                if start >= at:
                    self.count += 1
                    parts += [text[at:start], HIDDEN]
                at = end
        return "".join([*parts, text[at:]])


def redactor_for(credential: Secret | None, secrets: tuple[Secret, ...] = ()) -> Redactor | None:
    """What hides them, and the caller's own credential; nothing, for a call without any."""
    return Redactor(secrets, credential) if secrets or credential is not None else None


def _bytes(text: str) -> bytes:
    return text.encode() if text.isascii() else text.encode(errors="surrogatepass")
