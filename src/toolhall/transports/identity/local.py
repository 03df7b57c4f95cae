"""The `local` profile: whoever is on this machine needs no credential, and one that is brought counts."""

from toolhall.model.caller import LOCAL, Caller
from toolhall.transports.asgi import Headers, Scope
from toolhall.transports.identity.addresses import FORWARDED, USUAL, address_of, is_here, nobody
from toolhall.transports.identity.base import Proven
from toolhall.transports.identity.gate import Gate
from toolhall.transports.identity.sent import AUTHORIZATION, OXP_KEY, OXP_PATHS, credential, is_key, names_key


class LocalIdentity:
    """Whoever connects from this machine is its user, unless it says with a key that it is somebody else."""

    def __init__(self, gate: Gate | None = None) -> None:
        self._gate = gate
        self._takes_tokens = gate is not None and gate.takes_tokens

    def caller(self, scope: Scope, headers: Headers) -> Proven:
        """By the credential, else local by address; a Unix socket has none and is local too.

        What a proxy forwards is nobody's.
        """
        client = scope.get("client")
        if client is not None and client[0] == USUAL and FORWARDED.isdisjoint(headers):
            found = LOCAL  # as most are
        else:
            found = _by_address(scope, headers)
        if self._gate is None or not (AUTHORIZATION in headers or OXP_KEY in headers):
            return found
        path = scope["path"]
        # OXP 1.0: where no credential is needed, it is ignored. Elsewhere too, unless somebody could have issued it:
        # many clients cannot be told to send none.
        if found.local and not names_key(headers) and (not self._takes_tokens or path.startswith(OXP_PATHS)):
            return found
        sent = credential(headers, path)
        return found if sent is None else self._gate.prove(sent, scope)

    def speaker(self, token: str | None, caller: Caller, scope: Scope, headers: Headers) -> Proven:
        """Who sends a message that may bring a token; to whom the connection proves local, only a key adds to that."""
        if token is None or self._gate is None or (caller.local and not is_key(token)):
            return caller
        return self._gate.prove_again(token, scope, headers) or caller


def _by_address(scope: Scope, headers: Headers) -> Caller:
    return LOCAL if is_here(address_of(scope)) and FORWARDED.isdisjoint(headers) else nobody(scope)
