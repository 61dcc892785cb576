"""The service below the surfaces: redaction, actors, changes with their reason in one transaction."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairlane as fl
from fairlane.domain.access import TokenRecord, parts_of, written
from fairlane.errors import ConfigError, Forbidden, InvalidValue, JobNotFound
from fairlane.faces import within
from fairlane.service import LOCAL, Actor, Redaction, Service
from fairlane.service.redaction import FAILED, HIDDEN
from fairlane.testing import ManualClock

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


# ---------------------------------------------------------------- redaction


@pytest.mark.parametrize(
    ("patterns", "value", "shown"),
    [
        (["*.password"], {"password": 1}, {"password": HIDDEN}),
        (["*.password"], {"a": {"b": [{"password": {"x": 1}}]}}, {"a": {"b": [{"password": HIDDEN}]}}),
        (["password"], {"a": {"password": 1}}, {"a": {"password": 1}}),
        (["card.*"], {"card": {"no": 1, "cvc": 2}, "n": 1}, {"card": {"no": HIDDEN, "cvc": HIDDEN}, "n": 1}),
        (["card.*"], {"card": 5}, {"card": 5}),
        (["a.*.c"], {"a": {"b": {"c": 1, "d": 2}}}, {"a": {"b": {"c": HIDDEN, "d": 2}}}),
        (["a.**.c"], {"a": {"c": 1, "b": {"b": {"c": 2}}}}, {"a": {"c": HIDDEN, "b": {"b": {"c": HIDDEN}}}}),
        (["**.**.c"], {"c": 1, "x": {"c": 2}}, {"c": HIDDEN, "x": {"c": HIDDEN}}),
        (["*token*"], {"my_token_x": 1, "t": 2}, {"my_token_x": HIDDEN, "t": 2}),
        (["*"], {"a": 1}, {"a": HIDDEN}),
        (["**"], {"a": {"b": 1}}, {"a": HIDDEN}),
        (["items.price"], {"items": [{"price": 1}, {"price": 2}]}, {"items": [{"price": HIDDEN}, {"price": HIDDEN}]}),
        (["*.password", "card.*"], [{"password": 1}], [{"password": HIDDEN}]),
        (["x"], 5, 5),
    ],
    ids=str,
)
def test_what_a_pattern_hides(patterns, value, shown):
    assert Redaction(patterns)("t", "args", value) == shown


@pytest.mark.parametrize("pattern", ["", "a..b", ".a", "a.", "a" * 1025, "\0"])
def test_patterns_that_cannot_be(pattern):
    with pytest.raises(ConfigError):
        Redaction([pattern])


@given(json_values, st.text(min_size=1, max_size=3).filter(lambda key: "." not in key and not set(key) & set("*?[]\0")))
def test_no_value_of_a_hidden_key_is_shown_and_nothing_else_is_touched(value, key):
    def walk(plain, shown):
        if isinstance(plain, dict):
            assert plain.keys() == shown.keys()
            for name, item in plain.items():
                if name == key:
                    assert shown[name] == HIDDEN
                else:
                    walk(item, shown[name])
        elif isinstance(plain, list):
            for item, other in zip(plain, shown, strict=True):
                walk(item, other)
        else:
            assert plain == shown

    try:
        redaction = Redaction([f"*.{key}"])
    except ConfigError:  # a half of a character
        return
    walk(value, redaction("t", "args", value))


def test_a_function_may_hide_more_and_one_that_fails_shows_nothing():
    def also(task, what, value):
        assert (task, what) == ("t", "result")
        return {"n": len(value)}

    assert Redaction(["a"], also)("t", "result", {"a": 1, "b": 2}) == {"n": 2}
    assert Redaction([], lambda *_: 1 / 0)("t", "args", {"a": 1}) == FAILED


# ---------------------------------------------------------------- actors and tokens


def test_roles_grow():
    assert [Actor("x", role).may("operator") for role in ("viewer", "operator", "admin")] == [False, True, True]
    assert LOCAL.as_viewer().role == "viewer"
    with pytest.raises(InvalidValue):
        Actor("x", "root")
    with pytest.raises(InvalidValue):
        Actor("", "viewer")


def test_an_actors_name_fits_the_record():
    token = TokenRecord(id="abc", name="ä" * 127, role="viewer", tenant=None, digest=bytes(32), created_at_ms=0)
    assert len(Actor.of(token).name.encode()) <= 255
    assert Actor.of(token).name.startswith("token:abc:ä")


@given(st.text(max_size=200))
def test_what_is_no_token_is_told_apart(text):
    found = parts_of(text)
    assert found is None or written(*found) == text


@pytest.mark.parametrize("wrong", [None, 5, b"secret", ["secret"]], ids=repr)
@pytest.mark.parametrize("name", ["revoke", "check", "used", "log_in", "session", "log_out"])
def test_a_token_of_a_wrong_type_is_refused_and_not_repeated(app, name, wrong):
    with pytest.raises(InvalidValue, match="must be ") as refused:
        getattr(app.tokens, name)(wrong)
    assert str(refused.value).endswith(f"not {type(wrong).__name__}")


@pytest.mark.parametrize("secret", ["", "a\0b", "\ud800", "x" * 5_000])
def test_a_secret_that_nobody_has_opens_nothing(app, secret):
    assert app.tokens.session(secret) is None
    assert app.tokens.check(secret) is None
    app.tokens.log_out(secret)


# ---------------------------------------------------------------- changes


@pytest.fixture
def app():
    with fl.Fairlane("sqlite://", clock=ManualClock()) as app:
        yield app


def test_a_refused_change_is_not_on_record(app):
    job = app.enqueue("a")
    app.claim().ack()
    service = Service(app, Actor("me", "operator"))
    before = app.owner.read(lambda store, _: store.audit(limit=99))
    for call in (service.cancel, service.retry, service.expedite, service.process, service.verify):
        with pytest.raises(fl.IllegalMove):
            asyncio.run(call(job.id, reason="why not"))
    assert app.owner.read(lambda store, _: store.audit(limit=99)) == before


def test_every_change_is_on_record_with_who_and_why(app):
    service = Service(app, Actor("me", "admin"))

    async def change() -> None:
        job = app.enqueue("a")
        dead = app.enqueue("b")
        for claim in app.claim_many(2):
            await (claim.adead("x") if claim.id == dead.id else claim.arelease())
        await service.boost(job.id, "high", reason="r1")
        await service.set_tier(job.id, "low", reason="r2")
        await service.expedite(job.id, reason="r3")
        await service.cancel(job.id, reason="r4")
        await service.retry(dead.id, reason="r5")
        await service.process(dead.id, expedite=True, reason="r6")
        await service.set_rule("queue", "q", {"max_running": 1}, reason="r7")
        await service.pause("tenant", "t", reason="r8")
        await service.resume("tenant", "t", reason="r9")
        await service.set_tier_objective("high", {"objective": 5}, reason="r10")
        await service.configure({"express_capacity": 5}, reason="r11")
        await service.do("cancel", {"queue": "q"}, reason="r12")

    asyncio.run(change())
    rows = app.owner.read(lambda store, _: store.audit(limit=99))
    assert {row.by for row in rows} == {"me"}
    assert [row.why for row in rows][::-1] == [f"r{number}" for number in range(1, 13)]


def test_reasons_have_bounds(app):
    job = app.enqueue("a")
    service = Service(app, LOCAL)
    for reason in ("x" * 1025, "\0", "\ud800"):
        with pytest.raises(InvalidValue):
            asyncio.run(service.cancel(job.id, reason=reason))
    assert job.refresh().state == "available"


def test_a_confined_actor_and_jobs_made_by_somebody_else(app):
    """Jobs that were not made by ``new`` are looked at again inside the transaction."""
    service = Service(app, Actor("me", "operator", tenant="acme"))
    with pytest.raises(Forbidden):
        asyncio.run(service.enqueue([app.new("a", tenant="globex")]))
    with pytest.raises(JobNotFound):
        asyncio.run(service.job(app.enqueue("a", tenant="globex").id))
    assert len(app.jobs()) == 1


def test_what_is_around_a_change_is_undone_with_it(app):
    """``within``: what belongs to a change is in its transaction, and nests."""
    order = []

    def note(name):
        def around(op):
            def both(store, now_ms):
                order.append(f"{name} begins")
                answer = op(store, now_ms)
                store.record(name, "w", "t", now_ms=now_ms)
                return answer

            return both

        return around

    with within(note("outer")), within(note("inner")):
        app.enqueue("a")
    assert order == ["outer begins", "inner begins"]
    assert [row.by for row in app.owner.read(lambda store, _: store.audit(limit=9))] == ["outer", "inner"]

    def fail(op):
        def both(store, now_ms):
            op(store, now_ms)
            raise RuntimeError

        return both

    with pytest.raises(fl.StoreError), within(fail):
        app.enqueue("b")
    app.enqueue("c")
    assert [job.task for job in app.jobs()] == ["c", "a"]
