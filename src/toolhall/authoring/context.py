"""Context, a running tool's access to its client, its credentials and outbound HTTP, and MCP elicitation forms."""

import inspect
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    get_type_hints,
    overload,
)

import msgspec

from toolhall.egress.lazy_client import LazyEgressClient
from toolhall.model.caller import LOCAL, Caller
from toolhall.model.errors import Malformed, Unsupported
from toolhall.model.json import Json, JsonObject
from toolhall.model.messages import (
    NULL_LINK,
    Answered,
    ClientLink,
    Filled,
    Form,
    LogEvent,
    LogLevel,
    ProgressEvent,
    Question,
    ResourceChanged,
    Root,
    Rooted,
    Roots,
    Sample,
    Sampled,
    Visit,
    memory_of,
)
from toolhall.model.requirements import NO_CREDENTIALS, AccountToken, ResolvedCredentials
from toolhall.model.secret import looks_secret
from toolhall.schema.types import decoder_of, schemas_of, to_json
from toolhall.schema.validator import Validator

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")
Feature: TypeAlias = Literal["elicitation", "elicitation.url", "sampling", "roots"]
_FORM_TYPES = ("string", "number", "integer", "boolean")


class LinkedAccount:
    """The user's account at an OAuth provider, for the duration of the call."""

    __slots__ = ("_account", "_egress")

    def __init__(self, account: AccountToken, egress: LazyEgressClient) -> None:
        self._account = account
        self._egress = egress

    @property
    def provider(self) -> str:
        """The provider's id, as the tool declares it."""
        return self._account.provider

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes that the user granted."""
        return self._account.scopes

    @property
    def token(self) -> str:
        """The access token; send it to the provider only."""
        return self._account.token.reveal()

    def client(self, base_url: str, **options: Any) -> "httpx2.AsyncClient":
        """An HTTP client that sends the token to the origin of `base_url` only; see `Context.http`."""
        from toolhall.egress.client import BearerAuth  # lazy: httpx2

        auth = BearerAuth(base_url, self._account.token)
        return self._egress.http_client(base_url=base_url, auth=auth, **options)

    def __repr__(self) -> str:
        return f"LinkedAccount({self.provider!r})"


class Given(Generic[T]):
    """A person's reply to a form; it has a `value` only if the person accepted."""

    def __init__(self, action: Literal["accept", "decline", "cancel"], value: T | None = None) -> None:
        self.action = action
        self._value = value

    @property
    def accepted(self) -> bool:
        """Whether the person filled in the form."""
        return self.action == "accept"

    @property
    def value(self) -> T:
        """The filled-in form; raises if the person declined."""
        if self._value is None:
            raise ValueError(f"there is no value: the person chose to {self.action}; check .accepted first")
        return self._value


class PausableDeadline(Protocol):
    """The deadline of a call, which can be paused while a person answers."""

    def hold(self) -> AbstractContextManager[None]:
        """Pause the deadline inside the context manager."""
        ...


class _NoDeadline:
    """The deadline of a context without a call: there is none."""

    def hold(self) -> AbstractContextManager[None]:
        """Do nothing."""
        return nullcontext()


_NO_DEADLINE = _NoDeadline()
_DEFAULT_EGRESS = LazyEgressClient()


