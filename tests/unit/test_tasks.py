"""Tasks: what is bound, checked, stored and handed over; registration; what a handler sees of its run."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import decimal
import enum
import inspect
import json
import logging
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import pydantic
import pytest

import fairlane as fl
from fairlane.registry import Registry, TaskMaker
from fairlane.tasks import Task

if TYPE_CHECKING:
    from fairlane import Context

Ctx = fl.Context
NOW = dt.datetime(2024, 5, 6, 7, 8, 9, 123456, tzinfo=dt.UTC)


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    at: dt.datetime


class Price(msgspec.Struct):
    amount: decimal.Decimal


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    key: uuid.UUID
    day: dt.date


class Email(str):
    __slots__ = ()


def make() -> TaskMaker:
    return TaskMaker(Registry(), None)  # type: ignore[arg-type]  # nothing here is stored


def task_of(fn: Callable[..., Any], **options: Any) -> Task[..., Any]:
    return Task(fn, **options)


def send(to: str, template: str = "hello", *, copies: int = 1) -> str:
    return f"{to} {template} {copies}"


# ---------------------------------------------------------------- binding


@pytest.mark.parametrize(
    ("args", "kwargs", "stored"),
    [
        (("a",), {}, {"to": "a"}),
        (("a", "b"), {}, {"to": "a", "template": "b"}),
        ((), {"to": "a", "copies": 3}, {"to": "a", "copies": 3}),
        (("a",), {"template": "é\u2028"}, {"to": "a", "template": "é\u2028"}),
    ],
)
def test_arguments_are_bound_to_names(args: Any, kwargs: Any, stored: Any) -> None:
    assert json.loads(task_of(send).bind(*args, **kwargs)) == stored


@pytest.mark.parametrize(
    ("args", "kwargs", "says"),
    [
        ((), {}, "argument 'to' is missing"),
        (("a", "b", 3), {}, "3 arguments by position; it takes 2 by position"),
        (("a",), {"to": "b"}, "'to' twice"),
        (("a",), {"tmpl": "b"}, "no argument 'tmpl'; it takes to, template, copies"),
        ((5,), {}, "args.to is 5: Expected `str`, got `int`"),
        (("a",), {"copies": "many"}, "args.copies is 'many': Expected `int`, got `str`"),
        (("a",), {"copies": True}, "args.copies is True"),
        (("a",), {"copies": 2**64}, "beyond 64 bits"),
        (("a\0",), {}, "args.to holds a NUL character at position 1"),
        (("a\ud800",), {}, "lone surrogate"),
        (("x" * 300_000,), {}, "the maximum is 262144"),
        ((object(),), {}, "args.to is of type object"),
    ],
)
def test_a_call_that_does_not_fit_is_refused(args: Any, kwargs: Any, says: str) -> None:
    with pytest.raises(fl.InvalidJob) as refused:
        task_of(send).bind(*args, **kwargs)
    assert says in str(refused.value)
    assert "'send'" in str(refused.value)


def test_nested_paths_are_named() -> None:
    def many(points: list[Point]) -> None: ...

    with pytest.raises(fl.InvalidJob, match=r"Expected `int`, got `str` at args\.points\[0\]\.x"):
        task_of(many).bind([Point("1", NOW)])  # type: ignore[arg-type]


def test_every_kind_of_argument_arrives_typed() -> None:
    class Local(msgspec.Struct):
        z: int

    def everything(
        when: dt.datetime,
        day: dt.date,
        span: dt.timedelta,
        key: uuid.UUID,
        price: decimal.Decimal,
        colour: Colour,
        point: Point,
        struct: Price,
        model: Strict,
        local: Local,
        email: Email,
        pair: tuple[int, str],
        table: dict[int, set[Colour]],
        either: dt.datetime | dt.date,
        word: Literal["a", "b"],
        least: Annotated[int, msgspec.Meta(ge=3)],
        anything: object,
        untyped,  # type: ignore[no-untyped-def]
        missing: int = None,  # type: ignore[assignment]  # noqa: RUF013  people write this
    ) -> None: ...

    model = Strict(key=uuid.uuid4(), day=NOW.date())
    given = {
        "when": NOW, "day": NOW.date(), "span": dt.timedelta(seconds=1.5), "key": uuid.uuid4(),
        "price": decimal.Decimal("1.10"), "colour": Colour.RED, "point": Point(1, NOW),
        "struct": Price(decimal.Decimal("9.990")), "model": model, "local": Local(4), "email": Email("a@b.c"),
        "pair": (1, "x"), "table": {}, "either": NOW.date(), "word": "a", "least": 3, "anything": [1],
        "untyped": {"k": 1}, "missing": None,
    }  # fmt: skip
    task = task_of(everything)
    arrived = task.arguments(task.bind(**given))
    assert arrived == given
    assert {name: type(value) for name, value in arrived.items()} == {
        name: type(value) for name, value in given.items()
    }
    assert str(arrived["price"]) == "1.10"


def test_json_objects_have_text_keys_and_arrive_with_the_annotated_ones() -> None:
    def count(table: dict[int, float]) -> None: ...

    assert task_of(count).arguments('{"table":{"7":2}}') == {"table": {7: 2.0}}


def test_a_union_that_msgspec_refuses_takes_the_first_type_that_fits() -> None:
    def either(value: dt.datetime | dt.date | uuid.UUID) -> None: ...

    task = task_of(either)
    for value in (NOW, NOW.date(), uuid.uuid4()):
        assert task.arguments(task.bind(value)) == {"value": value}
    with pytest.raises(fl.InvalidJob, match=r"args\.value is 'soon'"):
        task.bind("soon")


def test_further_arguments_by_name_are_allowed_where_the_handler_takes_them() -> None:
    def free(first: int, **more: decimal.Decimal) -> dict[str, Any]:
        return {"first": first, **more}

    task = task_of(free)
    body = task.bind(1, b=decimal.Decimal("2.0"))
    assert task.invoke(task.arguments(body), Ctx()) == {"first": 1, "b": decimal.Decimal("2.0")}
    with pytest.raises(fl.InvalidJob, match=r"args\.b is \[\]"):
        task.bind(1, b=[])


def test_arguments_left_out_keep_the_defaults_of_the_code_that_runs() -> None:
    task = task_of(send)
    assert task.invoke(task.arguments(task.bind("a")), Ctx()) == "a hello 1"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("[]", "Expected `object`"),
        ("nonsense", "not JSON"),
        ("{}", "argument 'to' is missing"),
        ('{"to":"a","other":1}', "unknown field `other`"),
        ('{"to":{}}', "args.to is {}"),
    ],
)
def test_stored_arguments_that_do_not_fit_are_refused(body: str, says: str) -> None:
    with pytest.raises(fl.InvalidJob) as refused:
        task_of(send).arguments(body)
    assert says in str(refused.value)


def test_an_unknown_annotation_hands_over_the_plain_value_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    def odd(value: NotThere) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    task = task_of(odd)
    with caplog.at_level(logging.WARNING, "fairlane.tasks"):
        assert task.arguments(task.bind({"a": 1})) == {"value": {"a": 1}}
    assert "annotation_unknown" in caplog.text


def test_a_name_that_is_defined_after_the_task_is_found() -> None:
    space: dict[str, Any] = {"Task": Task}
    exec(
        "from __future__ import annotations\nimport dataclasses\n"
        "def handler(item: Later): ...\ntask = Task(handler)\n"
        "@dataclasses.dataclass\nclass Later:\n    x: int\n",
        space,
    )
    assert space["task"].arguments('{"item":{"x":1}}') == {"item": space["Later"](1)}


# ---------------------------------------------------------------- the context


@pytest.mark.parametrize("place", ["first", "last", "middle", "by name", "optional", "text"])
def test_the_context_is_found_wherever_it_stands(place: str) -> None:
    def first(ctx: Ctx, a: int) -> Any:
        return ctx, a

    def last(a: int, ctx: Ctx) -> Any:
        return ctx, a

    def middle(a: int, ctx: Ctx, b: int = 2) -> Any:
        return ctx, a

    def by_name(a: int, *, run: Ctx) -> Any:
        return run, a

    def optional(a: int, ctx: Ctx | None = None) -> Any:
        return ctx, a

    def text(a: int, ctx: Context) -> Any:
        return ctx, a

    handlers: dict[str, Callable[..., Any]] = {
        "first": first, "last": last, "middle": middle, "by name": by_name, "optional": optional, "text": text,
    }  # fmt: skip
    task = make()(handlers[place])
    given = Ctx(task="mine")
    assert task.context_parameter == ("run" if place == "by name" else "ctx")
    assert task.bind(5) == '{"a":5}'
    assert task.invoke({"a": 5}, given) == (given, 5)
    made, a = task(5)
    assert isinstance(made, Ctx)
    assert made.task == task.name
    assert a == 5
    assert task(a=5)[1] == 5


def test_a_plain_call_may_bring_a_context_of_its_own() -> None:
    def last(a: int, ctx: Ctx) -> Any:
        return ctx

    given = Ctx()
    assert make()(last)(1, given) is given
    assert make()(last)(1, ctx=given) is given  # type: ignore[call-overload]


def test_callers_never_pass_the_context() -> None:
    def last(a: int, ctx: Ctx) -> None: ...

    with pytest.raises(fl.InvalidJob, match="context"):
        task_of(last).bind(1, ctx=Ctx())


def test_a_detached_context_does_nothing() -> None:
    ctx = Ctx()
    ctx.progress(0.5, "half")
    ctx.checkpoint({"next": 3})
    ctx.heartbeat()
    ctx.raise_if_stopping()
    ctx.charge(2)
    ctx.charge(0.5)
    assert (ctx.saved, ctx.should_stop, ctx.charged) == ({"next": 3}, False, 2.5)


class Keeper:
    """A holder that writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str | None, str | None]] = []
        self.reason: str | None = None
        self.lost = False

    def save(self, progress: str | None, checkpoint: str | None) -> None:
        if self.lost:
            raise fl.LeaseLost("job", 1)
        self.told.append((progress, checkpoint))

    def stopping(self) -> str | None:
        return self.reason


