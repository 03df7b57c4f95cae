"""Resources, URI templates, prompts and completion, as their author writes them and as a client sees them."""

import datetime
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest

from toolhall import (
    BadDeclaration,
    Config,
    Context,
    Filled,
    Icon,
    Image,
    Message,
    Notes,
    Resource,
    ResourceLink,
    Text,
    ToolFailed,
    Toolhall,
    ToolhallError,
    Toolkit,
    prompt,
    resource,
    tool,
)
from toolhall.testing import Client

LOOSE_RESOURCE: Any = resource  # where a type checker would see the mistake first
LOOSE_PROMPT: Any = prompt
PIXEL = b"\x89PNG"


@dataclass
class Order:
    """One order."""

    number: int
    status: str = "open"


# --- resources --------------------------------------------------------------------------------------------------------


async def test_a_string_is_text_and_bytes_are_a_blob() -> None:
    @resource("shop://policy")
    async def policy() -> str:
        return "14 days"

    @resource("shop://logo", mime_type="image/png")
    def logo() -> bytes:
        return PIXEL

    async with Client(policy, logo) as client:
        assert await client.read("shop://policy") == "14 days"
        assert await client.read("shop://logo") == PIXEL


async def test_any_other_value_is_json() -> None:
    @resource("shop://latest")
    async def latest() -> Order:
        return Order(17)

    async with Client(latest) as client:
        assert await client.read("shop://latest") == '{"number":17,"status":"open"}'
        assert await client.read(latest) == Order(17)


async def test_several_resources_have_uris_and_types_of_their_own() -> None:
    files = [
        Resource(uri="shop://files/a", content="A", mime_type="text/plain"),
        Resource(uri="shop://b", content=b"B"),
    ]

    @resource("shop://files")
    def all_files() -> list[Resource]:
        return files

    async with Client(all_files) as client:
        assert await client.read("shop://files") == files


async def test_the_return_type_tells_the_mime_type_unless_it_is_stated() -> None:
    @resource("shop://text")
    def text() -> str:
        return ""

    @resource("shop://bytes")
    def raw() -> bytes | None:
        return None

    @resource("shop://json")
    def json() -> list[Order]:
        return []

    @resource("shop://markdown", mime_type="text/markdown")
    def markdown() -> str:
        return ""

    async with Client(text, raw, json, markdown) as client:
        types = [each.resource.mime_type for each in await client.resources() if each.resource]
        assert types == ["text/plain", "application/octet-stream", "application/json", "text/markdown"]


async def test_none_means_that_there_is_no_such_resource() -> None:
    @resource("shop://orders/{number}")
    async def order(number: int) -> Order | None:
        return Order(number) if number == 17 else None

    async with Client(order) as client:
        assert await client.read(order, number=17) == Order(17)
        with pytest.raises(ToolhallError, match="unknown resource: shop://orders/18"):
            await client.read(order, number=18)


async def test_what_a_resource_states_is_published() -> None:
    icon, notes = Icon(src="https://shop.example/i.png"), Notes(audience=("user",), priority=0.5)

    @resource("shop://policy", title="Refunds", fresh=300, shared=True, size=7, icons=[icon], notes=notes, tags=["law"])
    def policy() -> str:
        """Our rules."""
        return "14 days"

    async with Client(policy) as client:
        (found,) = await client.resources()
    assert (found.name, found.title, found.description, found.tags) == ("policy", "Refunds", "Our rules.", ("law",))
    assert found.icons == (icon,)
    assert found.effect == "reads"
    assert found.resource
    assert (found.resource.fresh, found.resource.shared, found.resource.size) == (300, True, 7)
    assert found.resource.notes == notes


async def test_a_resource_that_is_not_listed_can_be_read() -> None:
    @resource("shop://part", listed=False)
    def part() -> str:
        return "only linked to"

    async with Client(part) as client:
        assert await client.resources() == ()
        assert await client.read(part) == "only linked to"


# --- URI templates ----------------------------------------------------------------------------------------------------


async def test_a_template_is_one_function_for_many_uris() -> None:
    @resource("shop://orders/{number}/{day}")
    async def order(number: int, day: datetime.date) -> str:
        return f"{number + 1} on {day:%d.%m.%Y}"

    async with Client(order) as client:
        assert await client.resources() == ()
        assert len(await client.templates()) == 1
        assert await client.read("shop://orders/17/2026-12-01") == "18 on 01.12.2026"
        assert await client.read(order, number=17, day=datetime.date(2026, 12, 1)) == "18 on 01.12.2026"


