"""The helpers for tests of programs that use fairlane."""

import pytest

import fairlane as fl
from fairlane.testing import ManualClock, assert_enqueued, drain


def test_drain_runs_what_is_due(fairlane_app: fl.Fairlane, fairlane_clock: ManualClock) -> None:
    seen: list[str] = []

    @fairlane_app.task
    def note(word: str) -> None:
        seen.append(word)

    note.enqueue("now")
    note.using(delay=60).enqueue("later")
    drain(fairlane_app)
    assert seen == ["now"]
    fairlane_clock.advance(seconds=60)
    drain(fairlane_app)
    assert seen == ["now", "later"]


def test_assert_enqueued_looks_at_arguments_and_fields(fairlane_app: fl.Fairlane) -> None:
    fairlane_app.enqueue("mail.send", {"to": "a@b.c", "copies": 2}, tenant="acme")
    (job,) = assert_enqueued(fairlane_app, "mail.send", {"to": "a@b.c"}, count=1, tenant="acme", state="available")
    assert job.tenant == "acme"
    assert_enqueued(fairlane_app, "mail.send", {"to": "x"}, count=0)
    with pytest.raises(AssertionError, match=r"(?s)0 jobs of task 'mail.send' fit .*a@b\.c"):
        assert_enqueued(fairlane_app, "mail.send", {"to": "x"})
