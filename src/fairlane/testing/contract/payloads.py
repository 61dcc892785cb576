"""What may be stored: one rule for every store, and text that no settle fails on."""

from __future__ import annotations

import math
from typing import Any

import pytest

from fairlane.domain.jobs import MAX_ARGS_BYTES, MAX_ERROR_BYTES, MAX_ERRORS
from fairlane.domain.payloads import encode
from fairlane.domain.states import State
from fairlane.domain.tiers import Tier
from fairlane.errors import InvalidJob, InvalidValue
from fairlane.testing.contract.base import Contract
from fairlane.testing.contract.bench import Bench


def ascii_id(text: str) -> str:
    """Return a short, printable name for a text."""
    return f"{text[:8]!a}x{len(text)}"


_CYCLE: list[Any] = []  # Any: it holds itself
_CYCLE.append(_CYCLE)

ODD_VALUES: dict[str, tuple[Any, str]] = {  # Any: arbitrary values are the subject
    "NUL": ({"a": ["x", "a\0b"]}, r"args\.a\[1\]"),
    "NUL in a key": ({"a\0": 1}, "args"),
    "NaN": ({"a": {"b": math.nan}}, r"args\.a\.b"),
    "infinity": ({"a": -math.inf}, r"args\.a"),
    "lone surrogate": ({"a": "\ud800"}, r"args\.a"),
    "2**63": ({"a": 2**63}, r"args\.a"),
    "-2**63-1": ({"a": -(2**63) - 1}, r"args\.a"),
    "5,000 digits": ({"a": 10**5_000}, r"args\.a"),
    "1 MiB": ({"a": "x" * 2**20}, "262144"),
    "a cycle": ({"a": _CYCLE}, r"args\.a"),
    "a number as key": ({"a": {1: 2}}, r"args\.a"),
    "bytes": ({"a": b"x"}, r"args\.a"),
    "an object": ({"a": object()}, r"args\.a"),
}

FINE_VALUES: dict[str, Any] = {  # Any: as above
    "extremes": {"least": -(2**63), "most": 2**63 - 1, "small": 5e-324, "large": 1.7e308},
    "text": {"a": "\u2028\u202e\U0001f600 ' \" % _ \\ -- ;", "": "empty key"},
    "deep": {"a": [[[[[[[[[[{"b": [None, True, False]}]]]]]]]]]]},
    "large": {"a": "x" * (MAX_ARGS_BYTES - 8)},
    "empty": {},
}

ODD_TEXTS = {
    "NUL": "a\0b",
    "lone surrogate": "a\ud800b",
    "empty": "",
    "256 bytes": "x" * 256,
    "256 bytes of two-byte letters": "é" * 128,
    "not text": 7,
}

ODD_NAMES = ("Ünïcödé 🙂", "'; DROP TABLE jobs; --", "%_*?", "x" * 255, "é" * 127, "\u202egnp", "a\nb", " ", "{tenant}")

BAD_TIERS = (-1, 5, 2**31, 1.5, True, "", "CRITICAL ", "1", math.nan, None)


