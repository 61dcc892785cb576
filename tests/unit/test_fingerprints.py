"""What dead jobs are grouped by, and the frame that a traceback gives."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairlane.domain.fingerprints import Fingerprint, explained, fingerprint_of, normalised
from fairlane.domain.jobs import ErrorRecord
from fairlane.worker.records import error_record, frame_of


def record(message: str, kind: str = "ValueError", frame: str = "app.f") -> ErrorRecord:
    return ErrorRecord(1, 0, "failure", kind, message, frame=frame)


# ---------------------------------------------------------------- messages


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("row 1 failed", "row 20 failed"),
        ("took 3.5 s", "took 12 s"),
        ("balance -5", "balance 1,234.50"),
        ("1e10 is too much", "2.5E-3 is too much"),
        ("at 2024-05-06T01:02:03", "at 2025-12-31T23:59:59"),
        ("job42 is gone", "job7 is gone"),
        ("no user 'ann'", "no user 'bob'"),
        ('no user "ann o\'neil"', 'no user "x"'),
        ("KeyError b'\\x00'", "KeyError b'ab'"),
        ("job 0198f0de-0000-7000-8000-000000000001", "job 0198F0DE-ffff-7000-8000-00000000abcd"),
        ("<Foo object at 0x7f3a12>", "<Foo object at 0xDEADBEEF>"),
        ("commit 9fceb02d0ae598e9", "commit 1a410efbd13591db07496601ebc7a059dd55cfe9"),
        ("cannot open /tmp/a/b.csv", "cannot open /var/lib/x y/c.csv"),
        ("cannot open C:\\tmp\\a.csv", "cannot open D:\\b.csv"),
        ("GET https://a.b/c?d=1 failed", "GET http://[::1]:80/ failed"),
        ("to ann@x.org: refused", "to bob+1@y.co.uk: refused"),
        ("ids [1, 2, 3] are taken", "ids [4] are taken"),
        ("want 'a', 'b' or 'c'", "want 'x' or 'c'"),
        ("two\n  lines 1", "two lines 2"),
        ("a" * 2_500 + "1", "a" * 2_500 + "b"),
    ],
)
def test_what_differs_from_job_to_job_is_left_out(one, other):
    assert normalised(one) == normalised(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("row is bad", "column is bad"),
        ("can't read", "can't write"),
        ("and/or", "either/or"),
        ("user isn't here, she's away", "user isn't there, she's away"),
        ("connection refused", "connection reset"),
        ("", "x"),
    ],
)
def test_what_tells_faults_apart_stays(one, other):
    assert normalised(one) != normalised(other)


NUMBERS = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.integers(0, 10**9))
WORDS = st.text(st.characters(codec="ascii", categories=["Ll", "Lu"]), min_size=1, max_size=12).filter(
    lambda word: not set(word.lower()) <= set("abcdefx")
)


@given(words=st.lists(WORDS, min_size=1, max_size=6), data=st.data())
def test_the_same_fault_with_other_numbers_has_one_fingerprint(words, data):
    ones, others = ([data.draw(NUMBERS) for _ in words] for _ in range(2))

    def said(numbers):
        return " ".join(f"{word} {number}" for word, number in zip(words, numbers, strict=True))

    assert fingerprint_of(record(said(ones)), None) == fingerprint_of(record(said(others)), None)


@given(one=st.uuids(), other=st.uuids(), texts=st.tuples(st.text(max_size=50), st.text(max_size=50)))
def test_ids_and_quoted_text_make_no_difference(one: UUID, other: UUID, texts):
    first, second = (
        fingerprint_of(record(f"job {job} says {json.dumps(text)} and ends"), None)
        for job, text in zip((one, other), (text.replace('"', "").replace("\\", "") for text in texts), strict=True)
    )
    assert first.id == second.id


@given(st.text(max_size=300), WORDS, WORDS)
@example("'" * 5_000, "A", "B")
@example("/" * 5_000, "A", "B")
@example("a@" * 2_500, "A", "B")
@example("a.b@" + "c." * 2_500, "A", "B")
@example("1-" * 2_500, "A", "B")
@example("<n>, " * 1_000, "A", "B")
def test_any_text_has_a_fingerprint_and_types_and_frames_tell_apart(text, one, other):
    first = fingerprint_of(record(text, kind=one), None)
    assert first == fingerprint_of(record(text, kind=one), "whatever the reason is")
    assert len(first.id) == 12
    assert (first.id == fingerprint_of(record(text, kind=other), None).id) == (one == other)
    assert (first.id == fingerprint_of(record(text, kind=one, frame=other), None).id) == (other == "app.f")
    assert explained(first.id, (record("earlier"), record(text, kind=one)), "r") == first


def test_normalising_is_done_with_what_it_has_done():
    for text in ("row 1", "a 'b' c", "/x/y z", "see http://a/b", "x@y.z", "0x1f"):
        assert normalised(normalised(text)) == normalised(text)


def test_a_crash_is_named_without_the_worker():
    crash = [ErrorRecord(1, 0, "crash", "WorkerLost", f"worker {name} is gone") for name in ("host-a", "b")]
    assert len({fingerprint_of(one, None).id for one in crash}) == 1


def test_without_an_error_the_reason_says_it():
    given_up, again = (fingerprint_of(None, f"given up after {n} checks") for n in (5, 900))
    assert given_up == again != fingerprint_of(None, "verification_timeout")
    assert fingerprint_of(None, None).label == fingerprint_of(None, "").label == "no reason given"


def test_groups_of_an_earlier_version_keep_their_name():
    assert explained("ValueError", (record("x"),), "r") == Fingerprint("ValueError", "ValueError", "", "")


# ---------------------------------------------------------------- frames


def module_of(path: Path, text: str) -> ModuleType:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def caught(call, *args) -> Exception:
    """Return what a call raises, with the frames below this one, as a worker has it."""
    with pytest.raises(Exception) as raised:  # noqa: PT011  whichever it is
        call(*args)
    tb = raised.value.__traceback__
    assert tb is not None
    return raised.value.with_traceback(tb.tb_next)


def test_the_innermost_own_function_is_named(tmp_path):
    lib = module_of(tmp_path / "site-packages" / "somelib.py", "def parse(text):\n    return int(text)\n")
    own = module_of(
        tmp_path / "ownapp.py",
        "import json\n"
        "class Mail:\n    def send(self, parse, text):\n        return parse(text)\n"
        "def handle(parse, text):\n    return Mail().send(parse, text)\n",
    )
    assert frame_of(caught(own.handle, lib.parse, "x")) == "ownapp.Mail.send"
    assert frame_of(caught(own.handle, json.loads, "{")) == "ownapp.Mail.send"
    error = error_record(caught(own.handle, lib.parse, "x"), kind="failure", attempt=1, at_ms=0, worker="w")
    assert error.frame == "ownapp.Mail.send"


def test_handlers_that_are_installed_are_their_own(tmp_path):
    packages = tmp_path / "site-packages"
    lib = module_of(packages / "otherlib.py", "def parse(text):\n    return int(text)\n")
    own = module_of(packages / "installedapp.py", "def handle(parse, text):\n    return parse(text)\n")
    assert frame_of(caught(own.handle, lib.parse, "x")) == "installedapp.handle"


def test_an_exception_that_was_not_raised_takes_the_frame_of_its_cause(tmp_path):
    own = module_of(tmp_path / "slowapp.py", "def handle():\n    raise OSError('x')\n")
    told = TimeoutError("ran 3 s")
    assert frame_of(told) == ""
    told.__cause__ = caught(own.handle)
    assert frame_of(told) == "slowapp.handle"


def test_what_cannot_be_looked_at_has_no_frame():
    class Odd(Exception):
        @property
        def __cause__(self):
            raise RuntimeError("no")

    assert frame_of(Odd()) == ""
    assert frame_of(caught(json.loads, "{")) == ""
