"""What becomes of jobs by themselves: they fall due, expire, end, and the end of one lets those behind it go.

Every end goes through :meth:`Following._ended`. It tells the jobs behind in portions: the first
:data:`RELEASE_AT_ONCE` in the transaction that ends the job; the table ``release`` keeps the rest for later claims and
looks at the timers. A cancelled follower's end is one more row of that table, so a chain of ten thousand jobs is no
deep recursion but a list that is worked off.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, NamedTuple

from fairlane.domain.intake import SUCCEEDS, goes_on, reason_for
from fairlane.domain.states import State
from fairlane.failpoints import failpoint
from fairlane.stores._queries import named
from fairlane.stores.tables.rules import Rules

DUE: Final = named("due")
DUE_AVAILABLE: Final = named("due_available")
EXPIRE: Final = named("expire")
CANCEL_WAITING: Final = named("cancel_waiting")
BEHIND_NONE: Final = named("behind_none")
BEHIND_LESS: Final = named("behind_less")
BEHIND_OVER: Final = named("behind_over")
EDGES_LEAVE: Final = named("edges_leave")
EDGES_DONE: Final = named("edges_done")
FOLLOWERS: Final = named("followers")
RELEASE_PUT: Final = named("release_put")
RELEASE_NEXT: Final = named("release_next")
RELEASE_DROP: Final = named("release_drop")

DUE_AT_ONCE: Final = 1_000
"""Timers noticed in one claim, in order of time."""
RELEASE_AT_ONCE: Final = 1_000
"""Followers told in one transaction: it bounds how long the others wait."""
SCHEDULED, AVAILABLE, CANCELLED = int(State.SCHEDULED), int(State.AVAILABLE), int(State.CANCELLED)
FOLLOWED, BEHIND = 1, 2
"""Ties of a job that ends: jobs wait for it; it waits for others."""


class _Follower(NamedTuple):
    """A job behind one that has ended."""

    seq: int
    marks: int
    lane: int
    arrival_ms: int
    number: int | None
    behind: int
    due_ms: int
    expires_at_ms: int | None


class Following(Rules):
    """Timers, ends, and what follows from them."""

    _told: int = 0
    """Followers told in this transaction."""
    _telling: bool = False

    def _fresh_look(self) -> None:
        """Forget what the last transaction knew."""
        super()._fresh_look()
        self._told = 0

    # ------------------------------------------------------------------ timers

    def _notice_due(self, now_ms: int) -> None:
        """Make due jobs available, cancel expired ones, tell followers: a bounded portion of each at once."""
        with self._together(now_ms):
            rows = self._x(DUE, {"now_ms": now_ms, "most": DUE_AT_ONCE}).fetchall()
            for seq, state, lane, arrival_ms, number, expires_at_ms in rows:
                if expires_at_ms is not None and expires_at_ms <= now_ms:
                    (ties,) = self._x(EXPIRE, {"seq": seq, "now_ms": now_ms}).fetchone()
                    self._left(lane, arrival_ms, seq, number, state=state)
                    self._ended(seq, CANCELLED, ties, now_ms)
                else:
                    failpoint("mid_promote")
                    self._x(DUE_AVAILABLE, {"seq": seq, "now_ms": now_ms})
                    self._count(lane, scheduled=-1)
                    self._joined(lane, arrival_ms, seq, number)

    # ------------------------------------------------------------------ ends

    def _ended(self, seq: int, state: int, ties: int, now_ms: int) -> None:
        """Note that a job has ended; every way out goes through here.

        Args:
            seq: Its number.
            state: How it ended.
            ties: ``FOLLOWED`` when jobs wait for it, and ``BEHIND`` when it waited for others.
            now_ms: The instant.
        """
        self._fresh.add("end")
        if ties & BEHIND:
            self._x(EDGES_LEAVE, {"child": seq, "marks": 0})
            self._x(BEHIND_NONE, {"seq": seq})
        if ties & FOLLOWED:
            self._x(RELEASE_PUT, {"parent": seq, "state": state})
            self._tell_followers(now_ms)

    @contextmanager
    def _together(self, now_ms: int) -> Generator[None]:
        """Let jobs that were read before end one after the other; those behind them are told when all have.

        Else the end of one would change the state of another that is still to come.
        """
        self._telling = True
        try:
            yield
        finally:
            self._telling = False
        self._tell_followers(now_ms)

    def _tell_followers(self, now_ms: int) -> None:
        """Tell jobs behind those that have ended, as many as this transaction may."""
        if self._telling:
            return  # it goes on with what was just added
        self._telling = True
        try:
            while (row := self._x(RELEASE_NEXT).fetchone()) is not None:
                if self._told >= RELEASE_AT_ONCE:
                    self._fresh.add("work")  # somebody has to go on
                    return
                parent, upto, state, parent_id = row
                self._tell(parent, upto, state, parent_id, now_ms)
        finally:
            self._telling = False

    def _tell(self, parent: int, upto: int, state: int, parent_id: bytes | None, now_ms: int) -> None:
        """Tell a portion of the jobs behind one that has ended."""
        most = RELEASE_AT_ONCE - self._told
        rows = self._x(FOLLOWERS, {"parent": parent, "upto": upto, "most": most}).fetchall()
        followers = [_Follower(*row) for row in rows]
        self._told += len(followers)
        last = upto
        if len(followers) == most:
            last = followers[-1].seq
        if last == upto:
            self._x(RELEASE_DROP, {"parent": parent, "upto": upto})
        self._x(EDGES_DONE, {"parent": parent, "upto": last})
        joined: dict[int, list[tuple[int, int]]] = {}
        for one in followers:
            failpoint("mid_promote")
            if not goes_on(state, one.marks):
                self._drop_out(one, reason_for(parent_id, state), now_ms)
            elif one.behind > 1:
                self._x(BEHIND_LESS, (one.marks & SUCCEEDS, one.seq))
            elif self._let_go_on(one, now_ms):
                joined.setdefault(one.lane, []).append((one.arrival_ms, one.seq))
        for lane, places in joined.items():
            self._count(lane, available=len(places))
            self._emit(("+", lane, places, 0), "work")

    def _drop_out(self, one: _Follower, reason: str, now_ms: int) -> None:
        """Cancel a job behind others."""
        (ties,) = self._x(CANCEL_WAITING, {"seq": one.seq, "reason": reason, "now_ms": now_ms}).fetchone()
        self._count(one.lane, scheduled=-1)
        self._ended(one.seq, CANCELLED, ties, now_ms)

    def _let_go_on(self, one: _Follower, now_ms: int) -> bool:
        """Let a job go on that waits for no other any more; return whether it is to join its lane."""
        if one.due_ms > now_ms:
            self._x(BEHIND_OVER, (SCHEDULED, one.due_ms, None, one.seq))
            self._fresh.add("work")  # there is one more timer
            return False
        self._x(BEHIND_OVER, (AVAILABLE, one.expires_at_ms, now_ms, one.seq))
        self._count(one.lane, scheduled=-1)
        if one.number is None:
            return True
        self._joined(one.lane, one.arrival_ms, one.seq, one.number)
        return False

    # ------------------------------------------------------------------ lanes

    def _joined(self, lane: int, arrival_ms: int, seq: int, number: int | None) -> None:
        """Note that a job has become available."""
        if number is not None:
            self._emit(("x", lane, arrival_ms, seq, number), "work")
        else:
            self._count(lane, available=1)
            self._emit(("+", lane, [(arrival_ms, seq)], 0), "work")

    def _left(self, lane: int, arrival_ms: int, seq: int, number: int | None, *, state: int) -> None:
        """Note that a job waits no more."""
        if state == SCHEDULED:
            self._count(lane, scheduled=-1)
        else:
            if number is None:
                self._count(lane, available=-1)
            self._emit(("-", lane, arrival_ms, seq, number))