class PayloadsContract(Contract):
    """B15, B42, T-O1: odd payloads, names, tiers and error texts."""

    @pytest.mark.parametrize("case", ODD_VALUES)
    def test_odd_payload_is_refused(self, b: Bench, case: str) -> None:
        """B15: what some database could not store is refused at enqueue, with the path of the offending value."""
        value, path = ODD_VALUES[case]
        with b.refused(InvalidJob, match=path):
            b.put(args=encode(value, what="args", max_bytes=MAX_ARGS_BYTES))

    @pytest.mark.parametrize("case", FINE_VALUES)
    def test_payload_travels_unchanged(self, b: Bench, case: str) -> None:
        """What is accepted comes back byte for byte, from a look-up and from a claim."""
        args = encode(FINE_VALUES[case], what="args", max_bytes=MAX_ARGS_BYTES)
        job = b.put(args=args)
        assert b.job(job).args == args
        assert b.take().args == args

    def test_text_that_is_too_long_is_refused(self, b: Bench) -> None:
        """Arguments above 256 KiB are refused by the job itself, whoever wrote the JSON."""
        with b.refused(InvalidJob, match="262144"):
            b.put(args='"' + "x" * 2**20 + '"')

    @pytest.mark.parametrize("case", ODD_TEXTS)
    def test_odd_name_is_refused(self, b: Bench, case: str) -> None:
        """T-C3: a name is text of 1 to 255 bytes without NUL and lone surrogates."""
        for field in ("tenant", "queue", "task", "dedup_key"):
            options: dict[str, Any] = {field: ODD_TEXTS[case]}  # Any: what a caller might pass
            with b.refused(InvalidJob, match=field):
                b.put(**options)

    def test_any_other_name_is_fine(self, b: Bench) -> None:
        """T-C3: any UTF-8 text up to 255 bytes names a tenant, queue, task, key and tag, and takes its turn."""
        jobs = {b.put(name, name, name, dedup_key=name, tags=(name,)): name for name in ODD_NAMES}
        for job, name in jobs.items():
            record = b.job(job)
            assert (record.task, record.queue, record.tenant, record.dedup_key, record.tags) == (name,) * 4 + ((name,),)
            assert [found.id for found in b.all_jobs(queue=name, task=name, tenant=name, tag=name)] == [job]
        assert sorted(b.drain()) == sorted(jobs)

    def test_odd_tier_is_refused(self, b: Bench) -> None:
        """T-O1, T-B2, B42: a tier is one of five; -1, 5, 1.5, True, text with a blank are none."""
        for tier in BAD_TIERS:
            with b.refused(InvalidJob, match="tier"):
                b.put(tier=tier)

    @pytest.mark.parametrize("tier", [-1, 5, 7])
    def test_odd_tier_is_no_boost(self, b: Bench, tier: int) -> None:
        """2.1 no. 12: a boost to a tier that does not exist is an error, not a quiet False."""
        job = b.put()
        with b.refused(InvalidValue, match="tier"):
            b.boost(job, tier)

    def test_tier_is_kept(self, b: Bench) -> None:
        """T-O1: the five tiers by number and name."""
        for tier in Tier:
            assert b.job(b.put(tier=tier)).tier == int(tier) == Tier.of(tier.label)

    # ------------------------------------------------------------------ text that comes from user code

    @pytest.mark.parametrize("text", ["x\0y", "x\ud800y", "x" * 2**20, "", "\ud800" * 9_000], ids=ascii_id)
    @pytest.mark.parametrize("way", ["fail", "die", "cancel"])
    def test_error_text_never_fails_a_settle(self, b: Bench, way: str, text: str) -> None:
        """B15, B18: a NUL, a lone surrogate or a megabyte in an exception's text is put right, never refused."""
        job = b.put()
        claim = b.take()
        if way == "fail":
            assert b.fail(claim, message=text, delay_ms=5)
        elif way == "die":
            assert b.die(claim, message=text, reason=text or "none")
        else:
            assert b.settle(claim, "cancelled", reason=text)
        record = b.job(job)
        assert record.state is {"fail": State.SCHEDULED, "die": State.DEAD, "cancel": State.CANCELLED}[way]
        for kept in (*(error.message for error in record.errors), record.reason or ""):
            assert "\0" not in kept
            assert len(kept.encode()) <= MAX_ERROR_BYTES

    def test_tracebacks_and_types_are_put_right_too(self, b: Bench) -> None:
        """Every text of an error record may be odd."""
        job = b.put()
        claim = b.take()
        error = b.error(claim, kind="T\0\udc80" * 10_000)
        assert b.settle(claim, "retry", error=error)
        assert len(b.job(job).errors) == 1

    def test_history_of_errors_is_bounded(self, b: Bench) -> None:
        """Of the errors of a job that fails for ever the first and the newest are kept, oldest first (T-M16)."""
        job = b.put()
        for n in range(MAX_ERRORS + 10):
            b.fail(b.take(), message=f"no. {n}")
        messages = [error.message for error in b.job(job).errors]
        assert len(messages) <= MAX_ERRORS
        assert messages[0] == "no. 0"
        assert messages[-10:] == [f"no. {n}" for n in range(MAX_ERRORS, MAX_ERRORS + 10)]
