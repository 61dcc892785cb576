"""Bells beside a SQLite file: who rings finds all that hang there, and who listens can end at any time."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from fairlane.stores.sqlite import beside
from fairlane.stores.sqlite.beside import Bells

LONG_S = 10.0


def test_a_bell_that_is_made_in_the_tick_of_a_look_around_is_rung(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """File systems tell by the kernel's tick, of 1 to 10 ms, when a folder was changed."""
    monkeypatch.setattr(beside, "TICK_MS", 60_000)  # this test may take as long as it likes
    ringer, listener, heard = Bells(tmp_path), Bells(tmp_path), threading.Event()
    (tmp_path / "a.alive").touch()
    at_ns = os.stat(tmp_path).st_mtime_ns
    ringer.ring(("work",))
    stop = listener.listen(lambda news: heard.set())
    os.utime(tmp_path, ns=(at_ns, at_ns))
    ringer.ring(("work",))
    assert heard.wait(LONG_S)
    stop()
    ringer.close()


def test_a_bell_is_not_taken_for_one_of_the_dead_before_somebody_hears_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    make, ringer, heard = os.mkfifo, Bells(tmp_path), threading.Event()

    def rung_at_once(path: Path) -> None:
        make(path)
        ringer.ring(("work",))

    monkeypatch.setattr(os, "mkfifo", rung_at_once)
    stop = Bells(tmp_path).listen(lambda news: heard.set())
    ringer.ring(("work",))
    assert heard.wait(LONG_S)
    stop()
    ringer.close()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_has_not_changed_for_a_tick_is_not_looked_through_again(tmp_path: Path):
    ringer, looks = Bells(tmp_path), []
    ringer._look_around = lambda: looks.append(1)  # type: ignore[method-assign]
    os.utime(tmp_path, ns=(1_000_000_000, 1_000_000_000))
    for _ in range(3):
        ringer.ring(("work",))
    assert looks == [1]
    os.utime(tmp_path, ns=(2_000_000_000, 2_000_000_000))
    ringer.ring(("work",))
    assert looks == [1, 1]


def test_a_bell_that_is_full_can_be_taken_down(tmp_path: Path):
    """As after its process stood still for a while."""
    inside, go = threading.Event(), threading.Event()

    def heard(news: object) -> None:
        inside.set()
        assert go.wait(LONG_S)

    bells, failed = Bells(tmp_path), []
    stop = bells.listen(heard)
    (bell,) = tmp_path.glob("*.bell")
    fd = os.open(bell, os.O_WRONLY | os.O_NONBLOCK)
    os.write(fd, b"w")
    assert inside.wait(LONG_S)
    with suppress(BlockingIOError):
        while os.write(fd, b"w" * 4096):
            pass
    os.close(fd)

    def end() -> None:
        try:
            stop()
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=end)
    thread.start()
    while bell.exists() and thread.is_alive():
        pass
    go.set()
    thread.join(LONG_S)
    assert not thread.is_alive()
    assert failed == []
