"""A tool that needs an account."""

from toolhall import Context, tool


@tool(account="acme:mail.read")
def read(ctx: Context) -> str:
    """Read the letters of an account."""
    return ctx.account.provider