async def test_a_context_talks_to_its_holder() -> None:
    keeper = Keeper()
    ctx = Ctx(keeper, checkpoint='{"next":2}')
    assert ctx.saved == {"next": 2}
    ctx.progress(1, "x" * 5000 + "\0")
    await ctx.aprogress(0.25)
    await ctx.acheckpoint([1])
    await ctx.aheartbeat()
    assert [json.loads(told) for told, _ in keeper.told[:2] if told] == [
        {"share": 1.0, "note": "x" * 1024},
        {"share": 0.25, "note": ""},
    ]
    assert keeper.told[2:] == [(None, "[1]"), (None, None)]
    keeper.reason = "preempt"
    assert ctx.should_stop
    with pytest.raises(fl.StopRequested) as stop:
        ctx.raise_if_stopping()
    assert stop.value.reason == "preempt"
    keeper.lost = True
    with pytest.raises(fl.LeaseLost):
        ctx.checkpoint({"next": 9})
    assert ctx.saved == [1]


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan"), "half", True])
def test_a_share_is_from_0_to_1(share: Any) -> None:
    with pytest.raises(fl.InvalidValue, match="share"):
        Ctx().progress(share)


# ---------------------------------------------------------------- tasks and registration


async def test_a_plain_call_is_the_handler() -> None:
    maker = make()

    @maker
    def double(n: int) -> int:
        return n * 2

    @maker(queue="embed")
    async def later(n: int) -> int:
        """Say it later."""
        await asyncio.sleep(0)
        return n * 3

    assert double(2) == 4
    assert await later(2) == 6
    assert (double.is_async, later.is_async, later.queue, later.__doc__) == (False, True, "embed", "Say it later.")
    assert list(inspect.signature(later).parameters) == ["n"]


