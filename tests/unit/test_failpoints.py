"""Failpoints: the variable is understood or refused, and nothing happens when it is unset."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fairlane import failpoints
from fairlane.errors import ConfigError
from fairlane.failpoints import Armed, FailpointHit, act, failpoint, parse


@pytest.mark.parametrize(
    ("text", "armed"),
    [
        ("", None),
        ("before_ack", Armed("before_ack", "exit", 1)),
        ("mid_recovery:raise", Armed("mid_recovery", "raise", 1)),
        ("after_claim_commit:pause:12", Armed("after_claim_commit", "pause", 12)),
    ],
)
def test_the_variable_names_place_action_and_pass(text, armed):
    assert parse(text) == armed


@pytest.mark.parametrize(
    "text", ["nowhere", "before_ack:explode", "before_ack:exit:0", "before_ack:exit:x", "a:b:c:d", ":"]
)
def test_a_wrong_variable_is_refused(text):
    with pytest.raises(ConfigError, match="FAIRLANE_FAILPOINT is"):
        parse(text)


def test_nothing_happens_when_it_is_unset():
    assert not failpoints.ARMED
    for name in failpoints.NAMES:
        failpoint(name)


def test_raise_raises():
    with pytest.raises(FailpointHit, match="before_ack"):
        act(Armed("before_ack", "raise", 1))


def test_exit_comes_at_the_pass_that_was_named():
    program = (
        "from fairlane.failpoints import failpoint\nfor n in range(5):\n  print(n, flush=True); failpoint('before_ack')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"FAIRLANE_FAILPOINT": "before_ack:exit:3"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout.split()) == (9, [b"0", b"1", b"2"])
