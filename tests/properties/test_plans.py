"""A pipeline with CallPlans decides, answers, records and counts every call as one without."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.harness.seeds import examples
from tests.unit.builders import Clock
from toolhall.authoring.context import PausableDeadline
from toolhall.execution.schema_worker import ProcessValidator
from toolhall.model.call_records import AuditRecord
from toolhall.model.caller import ANONYMOUS, LOCAL, Caller, RequireVerification
from toolhall.model.errors import ToolhallError
from toolhall.model.json import JsonObject, encode
from toolhall.model.messages import Answer, Call, CallTool, CompletedCall
from toolhall.model.names import ToolId
from toolhall.model.requirements import AccountRequirement, AccountToken, CallerCredentials, MissingRequirement
from toolhall.model.secret import Secret
from toolhall.model.tool import Deprecation, Effect, Tool
from toolhall.pipeline import plans
from toolhall.pipeline.access_rules import GrantRules
from toolhall.pipeline.audit import Audit
from toolhall.pipeline.dispatcher import Dispatcher
from toolhall.pipeline.equip import Equip
from toolhall.pipeline.find import Authorize, Find
from toolhall.pipeline.limit import Limit, RateLimits
from toolhall.pipeline.pipeline import Pipeline, Stages
from toolhall.pipeline.plans import CallPlan, CallPlans
from toolhall.pipeline.policy import RECENT_SECONDS, LevelPolicy, PlanCache
from toolhall.pipeline.rate_buckets import Charge, Rate
from toolhall.pipeline.run import Run
from toolhall.pipeline.sanitize import Sanitize
from toolhall.pipeline.validate import Check, Validate
from toolhall.pipeline.verify import Verify
from toolhall.registry.registry import RETIRED, Conflict, Registry
from toolhall.registry.snapshot import Entry, compile_entry
from toolhall.stores.access import Condition, Grant
from toolhall.stores.audit.journal import MemoryJournal
from toolhall.telemetry import Telemetry

START = 1_750_000_000.0  # 2025-06-15
DAY = 86_400.0
KEY = Secret("SK-0123456789-abcdef")
INPUT = {
    "type": "object",
    "properties": {"n": {"type": "integer", "maximum": 5}, "colour": {"enum": ["red", "blue"], "default": "red"}},
    "additionalProperties": False,
}


class Spec(NamedTuple):
    """What a tool is made from; each world has an entry of its own."""

    kit: str
    name: str
    version: str = "1.0.0"
    level: int | None = None
    effect: Effect | None = "reads"
    requirements: JsonObject | None = None
    sunset: str | None = None
    description: str = ""
    foreign: bool = False

    @property
    def id(self) -> str:
        return f"{self.kit}.{self.name}@{self.version}"

    def tool(self) -> Tool:
        return Tool(
            id=ToolId(self.kit, self.name, self.version),
            name=f"{self.kit}_{self.name}",
            input=INPUT,
            level=self.level,
            effect=self.effect,
            requirements=self.requirements,
            description=self.description,
            foreign=self.foreign,
            deprecation=None if self.sunset is None else Deprecation(sunset=self.sunset),
        )


SPECS = (
    *(Spec("Kit", f"step{level}", level=level) for level in range(10)),
    Spec("Kit", "wipe", effect="destroys"),
    Spec("Kit", "mail", requirements={"secrets": [{"id": "MAIL"}]}),
    Spec("Kit", "post", level=1, requirements={"user_id": True}),
    Spec("Kit", "sync", requirements={"authorization": [{"id": "hub", "oauth2": {"scopes": ["a"]}}]}),
    Spec("Kit", "many", "1.0.0", 0),
    Spec("Kit", "many", "1.2.0", 1),
    Spec("Kit", "many", "2.0.0", 5),
    Spec("Kit", "old", "1.0.0", 1, sunset="2025-06-16"),
    Spec("Kit", "old", "1.1.0", 1),
    Spec("Kit", "gone", level=0, sunset="2025-06-17"),
    Spec("Other", "open", level=0),
    Spec("Other", "write", level=4, effect="writes"),
    Spec("Other", "alien", foreign=True),
)
NAMES = (
    *sorted({f"{spec.kit}_{spec.name}" for spec in SPECS}),
    *sorted({spec.id for spec in SPECS}),
    *("Kit.many", "Kit.many@^1", "Kit.many@^1.1", "Kit.many@1.x", "Kit.many@>=1.0.0", "Kit.many@2", "Kit.old@^1.0"),
    *("Kit.step1@^1", "nothing", "Kit.nothing@1", "", "Kit.many@", "@"),
)
CALLERS = {
    "local": LOCAL,
    "anonymous": ANONYMOUS,
    "near": msgspec.structs.replace(ANONYMOUS, address="192.0.2.1"),
    "far": msgspec.structs.replace(ANONYMOUS, address="198.51.100.9"),
    "ada": Caller("ada", proof="key", person="ada", scopes=frozenset({"tools:*"}), expires_at=START + DAY),
    "ada again": Caller("ada", proof="key", person="ada", scopes=frozenset({"tools:*"}), expires_at=START + 9 * DAY),
    "ada forever": Caller("ada", proof="key", person="ada", scopes=frozenset({"tools:*"}), credential=KEY),
    "kit": Caller("bob", proof="key", scopes=frozenset({"tools:Kit"}), expires_at=START + DAY, credential=KEY),
    "no scope": Caller("bob", proof="key", expires_at=START + DAY),
    "admin": Caller("root", proof="key", scopes=frozenset({"tools:*", "admin"}), expires_at=START + DAY),
    "shared": Caller("crew", proof="shared", scopes=frozenset({"tools:*"})),
    "acting": Caller("ada", proof="key", scopes=frozenset({"tools:*"}), expires_at=START + DAY, acting_for="eve"),
    "token": Caller(
        "sso:eve", proof="token", scopes=frozenset({"tools:*"}), expires_at=START + DAY, authenticated_at=START - 60
    ),
    "later token": Caller(
        "sso:eve", proof="token", scopes=frozenset({"tools:*"}), expires_at=START + DAY, authenticated_at=START + 3_600
    ),
    "timeless token": Caller("sso:eve", proof="token", scopes=frozenset({"tools:Kit"}), expires_at=START + DAY),
}


SENT = {
    "nothing": None,
    "no credentials": CallerCredentials(),
    "a secret": CallerCredentials(secrets={"MAIL": KEY}),
    "another secret": CallerCredentials(secrets={"OTHER": KEY}),
}


class MakeCall(NamedTuple):
    """A call; `copied`: the caller is an equal object and not the same."""

    caller: str
    tool: str
    arguments: JsonObject
    copied: bool = False
    sent: str = "nothing"  # a key of SENT
    encoded: bool = False
    how: str = "answer"  # or record_repeat, refuse


class ChangeTools(NamedTuple):
    """Tools that come and go in one step, and the states of those that are not served."""

    added: tuple[Spec, ...]
    removed: tuple[str, ...]
    state: str = ""


class SetRules(NamedTuple):
    """The grants from now on."""

    grants: tuple[Grant, ...]


class PassTime(NamedTuple):
    """The clock moves."""

    seconds: float


class SetSecret(NamedTuple):
    """Whether the secret and the account are there."""

    present: bool


Step = MakeCall | ChangeTools | SetRules | PassTime | SetSecret


class EchoRunner:
    """Returns its arguments and a secret; notes what it was called with."""

    def __init__(self, spec: Spec, calls: list[tuple[str, JsonObject]]) -> None:
        self._spec = spec
        self._calls = calls

    async def run(self, tool: Tool, call: Call, arguments: JsonObject, deadline: PausableDeadline) -> object:
        self._calls.append((self._spec.id, arguments))
        if arguments.get("n") == 4:
            raise ValueError("as the arguments say")
        if arguments.get("n") == 3:
            await asyncio.sleep(0)
        return {"id": self._spec.id, "said": self._spec.description, "given": arguments, "key": KEY.reveal()}


class Vault:
    """A secret and a linked account, or none."""

    def __init__(self) -> None:
        self.present = False

    def get(self, name: str, user: str | None) -> Secret | None:
        return KEY if self.present else None

    def cached_token(self, user: str, need: AccountRequirement) -> AccountToken | None:
        return None

    async def get_token(self, user: str, need: AccountRequirement) -> AccountToken | None:
        return AccountToken(need.provider, KEY, need.scopes) if self.present else None

    async def link_requirement(
        self, caller: Caller, need: AccountRequirement, tool: str
    ) -> tuple[MissingRequirement, str]:
        return MissingRequirement("account", account=need), f"{caller.user} links {need.provider}"


class Person:
    """Approves the calls of one colour."""

    async def approve(self, tool: Tool, call: Call, arguments: JsonObject, verdict: RequireVerification) -> bool:
        return arguments.get("colour") == "red"


class CountedPlans(CallPlans):
    """Counts how often a plan decided, and how often it skipped verify and equip."""

    def __init__(
        self, registry: Registry, policy: LevelPolicy, charges: Callable[[Caller, Entry], tuple[Charge, ...]]
    ) -> None:
        super().__init__(registry, policy, charges)
        self.decided = self.unguarded = 0

    def find(self, call: Call) -> CallPlan | None:
        plan = super().find(call)
        self.decided += plan is not None
        self.unguarded += plan is not None and plan.unguarded is not None
        return plan


class World:
    """A registry, a policy and a pipeline of their own."""

    def __init__(self, setup: "Setup", *, with_plans: bool) -> None:
        self.clock = clock = Clock(START)
        self.registry = registry = Registry(10)
        policy = LevelPolicy(
            GrantRules(setup.grants), overrides=setup.overrides, allow_anonymous=setup.allow_anonymous, clock=clock
        )
        self.vault = vault = Vault()
        self.journal = MemoryJournal()
        self.telemetry = Telemetry()
        limit = Limit(setup.rates, clock)
        self.plans = CountedPlans(registry, policy, limit.charges) if with_plans else None
        self.ran: list[tuple[str, JsonObject]] = []
        self.conflicts: list[str] = []
        equip = Equip(vault, vault, ("Kit.mail@*",))
        stages = Stages(
            find=Find(registry, policy, clock),
            authorize=Authorize(policy),
            limit=limit,
            validate=Validate(ProcessValidator()),
            verify=Verify(policy, Person(), None, equip.check_ready),
            equip=equip,
            run=Run(10),
            check=Check(100_000),
            sanitize=Sanitize(),
            audit=Audit(self.journal, clock, clock),
            plans=self.plans,
            telemetry=self.telemetry,
        )
        ids = iter(range(1, 10_000))
        self.dispatcher = Dispatcher(
            registry, policy, Pipeline(stages), new_id=lambda: f"call-{next(ids)}", timer=clock
        )
        registry.add(map(self.entry, SPECS[:-1]))

    def entry(self, spec: Spec) -> Entry:
        return compile_entry(spec.tool(), EchoRunner(spec, self.ran))

    async def apply(self, step: Step) -> object:
        """Do what the step says; what can be seen of it."""
        match step:
            case MakeCall():
                return await self._call(step)
            case ChangeTools():
                self._change(step)
            case SetRules(grants):
                self.dispatcher.set_rules(GrantRules(grants))
            case PassTime(seconds):
                self.clock.now += seconds
            case SetSecret(present):
                self.vault.present = present
        return None

    async def _call(self, step: MakeCall) -> object:
        caller = CALLERS[step.caller]
        if step.copied:
            caller = msgspec.structs.replace(caller)
        encoded = encode(step.arguments) if step.encoded else None
        size = len(step.tool) + 2
        call = CallTool(
            step.tool, dict(step.arguments), "test", size, caller_credentials=SENT[step.sent], encoded_arguments=encoded
        )
        match step.how:
            case "record_repeat":
                return shown(await self.dispatcher.record_repeat(call, caller))
            case "refuse":
                return shown(self.dispatcher.refuse(call, caller, ToolhallError("as the test says")))
            case _:
                return shown(await self.dispatcher.answer(call, caller))

    def _change(self, step: ChangeTools) -> None:
        entries = [self.entry(spec) for spec in step.added]
        gone = [entry.tool for entry in self.registry.snapshot.entries if entry.id in step.removed]
        try:
            self.registry.change(entries, step.removed)
        except Conflict as conflict:
            self.conflicts.append(str(conflict))
            return
        for tool in gone:
            if step.state:
                self.registry.inactive.put(tool, step.state)
        for entry in entries:
            self.registry.inactive.drop(entry.id)

    def state(self) -> object:
        """Everything but ids and times that calls leave behind."""
        counts = {name: each.counts for name, each in self.telemetry.durations.items()}
        return (
            [without_identity(record) for record in self.journal.records],
            {key: series.count for key, series in self.telemetry.calls.items()},
            counts,
            self.ran,
            self.conflicts,
        )


def without_identity(record: AuditRecord) -> AuditRecord:
    return msgspec.structs.replace(record, call="", time=0.0, duration_us=0)


def shown(answer: Answer | None) -> object:
    """An answer as a value that can be compared."""
    if isinstance(answer, CompletedCall):
        return str(answer.tool.id), answer.tool.description, repr(answer.result)
    if isinstance(answer, ToolhallError):
        fields = {name: repr(value) for name, value in vars(answer).items() if name != "hidden"}
        return type(answer).__name__, answer.message, fields, getattr(answer, "hidden", None) is not None
    return repr(answer)


class Setup(NamedTuple):
    """What both worlds begin with."""

    grants: tuple[Grant, ...]
    overrides: dict[str, int]
    allow_anonymous: bool
    rates: RateLimits


async def compare(setup: Setup, steps: Sequence[Step]) -> CountedPlans:
    """Apply the steps to both worlds, and compare them after each."""
    planned, plain = World(setup, with_plans=True), World(setup, with_plans=False)
    for number, step in enumerate(steps):
        assert await planned.apply(step) == await plain.apply(step), (number, step)
        assert planned.state() == plain.state(), (number, step)
    assert planned.plans is not None
    return planned.plans


colours = st.sampled_from([(), (), (Condition("/colour", ("red",)),), (Condition("/n", (1, 2)),)])


def grants_of(rules: list[tuple[str, str, str, tuple[Condition, ...]]]) -> tuple[Grant, ...]:
    return tuple(
        Grant(
            id=f"g{number}",
            effect="forbid" if effect == "forbid" else "permit",
            callers=callers,
            tools=tools,
            conditions=conditions,
            created_at=START,
            by="test",
        )
        for number, (effect, callers, tools, conditions) in enumerate(rules)
    )


rules = st.lists(
    st.tuples(
        st.sampled_from(["permit", "permit", "permit", "forbid"]),
        st.sampled_from(["*", "ada", "bob", "sso:*", "root"]),
        st.sampled_from(["*", "Kit.*", "Kit.step[4-9]", "Kit.many@2.*", "Other.*", "Kit.mail", "Kit.step1"]),
        colours,
    ),
    max_size=4,
).map(grants_of)
ALL_PERMITTED = grants_of([("permit", "*", "*", ())])
arguments = st.sampled_from(
    [{}, {}, {"n": 1}, {"n": 3}, {"n": 4}, {"n": 9}, {"n": "x"}, {"colour": "red"}, {"colour": "blue"}, {"x": 1}]
)
credentials = st.sampled_from(["nothing", "nothing", "nothing", *SENT])
hows = st.sampled_from([*["answer"] * 6, "record_repeat", "refuse"])
calls = st.builds(
    MakeCall, st.sampled_from(sorted(CALLERS)), st.sampled_from(NAMES), arguments, st.booleans(), credentials,
    st.booleans(), hows,
)  # fmt: skip


def usual_call(caller: str, tool: str, given: JsonObject, copied: bool) -> MakeCall:
    return MakeCall(caller, tool, given, copied)


def changed_spec(spec: Spec, level: int | None, description: str) -> Spec:
    return spec._replace(level=level, description=description)


def addition(spec: Spec) -> ChangeTools:
    return ChangeTools((spec,), ())


def replacement(spec: Spec) -> ChangeTools:
    return ChangeTools((spec,), (spec.id,))


simple_calls = st.builds(
    usual_call,
    st.sampled_from(["local", "ada", "kit", "token", "near", "admin"]),
    st.sampled_from(
        ["Kit_step0", "Kit_step1", "Kit.step4@1.0.0", "Kit_step7", "Kit_many", "Kit.many@^1", "Kit_old", "Kit_gone"]
    ),
    st.sampled_from([{}, {"n": 1}, {"colour": "red"}]),
    st.booleans(),
)
changed_specs = st.builds(
    changed_spec,
    st.sampled_from(SPECS),
    st.sampled_from([None, 0, 1, 4, 7, 9]),
    st.sampled_from(["", "another"]),
)
states = st.sampled_from(["", "inactive", "quarantined", "registered", RETIRED])
ids = st.lists(st.sampled_from([spec.id for spec in SPECS]), min_size=1, max_size=2, unique=True).map(tuple)
changes = st.one_of(
    st.builds(ChangeTools, st.just(()), ids, states),
    changed_specs.map(addition),
    changed_specs.map(replacement),
)
times = st.sampled_from([0.5, 10.0, 3_600.0, RECENT_SECONDS - 61, RECENT_SECONDS, DAY]).map(PassTime)
steps = st.one_of(
    simple_calls, simple_calls, calls, changes, st.builds(SetRules, st.one_of(rules, st.just(ALL_PERMITTED))),
    times, st.builds(SetSecret, st.booleans()),
)  # fmt: skip


@st.composite
def scripts(draw: st.DrawFn) -> list[Step]:
    """Steps, in which a call is often made again."""
    script: list[Step] = []
    for step in [draw(simple_calls), *draw(st.lists(steps, min_size=3, max_size=14))]:
        script.append(step)
        made = [each for each in script if isinstance(each, MakeCall)]
        script += made[-draw(st.integers(1, 4)) :]
    return script


setups = st.builds(
    Setup,
    st.one_of(st.just(ALL_PERMITTED), rules),
    st.sampled_from([{}, {}, {"Kit.step1": 4}, {"Kit.*": 2, "Kit.step0": 9}, {"*": 1}]),
    st.booleans(),
    st.sampled_from(
        [
            RateLimits(),
            RateLimits(caller=Rate(1_000, 1_000)),
            RateLimits(caller=Rate(0.5, 8), costs={"Kit.step1": 3, "Kit.*@2*": 2}),
            RateLimits(caller=Rate(1, 20), tool=Rate(0.1, 5), pair=Rate(0.01, 3), running=1),
        ]
    ),
)


def test_plans_change_no_answer_record_or_metric_of_any_sequence_of_calls_and_changes() -> None:
    taken: Counter[str] = Counter()

    @settings(max_examples=examples(800))
    @given(setups, scripts())
    def check(setup: Setup, script: list[Step]) -> None:
        counted = asyncio.run(compare(setup, script))
        event(f"a plan decided: {counted.decided > 0}; without verify and equip: {counted.unguarded > 0}")
        taken["all"] += 1
        taken["decided"] += counted.decided > 0
        taken["unguarded"] += counted.unguarded > 0

    check()
    assert taken["decided"] * 2 >= taken["all"], taken
    assert taken["unguarded"] * 2 >= taken["all"], taken


def test_plans_change_nothing_for_any_caller_and_tool_before_and_after_any_change() -> None:
    """Every caller calls every tool twice, around each kind of change."""
    around: list[Step] = [
        SetRules(grants_of([("permit", "*", "*", (Condition("/colour", ("red",)),))])),
        SetRules(grants_of([("permit", "*", "*", ()), ("forbid", "ada", "Kit.step[1-5]", ())])),
        SetSecret(True),
        ChangeTools((), ("Kit.many@2.0.0",), "quarantined"),
        ChangeTools((SPECS[-1], SPECS[1]._replace(description="another")), (SPECS[1].id,)),
        PassTime(RECENT_SECONDS),
        PassTime(DAY),
        SetRules(()),
    ]
    names = [*(spec.id for spec in SPECS), "Kit.many", "Kit.many@^1", "Kit_old"]
    every: list[Step] = [MakeCall(caller, name, {"colour": "red"}) for caller in CALLERS for name in names]
    script = [*every, *every]
    for change in around:
        script += [change, *every]
    setup = Setup(ALL_PERMITTED, {}, True, RateLimits())

    async def run() -> None:
        planned, plain = World(setup, with_plans=True), World(setup, with_plans=False)
        for number, step in enumerate(script):
            assert await planned.apply(step) == await plain.apply(step), (number, step)
        assert planned.state() == plain.state()
        assert planned.plans is not None
        assert planned.plans.decided > len(every)

    asyncio.run(run())


def test_plans_are_bounded_and_dropped_with_the_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "MAX_PLANS", 50)
    setup = Setup(ALL_PERMITTED, {}, False, RateLimits())

    async def run() -> None:
        world = World(setup, with_plans=True)
        sizes: list[int] = []
        for number in range(120):
            await world.apply(MakeCall("ada", f"Kit.many@^1.0.{number}", {}))
            sizes.append(plans_of(world))
        assert max(sizes) == 50
        assert sizes[-1] == 20
        await world.apply(ChangeTools((), ("Kit.many@2.0.0",)))
        await world.apply(MakeCall("ada", "Kit_many", {}))
        assert plans_of(world) == 1

    asyncio.run(run())


@pytest.mark.parametrize("copied", [False, True])
def test_plans_end_with_the_sign_in_that_they_depend_on(copied: bool) -> None:
    call = MakeCall("token", "Kit_step7", {}, copied)
    later: list[Step] = [PassTime(RECENT_SECONDS - 61), call, PassTime(1.0), call, PassTime(1.0), call, PassTime(1.0)]

    async def run() -> list[str]:
        setup = Setup(ALL_PERMITTED, {}, False, RateLimits())
        planned = await compare(setup, [call, call, *later, call])
        assert planned.decided >= 3
        world = World(setup, with_plans=True)
        for step in (call, call, PassTime(RECENT_SECONDS), call):
            await world.apply(step)
        return [each.outcome for each in world.journal.records if each.phase is None]

    assert asyncio.run(run()) == ["ok", "ok", "Denied"]


@pytest.mark.parametrize("caller", ["near", "far"])
def test_plans_keep_no_call_of_an_anonymous_caller(caller: str) -> None:
    assert kept(MakeCall(caller, "Kit_step0", {})) == 0


@pytest.mark.parametrize("tool", ["Kit.old@1.0.0", "Kit_gone"])
def test_plans_keep_no_call_of_a_tool_with_a_sunset(tool: str) -> None:
    assert kept(MakeCall("ada", tool, {})) == 0


@pytest.mark.parametrize("tool", ["nothing", "Kit.step4@1.0.0"])
def test_plans_keep_no_refusal(tool: str) -> None:
    assert kept(MakeCall("no scope", tool, {})) == 0


def plans_of(world: World) -> int:
    """How many plans there are, of all callers."""
    caches: list[PlanCache] = vars(world.plans)["_caches"]
    return sum(len(cache.plans) for cache in caches)


def kept(call: MakeCall) -> int:
    """How many plans a call leaves."""

    async def run() -> int:
        world = World(Setup(ALL_PERMITTED, {}, True, RateLimits()), with_plans=True)
        await world.apply(call)
        return plans_of(world)

    return asyncio.run(run())