def test_options_are_kept() -> None:
    retry = fl.Retry(max_attempts=8)
    task = task_of(
        send,
        name="mail.send",
        queue="mail",
        tier="high",
        retry=retry,
        timeout=1.5,
        preemptible=True,
        limits=["a", "b:{tenant}"],
    )
    assert (task.name, task.queue, task.tier, task.retry, task.timeout_ms, task.preemptible, task.limits) == (
        "mail.send", "mail", fl.Tier.HIGH, retry, 1500, True, ("a", "b:{tenant}"),
    )  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [
        {"name": ""},
        {"name": "n" * 300},
        {"queue": "q\0"},
        {"tier": 5},
        {"tier": True},
        {"timeout": 0},
        {"timeout": float("inf")},
        {"timeout": "30"},
        {"retry": 3},
        {"preemptible": 1},
        {"limits": "openai"},
        {"limits": [""]},
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(fl.ConfigError):
        make()(**options)(send)


def test_unknown_options_are_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"'queu'; there are limits, name"):
        make()(queu="mail")  # type: ignore[call-overload]


def test_two_tasks_of_one_name_are_refused() -> None:
    maker = make()
    maker(send)
    with pytest.raises(
        fl.ConfigError, match=r"two tasks are called 'send': .*test_tasks\.send and .*test_tasks\.Point"
    ):
        maker(name="send")(Point.__init__)


def test_what_cannot_be_a_handler_is_refused() -> None:
    def yields() -> Any:
        yield 1

    async def ayields() -> Any:
        yield 1

    def stars(*items: int) -> None: ...

    def positional(a: int, /) -> None: ...

    def two(a: Ctx, b: Ctx) -> None: ...

    for fn in (yields, ayields, stars, positional, two, Point, lambda: None):
        with pytest.raises(fl.ConfigError):
            make()(fn)


def test_the_registry_knows_names_and_what_the_store_was_told() -> None:
    registry = Registry()
    task = TaskMaker(registry, None)(send)  # type: ignore[arg-type]
    assert registry.get("send") is task
    assert registry.get("other") is None
    assert registry.names == {"send"}
    assert (list(registry), len(registry), registry.undeclared) == ([task], 1, (task,))
    registry.declared(registry.undeclared)
    assert registry.undeclared == ()


def test_a_task_without_an_app_cannot_enqueue() -> None:
    with pytest.raises(fl.ConfigError, match="belongs to no app"):
        task_of(send).enqueue("a")


def test_results_arrive_typed_or_plain() -> None:
    def makes() -> Point | None: ...

    task = task_of(makes)
    assert task.signature.decode_result('{"x":1,"at":"2024-05-06T07:08:09.123456Z"}') == Point(1, NOW)
    assert task.signature.decode_result('"other"') == "other"