class Context:
    """Declare it as the first parameter of a tool; it is not part of the tool's schema.

    A context without a client, `Context()`, drops events and gets no replies, so that tools can be called directly.
    """

    def __init__(
        self,
        link: ClientLink = NULL_LINK,
        caller: Caller = LOCAL,
        tool: str = "",
        patience: PausableDeadline = _NO_DEADLINE,
        equipment: ResolvedCredentials | None = None,
        outside: LazyEgressClient = _DEFAULT_EGRESS,
    ) -> None:
        self._link = link
        self._deadline = patience
        self._tool = tool
        self._question_count = 0
        self._credentials = equipment
        self._egress = outside
        self.caller = caller
        self.cancelled = False  # becomes True when the call was cancelled, but the tool's thread still runs

    def can(self, feature: Feature) -> bool:
        """Whether the client supports a feature."""
        return self._link.can(feature)

    def need(self, feature: Feature) -> None:
        """Refuse the call with Unsupported if the client does not support a feature."""
        if self._link is not NULL_LINK and not self._link.can(feature):
            raise Unsupported(feature)

    def secret(self, id: str) -> str:  # noqa: A002 - as OXP calls it
        """The value of a secret that the tool declares: `@tool(secrets=["TWILIO_API_KEY"])`."""
        return _get_secret(self._credentials or NO_CREDENTIALS, id)

    @property
    def account(self) -> LinkedAccount:
        """The user's account that the tool declares: `@tool(account="google:calendar.events")`."""
        return _get_account(self._credentials or NO_CREDENTIALS, self._egress)

    @property
    def accounts(self) -> Mapping[str, LinkedAccount]:
        """The user's accounts, by provider, for a tool that declares several."""
        return _get_accounts(self._credentials or NO_CREDENTIALS, self._egress)

    @property
    def user_id(self) -> str | None:
        """The authenticated user of the call; never None for a tool that declares `user_id=True`."""
        return self.caller.user if self._credentials is None else self._credentials.user_id or self.caller.user

    def http(self, **options: Any) -> "httpx2.AsyncClient":
        """An HTTP client that reaches public addresses only, follows no redirect and reads no proxy settings."""
        return self._egress.http_client(**options)

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress to the client; `done` must increase."""
        self._link.emit(ProgressEvent(done, total, message))

    def log(self, message: Json, level: LogLevel = "info") -> None:
        """Send a log message to the client while the tool runs."""
        to_json(message)  # raise for an unencodable message, also if no client listens
        self._link.emit(LogEvent(level, message, self._tool or None))

    def changed(self, uri: str) -> None:
        """Tell everybody who subscribed to a resource, or to one above it, that it has changed."""
        self._link.emit(ResourceChanged(uri))

    @overload
    async def ask(self, message: str, form: type[T], *, key: str | None = None) -> Given[T]: ...
    @overload
    async def ask(self, message: str, form: JsonObject, *, key: str | None = None) -> Given[JsonObject]: ...
    async def ask(self, message: str, form: Any, *, key: str | None = None) -> Given[Any]:
        """Ask the person to fill in a form: a flat dataclass, struct or schema. Never ask for a secret.

        In the newest MCP revision the tool starts again with the reply, so do nothing irreversible before asking.
        """
        schema = form if isinstance(form, dict) else form_schema(form)
        _reject_secret_fields(schema)
        filled = await self._ask_one(Form(message, schema), key)
        if not isinstance(filled, Filled) or filled.action != "accept":
            return Given(getattr(filled, "action", "cancel"))
        return Given("accept", _parse_form(filled.content or {}, form))

    async def visit(self, message: str, url: str, *, key: str) -> bool:
        """Ask the person to open a page; True if they agree. What happens there does not pass through the client."""
        filled = await self._ask_one(Visit(message, url, key), key)
        return isinstance(filled, Filled) and filled.action == "accept"

    async def sample(
        self, prompt: str | tuple[JsonObject, ...], *, max_tokens: int = 1024, key: str | None = None
    ) -> Sampled:
        """Ask the client's model (deprecated by MCP 2026-07-28; prefer a model of your own)."""
        text = {"role": "user", "content": {"type": "text", "text": prompt}}
        messages = (text,) if isinstance(prompt, str) else prompt
        sampled = await self._ask_one(Sample(messages=messages, max_tokens=max_tokens), key)
        return sampled if isinstance(sampled, Sampled) else Sampled("assistant", [], "")

    async def roots(self, *, key: str | None = None) -> tuple[Root, ...]:
        """The folders the client works in (deprecated by MCP 2026-07-28)."""
        rooted = await self._ask_one(Roots(), key)
        return rooted.roots if isinstance(rooted, Rooted) else ()

    async def ask_all(self, questions: Mapping[str, Question]) -> Mapping[str, Answered]:
        """Ask several questions at once, each with its own key; the deadline of the call is paused."""
        with self._deadline.hold():
            return await self._link.ask(questions)

    async def detach(self, retry_ms: int = 500) -> None:
        """Before a long wait: let the client fetch the answer later, as a task or by resuming, if it can.

        With `Task(after_questions=True)` the call is a task from here on, and durable.
        """
        await self._link.detach(retry_ms)

    @property
    def task_id(self) -> str | None:
        """The id of the task that this call is, the same when it runs again; None in line."""
        return memory_of(self._link).task_id

    @overload
    async def once(
        self, key: str, function: Callable[P, Coroutine[Any, Any, R]], *args: P.args, **kwargs: P.kwargs
    ) -> R: ...
    @overload
    async def once(self, key: str, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R: ...
    async def once(self, key: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call the function and remember its result: a run from the top, after a question or a crash, finds it there.

        The result must be JSON-able; it comes back by the function's return annotation. If the process dies between
        the function's effect and its record, the effect happens again: give `ctx.task_id` and the key to whoever can
        recognize a repetition.
        """
        if not key:
            raise ValueError("ctx.once needs a key, such as 'rows'; it names the result in this call")
        memory = memory_of(self._link)
        encoded = await memory.recall(key)
        if encoded is None:
            result = function(*args, **kwargs)
            encoded = to_json(await result if inspect.isawaitable(result) else result)
            await memory.remember(key, encoded)
        # Decoded in both cases, so that the first run sees what every later one will.
        return decoder_of(_return_type(function))(msgspec.json.decode(encoded))

    async def _ask_one(self, question: Question, key: str | None) -> Answered | None:
        self._question_count += 1
        key = key or f"{type(question).__name__.lower()}_{self._question_count}"
        return (await self.ask_all({key: question})).get(key)


def _return_type(function: Callable[..., Any]) -> Any:
    """The return annotation of a function; Any if it has none that can be resolved."""
    try:
        return get_type_hints(function).get("return", Any)
    except (NameError, TypeError):  # a type that is not defined here, or a callable object
        return Any


def _get_secret(credentials: ResolvedCredentials, id: str) -> str:  # noqa: A002 - as OXP calls it
    """The value of a secret; LookupError for one that the tool does not declare."""
    secret = credentials.secrets.get(id)
    if secret is None:
        raise LookupError(f"the tool does not declare the secret {id!r}; write @tool(secrets=[{id!r}])")
    return secret.reveal()


def _get_accounts(credentials: ResolvedCredentials, egress: LazyEgressClient) -> Mapping[str, LinkedAccount]:
    """All accounts that the tool declares, by provider."""
    return {provider: LinkedAccount(account, egress) for provider, account in credentials.accounts.items()}


def _get_account(credentials: ResolvedCredentials, egress: LazyEgressClient) -> LinkedAccount:
    """The only account; LookupError if the tool declares none or several."""
    linked = list(_get_accounts(credentials, egress).values())
    if len(linked) != 1:
        problem = "declares no account" if not linked else "declares several accounts"
        fix = '@tool(account="provider:scope")' if not linked else 'ctx.accounts["provider"]'
        raise LookupError(f"the tool {problem}; write {fix}")
    return linked[0]


def form_schema(form: Any) -> JsonObject:
    """The schema of an MCP elicitation form: one flat object of primitive fields.

    Raises TypeError where a field is not a string, a number, a boolean or a choice.
    """
    schema = schemas_of([form])[0]
    if schema.get("type") != "object":
        raise TypeError(f"{form!r} is not a form: use a dataclass, a msgspec.Struct or a TypedDict with plain fields")
    fields = {name: _form_field(name, field) for name, field in schema.get("properties", {}).items()}
    result: JsonObject = {"type": "object", "properties": fields}
    if schema.get("required"):
        result["required"] = schema["required"]
    return result


def _reject_secret_fields(schema: JsonObject) -> None:
    """Raise TypeError for a field that asks for a secret: the client and its logs see every form."""
    for name in schema.get("properties", {}):
        if looks_secret(name):
            raise TypeError(f"field '{name}' asks for a secret; send the person to a page with ctx.visit instead")


def _form_field(name: str, field: JsonObject) -> JsonObject:
    if "enum" in field and all(isinstance(choice, str | None) for choice in field["enum"]):
        # msgspec omits the type of an enum; and an optional field is left out rather than set to null.
        return {
            **_without_null_default(field),
            "type": "string",
            "enum": [choice for choice in field["enum"] if choice is not None],
        }
    options = [part for part in field.get("anyOf", []) if part.get("type") != "null"]
    if len(options) == 1:
        return _form_field(name, {**{key: part for key, part in field.items() if key != "anyOf"}, **options[0]})
    if field.get("type") in _FORM_TYPES or _is_choice_list(field):
        return _without_null_default(field)
    raise TypeError(
        f"field '{name}' cannot be shown in a form: use str, int, float, bool, Literal or a list of Literal"
    )


def _without_null_default(field: JsonObject) -> JsonObject:
    """The field without `default: null`, which means the same as leaving the field out."""
    return {key: part for key, part in field.items() if key != "default" or part is not None}


def _is_choice_list(field: JsonObject) -> bool:
    return field.get("type") == "array" and "enum" in field.get("items", {})


def _parse_form(content: JsonObject, form: Any) -> Any:
    if isinstance(form, dict):
        problems = Validator(form).problems(content, 0)
        if problems:
            raise Malformed(f"the reply does not match the form: {problems[0]}")
        return content
    try:
        return decoder_of(form)(content)
    except msgspec.ValidationError:
        raise Malformed("the reply does not match the form") from None
