"""Processors for structlog: which job a line belongs to, and fairlane's own lines taken apart into fields.

They take and return plain dictionaries, so nothing is imported here; see the page on structlog.
"""

from __future__ import annotations

import logging
import re
from collections.abc import MutableMapping
from typing import Any, Final

from fairlane.domain.tiers import Tier
from fairlane.worker.logs import running

EventDict = MutableMapping[str, Any]  # Any: what structlog has in it

_FIELD: Final = re.compile(r"(\w+)=%(?:\.\d+)?[a-z]")
_OURS: Final = "fairlane"


def add_job(logger: object, method: str, event_dict: EventDict) -> EventDict:
    """Add what runs here: ``job``, ``task``, ``queue``, ``tenant``, ``tier``, ``attempt``, and ``trace`` if it has one.

    It knows by itself, in threads and in coroutines, also in what a handler calls; outside a handler it adds nothing.
    What the line says itself is kept. In the verify phase ``phase`` is added too.

    Args:
        logger: The logger; not looked at.
        method: What it was called with; not looked at.
        event_dict: The line.
    """
    del logger, method
    claim = running.get()
    if claim is None:
        return event_dict
    lane = claim.start.lane
    event_dict.setdefault("job", str(claim.uuid))
    event_dict.setdefault("task", claim.task)
    event_dict.setdefault("queue", lane.queue)
    event_dict.setdefault("tenant", lane.tenant)
    event_dict.setdefault("tier", Tier(lane.tier).label)
    event_dict.setdefault("attempt", claim.attempt)
    if claim.phase != "process":
        event_dict.setdefault("phase", claim.phase)
    if claim.trace is not None:
        event_dict.setdefault("trace", claim.trace)
    return event_dict


def split_event(logger: object, method: str, event_dict: EventDict) -> EventDict:
    """Take a line of fairlane's own apart: ``job_dead job=… task=… reason=…`` becomes an event with these fields.

    For ``foreign_pre_chain`` of structlog's ``ProcessorFormatter``. Lines of others are left as they are. Values are
    text, as in the line; words behind the last field become ``note``.

    Args:
        logger: The logger; not looked at.
        method: What it was called with; not looked at.
        event_dict: The line, with the standard library's record as ``_record``.
    """
    del logger, method
    record = event_dict.get("_record")
    if not isinstance(record, logging.LogRecord) or record.name.partition(".")[0] != _OURS:
        return event_dict
    event_dict.update(_taken_apart(str(record.msg), str(event_dict["event"])))
    return event_dict


def _taken_apart(template: str, line: str) -> dict[str, str]:
    """Return the event, the fields and the note of a line that ``logging`` made of a template.

    Example:
        >>> _taken_apart("job_%s job=%s reason=%s", "job_dead job=1 reason=a b=c")
        {'event': 'job_dead', 'job': '1', 'reason': 'a b=c'}
        >>> _taken_apart("process_lost pid=%d: again in %.1f s", "process_lost pid=7: again in 0.5 s")
        {'event': 'process_lost', 'pid': '7', 'note': 'again in 0.5 s'}
    """
    event, _, rest = line.partition(" ")
    told = {"event": event.rstrip(":")}
    names: list[str] = _FIELD.findall(template)
    for name, following in zip(names, [*names, None][1:], strict=True):
        value = rest.partition(f"{name}=")[2]
        if following is not None:
            value, _, rest = value.partition(f" {following}=")
            rest = f"{following}={rest}"
        elif words := _FIELD.split(template)[-1].partition("%")[0]:
            value, _, rest = value.rpartition(words)
            rest = words + rest
        else:
            rest = ""
        told[name] = value
    if rest:
        told["note"] = rest.strip(": ")
    return told
