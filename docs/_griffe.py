"""How docstrings and signatures become pages: twins as one call, roles of reStructuredText as links.

A call that is written once and has two faces (``fairlane/faces.py``) is in the source a generator under ``@twin`` and
an attribute, ``aenqueue = later(enqueue)``. Readers shall see what callers see.
"""

from __future__ import annotations

import re
from typing import Any, Final

import griffe

ROLE: Final = re.compile(r":(?:meth|class|func|data|attr|exc|mod):`~?([^`]+)`")
TWINS: Final = {"later", "threaded"}
INTERNAL: Final = {
    "Alerts.until",
    "BulkClient.start",
    "Client.put",
    "DeadGroup.of",
    "Handles.shown",
    "Holder.decode_result",
    "Holder.opened",
    "Holder.owner",
    "Holder.retry_of",
    "Homed.opened",
    "Homed.owner",
    "Incident.of",
    "NewJob.arrival_ms",
    "NewJob.lane",
    "Retry.delay_ms",
    "Retry.worth_another_try",
    "ScheduleInfo.of",
    "Schedules.add",
    "Schedules.join",
    "Schedules.said",
    "Task.arguments",
    "Task.arguments_of",
    "Task.bind",
    "Task.decode_result",
    "Task.invoke",
    "Task.producer",
    "Task.terms",
}
"""What other parts of the package call and callers have no use for: left out of the reference."""


class Faces(griffe.Extension):
    """Rewrites what griffe has read of the package."""

    def on_package(self, *, pkg: griffe.Module, loader: griffe.GriffeLoader, **kwargs: Any) -> None:
        """Go through the whole package once it is read."""
        del loader, kwargs
        exported = {str(name) for name in pkg.exports or ()}
        _walk(pkg, exported)


def _walk(parent: griffe.Module | griffe.Class, exported: set[str]) -> None:
    for name, member in list(parent.members.items()):
        if isinstance(member, griffe.Alias):
            continue
        if f"{parent.name}.{name}" in INTERNAL:
            parent.del_member(name)
            continue
        if isinstance(member, griffe.Attribute) and (twin := _twin_of(member)) is not None:
            parent.del_member(name)
            _note(parent, twin, name)
            continue
        if isinstance(member, griffe.Function):
            _plain(member)
        if member.docstring is not None:
            member.docstring.value = _linked(member.docstring.value, exported)
        if isinstance(member, griffe.Module | griffe.Class):
            _walk(member, exported)


def _twin_of(attribute: griffe.Attribute) -> str | None:
    """Return whose asynchronous face an attribute is, or None."""
    found = re.fullmatch(r"(\w+)\((\w+)\)", str(attribute.value or ""))
    return found[2] if found and found[1] in TWINS else None


def _note(parent: griffe.Module | griffe.Class, call: str, twin: str) -> None:
    member = parent.members.get(call)
    if isinstance(member, griffe.Function) and member.docstring is not None:
        head, gap, rest = member.docstring.value.partition("\n\n")
        member.docstring.value = f"{head}\n\nAsynchronous: `await {twin}(…)`.{gap}{rest}"


def _plain(function: griffe.Function) -> None:
    """Show a twin with what it returns, and no decorator."""
    if not any(str(one.value) == "twin" for one in function.decorators):
        return
    function.decorators = []
    returns = function.returns
    if isinstance(returns, griffe.ExprSubscript) and str(returns.left) == "Steps":
        function.returns = returns.slice


def _linked(text: str, exported: set[str]) -> str:
    def link(found: re.Match[str]) -> str:
        path = found[1]
        name = path.rpartition(".")[2]
        return f"[`{name}`][fairlane.{name}]" if name in exported else f"`{path.removeprefix('fairlane.')}`"

    return ROLE.sub(link, text)