async def test_a_uri_whose_values_do_not_fit_the_types_means_nothing() -> None:
    @resource("shop://orders/{number}")
    async def order(number: int) -> str:
        return str(number)

    async with Client(order) as client:
        for uri in ("shop://orders/seventeen", "shop://orders/07", "shop://orders/1/2", "shop://orders/"):
            with pytest.raises(ToolhallError, match="unknown resource"):
                await client.read(uri)


async def test_query_variables_come_in_any_order_and_may_be_missing() -> None:
    @resource("shop://orders{?status,limit}")
    async def orders(status: Literal["open", "paid"] = "open", limit: int = 20) -> str:
        return f"{limit} {status}"

    async with Client(orders) as client:
        assert await client.read("shop://orders") == "20 open"
        assert await client.read("shop://orders?limit=5&status=paid") == "5 paid"
        assert await client.read(orders, limit=5) == "5 open"
        with pytest.raises(ToolhallError, match="unknown resource"):
            await client.read("shop://orders?colour=red")


async def test_a_variable_spans_segments_where_the_template_says_so() -> None:
    @resource("shop://manuals/{+path}")
    async def manual(path: str) -> str:
        return path

    @resource("shop://tags{/names*}")
    async def tagged(names: list[str]) -> str:
        return "+".join(names)

    async with Client(manual, tagged) as client:
        assert await client.read("shop://manuals/en/start.md") == "en/start.md"
        assert await client.read("shop://tags/red/large") == "red+large"
        with pytest.raises(ToolhallError, match="unknown resource"):
            await client.read("shop://manuals/../secret")


async def test_values_are_percent_decoded_once() -> None:
    @resource("shop://items/{name}")
    async def item(name: str) -> str:
        return name

    async with Client(item) as client:
        assert await client.read("shop://items/a%2Fb%20c%2520") == "a/b c%20"
        assert await client.read(item, name="å/?#") == "å/?#"


async def test_an_exact_uri_wins_over_a_template() -> None:
    @resource("shop://orders/{number}")
    async def order(number: str) -> str:
        return f"order {number}"

    @resource("shop://orders/latest")
    async def latest() -> str:
        return "the latest"

    async with Client(order, latest) as client:
        assert await client.read("shop://orders/latest") == "the latest"
        assert await client.read("shop://orders/17") == "order 17"


# --- prompts ----------------------------------------------------------------------------------------------------------


async def test_a_string_is_one_message_of_the_user() -> None:
    @prompt
    async def hello(name: str) -> str:
        return f"Say hello to {name}."

    async with Client(hello) as client:
        assert await client.prompt(hello, name="Ada") == [Message.user("Say hello to Ada.")]


async def test_a_prompt_returns_blocks_or_messages() -> None:
    link = ResourceLink(uri="shop://orders/17", name="order")

    @prompt
    def blocks() -> list[Text | Image | ResourceLink]:
        return [Text("Look:"), Image(PIXEL), link]

    @prompt
    def conversation() -> list[Message]:
        return [Message.user(Resource(uri="shop://policy", content="14 days")), Message.assistant("I read it.")]

    async with Client(blocks, conversation) as client:
        assert await client.prompt(blocks) == [Message.user("Look:"), Message.user(Image(PIXEL)), Message.user(link)]
        assert [message.role for message in await client.prompt(conversation)] == ["user", "assistant"]


async def test_arguments_are_texts_for_clients_and_values_for_the_function() -> None:
    @prompt
    async def letter(number: int, day: datetime.date, tags: list[str], code: str) -> str:
        return repr((number, day, tags, code))

    async with Client(letter) as client:
        (said,) = await client.prompt("letter", number="17", day="2026-12-01", tags='["a"]', code="0042")
        assert said == Message.user(repr((17, datetime.date(2026, 12, 1), ["a"], "0042")))
        with pytest.raises(ToolhallError, match="/number"):
            await client.prompt("letter", number="many", day="2026-12-01", tags="[]", code="")
        with pytest.raises(ToolhallError, match=r'/code: "code" is a required property'):
            await client.prompt("letter", number="17", day="2026-12-01", tags="[]")


async def test_what_a_prompt_states_is_published() -> None:
    @prompt(name="refund-letter", title="Refund letter", level=3)
    async def refund(number: Annotated[int, "Which order"], tone: Literal["firm", "kind"] = "kind") -> str:
        """Drafts a letter for one order."""
        return f"{number} {tone}"

    async with Client(refund) as client:
        (found,) = await client.prompts()
    assert (found.name, found.title, found.level) == ("refund-letter", "Refund letter", 3)
    assert found.description == "Drafts a letter for one order."
    assert found.input["required"] == ["number"]
    assert found.input["properties"]["number"]["description"] == "Which order"


