"""The reference is whole and current: nothing public is undocumented, and generated pages are as generated."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from docs_pages import DOCS, script

import fairlane as fl
from fairlane import alerts, dead, registry, rules, scheduling, testing, tokens
from fairlane.metrics import METRICS
from fairlane.settings import SETTINGS
from fairlane.testing import plugin

API = {path.stem: path.read_text("utf-8") for path in (DOCS / "reference" / "api").glob("*.md")}
SHOWN = [name for text in API.values() for name in re.findall(r"^::: (\S+)$", text, re.MULTILINE)]
REACHED = (
    alerts.Alerts, dead.DeadLetters, rules.Handles, rules.Limit, rules.Queue, rules.TaskHandle, rules.Tenant,
    rules.TierHandle, scheduling.Schedules, registry.TaskMaker, tokens.Tokens, testing.ManualClock,
)  # fmt: skip
"""Classes that callers reach by an attribute, such as ``app.queues["mail"]``; they are public too."""
FUNCTIONS = (testing.drain, testing.assert_enqueued)
PUBLIC = [getattr(fl, name) for name in fl.__all__ if name != "__version__"]
MADE_FOR_YOU = {
    "Context", "Group", "Handles", "Job", "Operation", "PulledClaim", "Schedule", "Schedules", "Sink", "TaskMaker",
    "TierHandle", "DeadLetters",
}  # fmt: skip
"""Classes that callers are given and do not make, so that how they are made is no concern of theirs."""
COMMON = set(re.findall(r"`(\w+)`", API["app"].partition("| argument | meaning |")[2].partition(":::")[0]))
"""Arguments that mean the same in every call, told once on the page of the application."""
GENERATED = ("http", "metrics", "settings")  # and "cli": tests/surfaces/test_cli.py


INTERNAL = script("_griffe").INTERNAL


# ---------------------------------------------------------------- generated pages


@pytest.mark.parametrize("name", GENERATED)
def test_a_generated_page_is_current(name: str) -> None:
    page = (DOCS / "reference" / f"{name}.md").read_text("utf-8")
    assert page == script(f"gen_{name}").render(), f"run `python docs/gen_{name}.py`"


def test_every_setting_is_on_the_page_of_settings() -> None:
    page = (DOCS / "reference" / "settings.md").read_text("utf-8")
    for setting in SETTINGS:
        assert f"| `{setting.name}` | `{setting.variable}` |" in page
    for call in (fl.Fairlane, fl.Fairlane.worker, fl.Fairlane.run_worker, fl.Policy.fair, fl.Policy.strict,
                 rules.Queue.set, rules.Tenant.set, rules.Limit.set, rules.TierHandle.set):  # fmt: skip
        for name in inspect.signature(call).parameters:
            assert name in {"self", "by"} or f"| `{name}` |" in page, (call, name)


def test_every_metric_is_on_the_page_of_metrics() -> None:
    page = (DOCS / "reference" / "metrics.md").read_text("utf-8")
    assert re.findall(r"^\| `(fairlane_\w+)`", page, re.MULTILINE) == [metric.name for metric in METRICS]
    labels = set(re.findall(r"^\| `(\w+)` \| ", page.partition("| label |")[2], re.MULTILINE))
    explained = {"method", "route", "status", "operation", "priority", "version", "backend"}  # say what they are
    assert {label for metric in METRICS for label in metric.labels} <= labels | explained


# ---------------------------------------------------------------- what is public


def test_every_public_name_is_in_the_reference_once() -> None:
    paths = [f"fairlane.{name}" for name in fl.__all__ if name != "__version__"]
    assert sorted(name for name in SHOWN if name.count(".") == 1) == sorted(paths)
    reached = {f"{one.__module__.partition('.clock')[0]}.{one.__qualname__}" for one in REACHED}
    reached = {name.replace("alerts.dispatcher", "alerts") for name in reached}
    assert reached <= set(SHOWN)
    assert "fl.__version__" in API["app"]
    for function in testing.__all__:
        assert f"fairlane.testing.{function}" in SHOWN
    for fixture in re.findall(r"^def (\w+)", inspect.getsource(plugin), re.MULTILINE):
        assert f"fairlane.testing.plugin.{fixture}" in SHOWN


def documented(text: str, name: str) -> bool:
    return re.search(rf"\b{name}\b", text) is not None


def calls_of(kind: type) -> Iterator[tuple[str, Callable[..., Any], bool]]:
    """Give what callers can call of a class, with whether it is a property; what Python brings is left out."""
    for name in dir(kind):
        raw = inspect.getattr_static(kind, name)
        call = raw.fget if isinstance(raw, property) else getattr(raw, "__func__", raw)
        if name.startswith("_") or not inspect.isfunction(call) or call.__qualname__ in INTERNAL:
            continue
        if call.__module__.startswith("fairlane"):
            yield name, call, isinstance(raw, property)


def fields_of(kind: type) -> set[str]:
    """Return the fields that callers see or give."""
    if dataclasses.is_dataclass(kind):
        return {field.name for field in dataclasses.fields(kind) if not field.name.startswith("_")}
    for attribute in ("_fields", "__struct_fields__"):
        if hasattr(kind, attribute):
            return set(getattr(kind, attribute))
    return set(kind.__annotations__) if hasattr(kind, "__total__") else set()


def gaps_of(kind: type) -> Iterator[str]:
    """Give what is not documented of a class."""
    name = kind.__name__
    told = "\n".join(one.__doc__ or "" for one in kind.__mro__ if one.__module__.startswith("fairlane"))
    if hasattr(kind, "__total__"):  # a TypedDict forgets its bases, and may be told to checkers alone
        tree = ast.parse(inspect.getsource(sys.modules[kind.__module__]))
        told = "\n".join(ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    if not kind.__doc__ or kind.__doc__.startswith(f"{name}("):
        yield name
    yield from (f"{name}.{field}" for field in fields_of(kind) if not documented(told, field))
    for call, function, is_property in calls_of(kind):
        text = function.__doc__ or ""
        if not text:
            yield f"{name}.{call}"
        elif not is_property and not text.startswith("Do what :meth:"):
            yield from (f"{name}.{call}({gap})" for gap in arguments_without_word(function, text))
    made = kind.__dict__.get("__init__")
    known = dataclasses.is_dataclass(kind) or issubclass(kind, fl.FairlaneError) or name in MADE_FOR_YOU
    if inspect.isfunction(made) and not known:
        yield from (f"{name}({gap})" for gap in arguments_without_word(made, told))


def arguments_without_word(function: Callable[..., Any], text: str) -> Iterator[str]:
    for name, parameter in inspect.signature(function).parameters.items():
        passed_on = parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD} and name in {"args", "kwargs"}
        if name != "self" and name not in COMMON and not passed_on and not documented(text, name):
            yield name


@pytest.mark.parametrize("kind", [*PUBLIC, *REACHED], ids=lambda kind: kind.__name__)
def test_nothing_public_is_undocumented(kind: type) -> None:
    assert set(gaps_of(kind)) == set()


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_helpers_are_documented(function: Callable[..., Any]) -> None:
    assert not list(arguments_without_word(function, function.__doc__ or ""))


def test_a_gap_is_found() -> None:
    class Odd(fl.Policy):
        def frob(self, loud: bool) -> None:
            """Do it."""

    Odd.frob.__module__ = Odd.__module__ = "fairlane.odd"
    Odd.__doc__ = None
    assert {"Odd", "Odd.frob(loud)"} <= set(gaps_of(Odd))
