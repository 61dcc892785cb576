"""Places where a crash test can end, stop or break a process: ``FAIRLANE_FAILPOINT=name[:action[:hit]]``.

Actions are ``exit`` (the default: the process ends at once, like ``kill -9``), ``raise`` and ``pause`` (the process
stops until somebody continues it). ``hit`` says at which pass it happens, from 1: ``before_ack:exit:3``.

When the variable is unset, a place costs one look at a constant: ``failpoint("before_ack")`` returns at once, and where
even the call is too much, ``if ARMED:`` stands before it.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Final, Literal, NamedTuple

from fairlane.errors import ConfigError

VARIABLE: Final = "FAIRLANE_FAILPOINT"
NAMES: Final = (
    "before_commit",
    "after_commit",
    "before_block_commit",
    "after_block_commit",
    "after_claim_commit",
    "before_ack",
    "after_ack_before_return",
    "mid_recovery",
    "mid_promote",
    "mid_replay",
    "mid_migration",
    "mid_restore",
    "mid_schedule",
)
EXIT_CODE: Final = 9
_PARTS: Final = 3

Action = Literal["exit", "raise", "pause"]
ACTIONS: Final[tuple[Action, ...]] = ("exit", "raise", "pause")


class Armed(NamedTuple):
    """What happens where, and at which pass."""

    name: str
    action: Action
    at: int


class FailpointHit(RuntimeError):
    """A place with the action ``raise`` was reached; only crash tests see it."""


def parse(text: str) -> Armed | None:
    """Return what the variable's value asks for; None when it is empty.

    Raises:
        ConfigError: The name or the action is unknown, or the hit is no number from 1.

    Example:
        >>> parse("before_ack:exit:3")
        Armed(name='before_ack', action='exit', at=3)
    """
    if not text:
        return None
    parts = text.split(":")
    name, action, at = (*parts, *("", "exit", "1")[len(parts) :])[:_PARTS]
    if len(parts) > _PARTS or name not in NAMES or action not in ACTIONS or not (at.isdecimal() and int(at)):
        raise ConfigError(
            f"{VARIABLE} is {text!r}; it must be name[:action[:hit]], a name of {', '.join(NAMES)}, an action of "
            f"{', '.join(ACTIONS)} and a hit from 1"
        )
    return Armed(name, ACTIONS[ACTIONS.index(action)], int(at))


_armed: Final = parse(os.environ.get(VARIABLE, ""))
_passes: list[str] = []

ARMED: Final = _armed is not None


def failpoint(name: str) -> None:
    """Do what is armed at this place, if anything.

    Raises:
        FailpointHit: The action is ``raise`` and this pass is the one.
    """
    if _armed is None or name != _armed.name:
        return
    _passes.append(name)  # appending is atomic, so two threads cannot both be the n-th
    if len(_passes) == _armed.at:
        act(_armed)


def act(armed: Armed) -> None:
    """Carry out the action.

    Raises:
        FailpointHit: The action is ``raise``.
    """
    if armed.action == "exit":
        os._exit(EXIT_CODE)
    if armed.action == "raise":
        raise FailpointHit(armed.name)
    # To this thread: sent to the process, another thread may take it while this one goes on for a while.
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