async def test_a_prompt_without_a_message_fails() -> None:
    @prompt
    async def nothing() -> list[Message]:
        return []

    async with Client(nothing) as client:
        with pytest.raises(ToolhallError):
            await client.prompt(nothing)


# --- completion -------------------------------------------------------------------------------------------------------


async def test_choices_complete_themselves() -> None:
    @prompt
    async def letter(tone: Literal["firm", "friendly", "kind"], urgent: bool = False) -> str:
        return f"{tone} {urgent}"

    async with Client(letter) as client:
        assert await client.complete(letter, "tone", "f") == ["firm", "friendly"]
        assert await client.complete(letter, "urgent", "t") == ["true"]


async def test_a_completion_returns_everything_and_the_hall_chooses_what_fits() -> None:
    @resource("shop://orders/{number}")
    async def order(number: int) -> str:
        return str(number)

    @order.complete("number")
    async def numbers() -> list[str]:
        return ["17", "18", "2"]

    async with Client(order) as client:
        assert await client.complete(order, "number", "1") == ["17", "18"]
        assert await client.complete("shop://orders/{number}", "number") == ["17", "18", "2"]


async def test_a_completion_that_takes_what_was_typed_chooses_by_itself() -> None:
    @prompt
    async def travel(country: str, city: str) -> str:
        return f"{city}, {country}"

    @travel.complete("city")
    def cities(ctx: Context, typed: str, given: Mapping[str, str]) -> list[str]:
        known = {"Norway": ["Bergen", "Oslo"], "Sweden": ["Malmö"]}.get(given.get("country", ""), [])
        return [city for city in known if typed.lower() in city.lower()]

    async with Client(travel) as client:
        assert await client.complete(travel, "city", "er", country="Norway") == ["Bergen"]
        assert await client.complete(travel, "city", "er") == []


async def test_an_argument_without_completion_has_an_empty_one() -> None:
    @prompt
    async def letter(text: str) -> str:
        return text

    async with Client(letter) as client:
        assert await client.complete(letter, "text", "a") == []
        with pytest.raises(ToolhallError, match="this prompt has no argument of this name"):
            await client.complete(letter, "tone")


async def test_at_most_a_hundred_values_are_completed() -> None:
    @resource("shop://orders/{number}")
    async def order(number: int) -> str:
        return str(number)

    @order.complete("number")
    def numbers(typed: str) -> list[str]:
        return [f"{typed}{number}" for number in range(1_000)]

    async with Client(order) as client:
        assert len(await client.complete(order, "number", "1")) == 100


# --- what they share with tools ---------------------------------------------------------------------------------------


class Shop(Toolkit, version="1.2.0", level=2, tags=["trade"]):
    """Orders and letters."""

    def __init__(self) -> None:
        self.orders = {17: Order(17)}

    @resource("shop://orders/{number}")
    async def order(self, ctx: Context, number: int) -> Order | None:
        """One order."""
        ctx.log("looked")
        return self.orders.get(number)

    @order.complete("number")
    def numbers(self) -> list[str]:
        return [str(number) for number in self.orders]

    @prompt
    async def refund(self, number: int) -> str:
        """Drafts a letter."""
        return f"A letter about {self.orders[number]}."

    @tool(effect="writes")
    async def pay(self, ctx: Context, number: int) -> None:
        """Marks an order as paid."""
        self.orders[number] = Order(number, "paid")
        ctx.changed(f"shop://orders/{number}")


async def test_a_toolkit_holds_tools_resources_and_prompts() -> None:
    shop = Shop()
    async with Client(shop) as client:
        assert await client.complete(shop.order, "number") == ["17"]
        await client.call(shop.pay, number=17)
        assert await client.read(shop.order, number=17) == Order(17, "paid")
        assert client.changes == ["shop://orders/17"]
        assert [getattr(event, "data", None) for event in client.events] == ["looked"]
        (template,) = await client.templates()
        assert (str(template.id), template.level, template.tags) == ("Shop.order@1.2.0", 2, ("trade",))


async def test_methods_and_functions_stay_what_they_are() -> None:
    shop = Shop()
    assert await shop.order(Context(), 17) == Order(17)
    assert await shop.refund(number=17) == "A letter about Order(number=17, status='open')."
    assert shop.numbers() == ["17"]


