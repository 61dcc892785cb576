"""Bells between processes: NOTIFY after a commit. A lost one costs a poll interval, never a job."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import Any, Final
from uuid import uuid4

import psycopg

from fairlane.background import started
from fairlane.errors import FairlaneError
from fairlane.store import News
from fairlane.stores.postgres.connection import Address, connect

_LETTERS: Final[dict[News, str]] = {"work": "w", "end": "e", "ask": "a"}
_NEWS: Final[dict[str, News]] = {letter: news for news, letter in _LETTERS.items()}
RETRY_S: Final = 1.0
LOOK_S: Final = 0.5
"""How long the listening thread waits before it looks whether it is to stop."""


class Bells:
    """Rings for other processes, and listens for theirs."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self.channel = f"fairlane_{address.schema}"[:63]
        self._stops: list[Callable[[], None]] = []
        self._token = uuid4().hex

    def ring(self, raw: psycopg.Connection[Any], news: Collection[News]) -> None:
        """Tell the others; through a pooler nobody would hear."""
        if not self._address.pooled and not raw.closed:
            letters = "".join(sorted(_LETTERS[item] for item in news))
            raw.execute(f"NOTIFY {self.channel}, '{self._token}:{letters}'".encode())

    def listen(self, heard: Callable[[frozenset[News]], None]) -> Callable[[], None]:
        """Call ``heard`` from a thread of its own whenever others ring; return how to stop."""
        if self._address.pooled:
            return lambda: None
        stopping = threading.Event()
        thread = started(self._run, "fairlane-bell", heard, stopping)

        def stop() -> None:
            stopping.set()
            if threading.current_thread() is not thread:
                thread.join()

        self._stops.append(stop)
        return stop

    def _run(self, heard: Callable[[frozenset[News]], None], stopping: threading.Event) -> None:
        while not stopping.is_set():
            try:
                raw = connect(self._address)
            except FairlaneError:
                stopping.wait(RETRY_S)
                continue
            try:
                raw.execute(f"LISTEN {self.channel}".encode())
                while not stopping.is_set():
                    for note in raw.notifies(timeout=LOOK_S, stop_after=1):
                        token, _, letters = note.payload.partition(":")
                        news: frozenset[News] = frozenset(_NEWS[letter] for letter in letters if letter in _NEWS)
                        if news and token != self._token:
                            heard(news)
            except psycopg.Error:
                stopping.wait(RETRY_S)
            finally:
                raw.close()

    def close(self) -> None:
        """Stop listening; safe to call twice."""
        while self._stops:
            self._stops.pop()()
