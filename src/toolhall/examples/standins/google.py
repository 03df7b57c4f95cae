"""A stand-in for Google: accounts.google.com and gmail.googleapis.com in one, for one user."""

from urllib.parse import unquote

from toolhall.examples.standins import mailbox
from toolhall.examples.standins.authority import Authority
from toolhall.examples.standins.grants import Grants
from toolhall.examples.standins.messages import Reply, Request, in_json

READ_MAIL = "https://www.googleapis.com/auth/gmail.readonly"
_MESSAGES = "/gmail/v1/users/me/messages"


class Google:
    """`url` is its own address, and its name as an issuer."""

    def __init__(self, url: str, public_url: str | None = None, grants: Grants | None = None) -> None:
        self._grants = grants or Grants()
        self._authority = Authority(url, mailbox.USER, (READ_MAIL,), self._grants, public_url)

    def __call__(self, request: Request) -> Reply:
        """The answer to a request."""
        route = self._authority.routes.get((request.method, request.path))
        if route is not None:
            return route(request)
        if request.method == "GET" and f"{request.path}/".startswith(f"{_MESSAGES}/"):
            return self._mail(request)
        return _failed(404, "NOT_FOUND")

    def _mail(self, request: Request) -> Reply:
        if not self._grants.allows(request.bearer, READ_MAIL):
            return _failed(401, "UNAUTHENTICATED")
        if request.path == _MESSAGES:
            most = request.query.get("maxResults", "100")
            return in_json(mailbox.found(request.query.get("q", ""), int(most) if most.isdecimal() else 100))
        email = mailbox.message(unquote(request.path.removeprefix(f"{_MESSAGES}/")))
        return _failed(404, "NOT_FOUND") if email is None else in_json(email)


def _failed(code: int, status: str) -> Reply:
    return in_json({"error": {"code": code, "status": status}}, code)