async def test_a_resource_and_a_prompt_may_ask_the_person() -> None:
    @dataclass
    class Guest:
        name: str

    @resource("shop://greeting")
    async def greeting(ctx: Context) -> str:
        return f"Hello {(await ctx.ask('Who reads?', Guest)).value.name}"

    async with Client(greeting, answers=lambda _, __: Filled("accept", {"name": "Ada"})) as client:
        assert await client.read(greeting) == "Hello Ada"


async def test_what_a_resource_says_of_its_failure_is_told() -> None:
    @resource("shop://stock")
    async def stock() -> str:
        raise ToolFailed("the warehouse is closed")

    async with Client(stock) as client:
        with pytest.raises(ToolFailed, match="the warehouse is closed"):
            await client.read(stock)


async def test_a_person_approves_from_level_8_up() -> None:
    @resource("vault://deed", level=9)
    async def deed() -> str:
        return "the deed"

    async with Client(deed, approves=True) as client:
        assert await client.read(deed) == "the deed"
    async with Client(deed) as client:
        with pytest.raises(ToolhallError, match="needs"):
            await client.read(deed)


async def test_settings_apply_to_all_kinds() -> None:
    @resource("vault://deed")
    async def deed() -> str:
        return "the deed"

    async with Client(deed, config=Config(levels={"*.deed": 9})) as client:
        with pytest.raises(ToolhallError, match="needs"):
            await client.read(deed)


async def test_code_outside_of_calls_tells_of_changes() -> None:
    async with Client(Shop) as client:
        client.hall.changed("shop://orders/17")
        assert client.changes == ["shop://orders/17"]


# --- mistakes ---------------------------------------------------------------------------------------------------------


def variable_without_parameter() -> None:
    @resource("shop://orders/{number}")
    def pick() -> str:
        return ""


def parameter_without_variable() -> None:
    @resource("shop://orders")
    def pick(status: str) -> str:
        return status


def required_query_variable() -> None:
    @resource("shop://orders{?status}")
    def pick(status: str) -> str:
        return status


def resource_that_yields() -> None:
    @resource("shop://orders")
    def pick() -> Iterator[str]:
        yield ""


def prompt_that_yields() -> None:
    @prompt
    def pick() -> Iterator[str]:
        yield ""


def option_of_a_tool() -> None:
    def pick() -> str:
        return ""

    LOOSE_RESOURCE("shop://orders", effect="reads")(pick)


def option_of_a_resource() -> None:
    def pick() -> str:
        return ""

    LOOSE_PROMPT(mime_type="text/plain")(pick)


def without_uri() -> None:
    def pick() -> str:
        return ""

    LOOSE_RESOURCE(pick)


def uri_that_is_no_text() -> None:
    def pick() -> str:
        return ""

    LOOSE_RESOURCE(17)(pick)


def template(text: str, parameters: Literal[0, 1, 2] = 0) -> Callable[[], None]:
    def none() -> str:
        return ""

    def one(a: str = "") -> str:
        return a

    def two(a: str = "", b: str = "") -> str:
        return a + b

    return lambda: LOOSE_RESOURCE(text)((none, one, two)[parameters])


def option(name: str, value: object) -> Callable[[], None]:
    def declare() -> None:
        def pick() -> str:
            return ""

        LOOSE_RESOURCE("shop://policy", **{name: value})(pick)

    return declare


def completion_of_an_unknown_argument() -> None:
    @resource("shop://orders/{number}")
    def pick(number: int) -> str:
        return str(number)

    @pick.complete("numbr")
    def numbers() -> list[str]:
        return []


def completion_with_another_parameter() -> None:
    @prompt
    def pick(tone: str) -> str:
        return tone

    @pick.complete("tone")
    def tones(word: str) -> list[str]:
        return [word]


def completion_as_a_method_of_a_function() -> None:
    @prompt
    def pick(tone: str) -> str:
        return tone

    @pick.complete("tone")
    def tones(self: object, typed: str) -> list[str]:
        return [typed]


def completion_that_is_no_function() -> None:
    @prompt
    def pick(tone: str) -> str:
        return tone

    loose: Any = pick.complete("tone")
    loose(["kind"])


def method_served_as_a_function() -> None:
    Toolhall(Shop.order)


def function_in_a_toolkit() -> None:
    @resource("shop://policy")
    def pick() -> str:
        return ""

    Toolhall(type("Bare", (Toolkit,), {"pick": pick})())


