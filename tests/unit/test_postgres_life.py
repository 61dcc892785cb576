"""Signs of life of a process's workers: its own threads, in the orders that matter; no server."""

from __future__ import annotations

import threading
from typing import Any

import psycopg
import pytest

from fairlane.errors import StoreError
from fairlane.stores.postgres import life
from fairlane.stores.postgres.connection import address_of
from fairlane.stores.postgres.life import Lives

WAIT_S = 10.0


class Db:
    """Stands for the connection and its server: it counts what it is told of each worker."""

    def __init__(self) -> None:
        self.raw = self
        self.closed = False
        self.refuses = False
        self.signs: dict[str, int] = {}
        self.given = threading.Condition()

    def execute(self, name: str, values: dict[str, Any]) -> None:
        if self.refuses:
            raise psycopg.errors.ReadOnlySqlTransaction("no changes")
        worker = values["worker"]
        with self.given:
            self.signs[worker] = self.signs.get(worker, 0) + 1 if name == "life_put" else 0
            self.given.notify_all()

    def close(self) -> None:
        self.closed = True


class Lock:
    """A lock that does something the next time that it is let go."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.then: Any = None

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        then, self.then = self.then, None
        self._lock.release()
        if then is not None:
            then()


@pytest.fixture
def db(monkeypatch: pytest.MonkeyPatch) -> Db:
    made = Db()
    monkeypatch.setattr(life, "alive", lambda *_: made)
    return made


def test_a_worker_that_begins_while_the_last_one_ends_goes_on_giving_signs(
    db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    lives = Lives(address_of("postgresql:///nowhere"))
    lock = Lock()
    lives._lock = lock  # type: ignore[assignment]
    monkeypatch.setattr(life, "RENEW_S", WAIT_S)  # nobody else lets the lock go
    first = lives.begin("first")
    monkeypatch.setattr(life, "RENEW_S", 0.01)
    last: list[life.Life] = []
    lock.then = lambda: last.append(lives.begin("second"))
    first.close()
    with db.given:
        assert db.given.wait_for(lambda: db.signs.get("second", 0) > 1, WAIT_S), "it gives no more signs"
    assert not db.closed
    last[0].close()
    assert db.closed


def test_a_sign_that_is_refused_is_told_as_an_error_of_ours_and_the_next_one_goes_elsewhere(db: Db) -> None:
    lives = Lives(address_of("postgresql:///nowhere"))
    db.refuses = True
    with pytest.raises(StoreError, match="could not give a sign of life"):
        lives.begin("first")
    assert db.closed
    lives.close()
