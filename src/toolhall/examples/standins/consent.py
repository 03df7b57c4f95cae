"""The page on which the user of the stand-in says yes or no."""

from html import escape
from urllib.parse import urlsplit

from toolhall.examples.standins.messages import Reply

_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>Stand-in for Google</title>
<style>
body { font: 1rem/1.5 system-ui, sans-serif; margin: 3rem auto; max-width: 36rem; padding: 0 1rem }
button { font: inherit; margin-right: .5rem; padding: .5rem 1.5rem }
code { overflow-wrap: anywhere }
</style>
</head>
<body>
<main>
<h1>Stand-in for Google</h1>
"""
_TAIL = "</main>\n</body>\n</html>\n"


def consent(ticket: str, user: str, scope: str, redirect_uri: str) -> Reply:
    """Who wants what, and two buttons."""
    back = urlsplit(redirect_uri)
    scopes = "".join(f"<li><code>{escape(each)}</code></li>" for each in scope.split())
    page = (
        f"<p>You are signed in as <strong>{escape(user)}</strong>, who does not exist. No real mail is read here.</p>\n"
        f"<p>The hall at <strong>{escape(back.netloc)}</strong> wants to use:</p>\n<ul>{scopes}</ul>\n"
        '<form method="post" action="/authorize">\n'
        f'<input type="hidden" name="ticket" value="{escape(ticket)}">\n'
        '<button name="answer" value="allow">Allow</button>\n'
        '<button name="answer" value="deny">Deny</button>\n</form>\n'
    )
    # Browsers hold a form to this through the redirect that follows it.
    return _page(200, page, f"'self' {back.scheme}://{back.netloc}")


def mistaken(why: str) -> Reply:
    """For a request that must not be sent back, because nobody knows to whom."""
    return _page(400, f"<p>{escape(why)}</p>\n", "'none'")


def _page(status: int, body: str, forms: str) -> Reply:
    policy = f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action {forms}; base-uri 'none'"
    headers = (
        ("content-type", "text/html; charset=utf-8"),
        ("content-security-policy", f"{policy}; frame-ancestors 'none'"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-store"),
    )
    return Reply(status, f"{_HEAD}{body}{_TAIL}".encode(), headers)