def context_behind_a_variable() -> None:
    @resource("shop://orders/{number}")
    def pick(number: int, ctx: Context) -> str:
        return str(number)


def argument_that_is_no_json() -> None:
    @prompt
    def pick(number: complex) -> str:
        return str(number)


MISTAKES: list[tuple[Callable[[], None], str]] = [
    (variable_without_parameter, "the URI has the variable 'number'; add a parameter of it"),
    (
        parameter_without_variable,
        "parameter 'status' is no variable of the URI; write it into the URI, for example shop://orders{?status}",
    ),
    (required_query_variable, "parameter 'status' is in the query, which may be missing; give it a default"),
    (resource_that_yields, "a resource cannot 'yield'; return a list"),
    (prompt_that_yields, "a prompt cannot 'yield'; return a list"),
    (option_of_a_tool, "@resource has no option 'effect'; it takes name, title, description, mime_type, level"),
    (option_of_a_resource, "@prompt has no option 'mime_type'; it takes name, title, description, level"),
    (without_uri, "it has no URI; write @resource('shop://policy')"),
    (uri_that_is_no_text, "the URI is 17; write @resource('shop://orders/{number}')"),
    (template("orders"), "a URI begins with a scheme; write it as 'myapp://orders'"),
    (template("shop://a b"), "' ' cannot stand in a URI; write it as %20"),
    (template("shop://{a", 1), "a '{' is not closed; write a '}' behind the variable"),
    (template("shop://{a:3}", 1), "a prefix cuts the value, so no URI could be matched; write {a}"),
    (template("shop://x{?a*}", 1), "'*' would take any query name; name each query variable"),
    (template("shop://{a}{b}", 2), "nothing separates 'a' and 'b'; put a literal between, such as /"),
    (template("shop://{+a}/{+b}", 2), "two variables span segments, so it is unclear where 'b' begins"),
    (template("shop://{a}/{a}", 1), "the variable 'a' is there twice; give one another name"),
    (option("level", 11), "level is 11; use a whole number from 0 to 10"),
    (option("mime_type", "markdown"), "mime_type is 'markdown'; use a type and a subtype, such as 'text/markdown'"),
    (option("fresh", -1), "fresh is -1; use seconds, at most a year"),
    (option("size", -1), "size is -1; use a number of bytes"),
    (option("shared", "yes"), "shared is 'yes'; use True or False"),
    (option("listed", 1), "listed is 1; use True or False"),
    (option("notes", {}), "notes is {}; use Notes(...)"),
    (option("version", "1.2"), "version"),
    (completion_of_an_unknown_argument, "no argument 'numbr' to complete; it has number"),
    (
        completion_with_another_parameter,
        "a completion takes any of (self, ctx: Context, typed: str, given: Mapping[str, str])",
    ),
    (completion_as_a_method_of_a_function, "'self' where the prompt does"),
    (completion_that_is_no_function, "['kind'] cannot complete; it is no function"),
    (context_behind_a_variable, "parameter 'ctx': the Context must be the first parameter, and only once"),
    (argument_that_is_no_json, "parameter 'number': type <class 'complex'> is not supported"),
]


@pytest.mark.parametrize(("declare", "message"), MISTAKES, ids=[message[:40] for _, message in MISTAKES])
def test_a_mistake_is_an_error_at_import_that_names_the_fix(declare: Callable[[], None], message: str) -> None:
    with pytest.raises(BadDeclaration, match=re.escape(message)) as caught:
        declare()
    assert re.match(r"(\S+\.py|<string>):\d+: (resource|prompt) '", str(caught.value)), "where, and what it is"


@pytest.mark.parametrize(
    ("serve", "message"),
    [
        (method_served_as_a_function, "resource 'order' is a method; serve an instance of its Toolkit"),
        (function_in_a_toolkit, "resource 'pick' of Bare: its first parameter must be 'self'"),
    ],
)
def test_a_method_and_its_toolkit_belong_together(serve: Callable[[], None], message: str) -> None:
    with pytest.raises(BadDeclaration, match=re.escape(message)):
        serve()


def test_two_resources_with_one_uri_are_refused_with_both_places() -> None:
    @resource("shop://orders/{number}")
    def one(number: int) -> str:
        return str(number)

    @resource("shop://orders/{name}")
    def two(name: str) -> str:
        return name

    with pytest.raises(Exception, match=r"two@0\.1\.0 has a URI, the id or the name of .*one@0\.1\.0") as caught:
        Toolhall(one, two)
    assert str(caught.value).count(f"{__file__}:") == 2
