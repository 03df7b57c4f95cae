"""`toolhall secret set`, `list`, `remove`, `rotate` and `key`."""

from dataclasses import dataclass
from typing import Annotated, TypeAlias

from cyclopts import Parameter

from toolhall.cli.clients.management import open_folder_transport, open_vault_management
from toolhall.cli.errors import UsageError
from toolhall.cli.hall_options import HallOptions, UserSecretOptions
from toolhall.cli.logs import start_logging
from toolhall.cli.output import GREEN, RED, note, pluralize, print_answer_json, print_rows, visible
from toolhall.cli.prompts import confirm, prompt_secret
from toolhall.model.errors import Malformed
from toolhall.model.json import JsonObject
from toolhall.stores.vault.key_sources import VAULT_KEY_SETTING, generate_key
from toolhall.stores.vault.store import validate_name, validate_user

_DEFAULTS = HallOptions()
_COLUMNS = ("id", "for", "state", "hint", "changed", "by")
_STYLES = {"good": GREEN, "damaged": RED}


def list_secrets(*, options: Annotated[HallOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """List every secret; a hint changes when the value changes, and says nothing else about it."""
    start_logging(None)
    with open_vault_management(options) as client:
        found = client.request("GET", "secrets")["secrets"]
    if options.json:
        print_answer_json(found)
    elif found:
        print_rows(_COLUMNS, [_row(each) for each in found], _STYLES)
    else:
        note("there are no secrets; keep one with 'toolhall secret set ID'")


def _row(secret: JsonObject) -> tuple[str, ...]:
    state = "good" if secret["usable"] else "damaged"
    return secret["name"], secret["user"] or "everybody", state, secret["hint"], secret["changedAt"], secret["by"]


LostSecret: TypeAlias = tuple[str, str | None]  # id and owner


@dataclass(frozen=True)
class SecretRemoveOptions(UserSecretOptions):
    """Options of `toolhall secret remove`.

    Parameters
    ----------
    lost
        Everything in the data folder that no key opens any more, since the vault's key is lost for good.
    all
        With --user: every secret of this user, and the keys that sealed these and the tokens of their accounts.
    yes
        With --lost or --all: do it without being asked.
    """

    lost: bool = False
    all: bool = False
    yes: bool = False


_SET_DEFAULTS = UserSecretOptions()
_REMOVE_DEFAULTS = SecretRemoveOptions()
_RESERVED_NAMES = ("rotate",)  # a path of the management API


def set_secret(secret: str, /, *, options: Annotated[UserSecretOptions, Parameter(name="*")] = _SET_DEFAULTS) -> None:
    """Store a secret, or replace the one of this id; it is never shown again, and tools that declare it can use it.

    Its value is typed or read from standard input, never from the command line, which others can read.

    Parameters
    ----------
    secret
        Its id, as tools name it: TWILIO_API_KEY.
    """
    start_logging(None)
    _check_name(secret, options.user)
    value = prompt_secret()
    with open_vault_management(options, write=True, create=True) as client:
        answer = client.request("PUT", "secrets", secret, body={"value": value.reveal()}, query={"user": options.user})
    if options.json:
        print_answer_json(answer)
    else:
        print(visible(f"{secret} is kept{_owner_suffix(options.user)}"))


def remove(
    secret: str | None = None, /, *, options: Annotated[SecretRemoveOptions, Parameter(name="*")] = _REMOVE_DEFAULTS
) -> None:
    """Remove a secret, at once; with --all all of a user, with --lost all that no key opens any more.

    Parameters
    ----------
    secret
        Its id, as toolhall secret list shows it.
    """
    start_logging(None)
    if options.lost:
        _remove_lost(secret, options)
        return
    if options.all:
        _remove_all(secret, options)
        return
    if secret is None:
        raise UsageError("name the secret, as 'toolhall secret list' shows it")
    with open_vault_management(options, write=True) as client:
        answer = client.request("DELETE", "secrets", secret, query={"user": options.user})
    if options.json:
        print_answer_json(answer)
    else:
        print(visible(f"{secret} is removed{_owner_suffix(options.user)}"))


def _remove_all(secret: str | None, options: SecretRemoveOptions) -> None:
    if secret is not None or options.user is None:
        raise UsageError("--all is about everything of one user: name the user with --user, and no id")
    unrevoked = "Accounts that are still connected cannot be revoked then; 'toolhall account disconnect' comes first."
    confirm(f"Forget every secret of {visible(options.user)}? {unrevoked}", yes=options.yes)
    with open_vault_management(options, write=True) as client:
        answer = client.request("DELETE", "secrets", query={"user": options.user})
    if options.json:
        print_answer_json(answer)
    else:
        print(visible(f"every secret of {options.user} is removed"))


def _remove_lost(secret: str | None, options: SecretRemoveOptions) -> None:
    if options.running or options.key is not None:
        raise UsageError("--lost needs --data: a hall that runs can open all that it has")
    if secret is not None or options.user is not None or options.all:
        raise UsageError("--lost is about everything that does not open: leave out the id, --user and --all")
    from toolhall.cli.clients.local_management import forget_lost_secrets  # lazy: the whole hall

    gone = forget_lost_secrets(options.data, lambda question: confirm(question, yes=options.yes))
    if options.json:
        print_answer_json({"lost": [{"name": name, "user": user} for name, user in gone]})
    else:
        named = ", ".join(f"{name}{_owner_suffix(user)}" for name, user in gone)
        print(visible(f"{pluralize(len(gone), 'secret')} gone{': ' if named else ''}{named}"))
    note("Set them again with 'toolhall secret set ID'. Accounts that the lost key sealed must be connected anew.")


def _check_name(secret: str, user: str | None) -> None:
    """Raise UsageError for an invalid id or user, before the value is typed."""
    if secret in _RESERVED_NAMES:
        raise UsageError(f"no secret can be called {secret}; choose another id")
    try:
        validate_name(secret)
        validate_user(user)
    except Malformed as wrong:
        raise UsageError(wrong.message) from None


def _owner_suffix(user: str | None) -> str:
    return "" if user is None else f" for {user}"


@dataclass(frozen=True)
class RotateOptions(HallOptions):
    """Options of `toolhall secret rotate`.

    Parameters
    ----------
    new
        Make a new key in the data folder, encrypt everything with it, and delete the old one.
    """

    new: bool = False


@dataclass(frozen=True)
class KeyOptions:
    """Options of `toolhall secret key`.

    Parameters
    ----------
    json
        Print JSON.
    """

    json: bool = False


_ROTATE_DEFAULTS = RotateOptions()
_KEY_DEFAULTS = KeyOptions()


def rotate(*, options: Annotated[RotateOptions, Parameter(name="*")] = _ROTATE_DEFAULTS) -> None:
    """Encrypt every secret again, all or none: with the first key of the hall, or with a new one."""
    start_logging(None)
    answer = _reencrypt_with_new_key(options) if options.new else _reencrypt(options)
    if options.json:
        print_answer_json(answer)
        return
    print(f"{pluralize(answer['rotated'], 'secret')} sealed anew")
    if not options.new:
        note("Keys after the first one are not needed any more; backups from before still are opened by them only.")


def _reencrypt(options: HallOptions) -> JsonObject:
    with open_vault_management(options, write=True) as client:
        return client.request("POST", "secrets", "rotate")


def _reencrypt_with_new_key(options: HallOptions) -> JsonObject:
    """Encrypt everything with a new key, in the data folder: a running hall cannot change its key."""
    if options.running or options.key is not None:
        raise UsageError("--new needs --data: stop the hall, then rotate in its folder, where its key is kept")
    with open_folder_transport(options, write=True, exclusive=True) as transport:
        return {"rotated": transport.rotate_keys(generate_key())}


def key(*, options: Annotated[KeyOptions, Parameter(name="*")] = _KEY_DEFAULTS) -> None:
    """Print a new key for the vault; it is stored nowhere."""
    start_logging(None)
    made = generate_key()
    if options.json:
        print_answer_json({"key": made})
        return
    print(made, flush=True)
    note(
        f"Put it into {VAULT_KEY_SETTING}, or into a file that {VAULT_KEY_SETTING}_FILE names;"
        " without it nothing opens."
    )
