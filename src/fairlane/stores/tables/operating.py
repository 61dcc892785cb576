"""Operations: one action on many jobs, a portion in a transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec.structs import replace

from fairlane.domain.operations import (
    MAX_REFUSALS,
    OperationPlan,
    OperationRecord,
    OperationState,
    Refusal,
    allowed_now,
    due_after,
)
from fairlane.domain.payloads import sanitised
from fairlane.errors import FairlaneError, IllegalMove, OperationNotFound, StoreError
from fairlane.failpoints import failpoint
from fairlane.store import KEPT_OPERATIONS, Counted
from fairlane.stores._mirror import encode
from fairlane.stores._queries import named
from fairlane.stores.tables.ground import JOB_LAST
from fairlane.stores.tables.reading import filter_values
from fairlane.stores.tables.steering import Steering

OPERATION_PUT: Final = named("operation_put")
OPERATION_GET: Final = named("operation_get")
OPERATION_DUE: Final = named("operation_due")
OPERATION_WENT: Final = named("operation_went")
OPERATION_PRUNE: Final = named("operation_prune")
OPERATIONS_ALL: Final = named("operations_all")
OPERATIONS_DUE: Final = named("operations_due")
DISCARD_ROW: Final = named("discard_row")
DISCARD: Final = named("discard")
MAX_REFUSAL_BYTES: Final = 300

Act = Callable[[bytes], None]
"""Does the thing to the job with an id, or raises why not."""

_plan_of = msgspec.json.Decoder(OperationPlan).decode
_refusals_of = msgspec.json.Decoder(tuple[Refusal, ...]).decode


class Operating(Steering):
    """What is done to many jobs at once."""

    def start_operation(
        self, operation: bytes, plan: OperationPlan, *, counted: Counted, by: str, reason: str, now_ms: int
    ) -> OperationRecord:
        """Begin an operation; see the protocol."""
        (last,) = self._x(JOB_LAST).fetchone()
        total = counted.count if plan.limit is None else min(counted.count, plan.limit)
        self._x(
            OPERATION_PUT,
            {
                "id": operation,
                "body": encode(plan).decode(),
                "total": total,
                "more": counted.more and total == counted.count,
                "last": last,
                "by": by,
                "reason": reason,
                "now_ms": now_ms,
            },
        )
        self._x(OPERATION_PRUNE, {"keep": KEPT_OPERATIONS - 1})
        self._audit(by, f"bulk {plan.action}", str(UUID(bytes=operation)), reason, now_ms)
        return self._operation(operation)

    def steer_operation(self, operation: bytes, state: OperationState, *, by: str, now_ms: int) -> OperationRecord:
        """Pause, resume or cancel an operation; see the protocol."""
        before = self._operation(operation)
        if before.state == state:
            return before
        verb = {OperationState.PAUSED: "pause", OperationState.RUNNING: "resume", OperationState.CANCELLED: "cancel"}
        if before.state.over or state not in verb:
            raise IllegalMove(UUID(bytes=operation), before.state.label, f"be {state.label}")
        ended_ms = now_ms if state.over else None
        self._went(replace(before, state=state, due_at_ms=max(before.due_at_ms, now_ms), ended_at_ms=ended_ms))
        self._audit(by, f"{verb[state]} bulk {before.plan.action}", str(UUID(bytes=operation)), "", now_ms)
        return self._operation(operation)

    def operation(self, operation: bytes) -> OperationRecord | None:
        """Return an operation, or None."""
        with self.reading("read an operation") as db:
            row = db.execute(OPERATION_GET, {"id": operation}).fetchone()
        return None if row is None else _record(row)

    def operations(self, *, limit: int) -> list[OperationRecord]:
        """Return the latest operations."""
        with self.reading("read operations") as db:
            return [_record(row) for row in db.execute(OPERATIONS_ALL, {"most": limit}).fetchall()]

    def operations_due_ms(self) -> int | None:
        """Return when the first operation is due."""
        with self.reading("read operations") as db:
            due_ms: int | None = db.execute(OPERATIONS_DUE).fetchone()[0]
        return due_ms

    def _operation(self, operation: bytes) -> OperationRecord:
        record = self.operation(operation)
        if record is None:
            raise OperationNotFound(UUID(bytes=operation))
        return record

    # ------------------------------------------------------------------ a portion

    def advance(self, now_ms: int, *, limit: int, operation: bytes | None = None) -> OperationRecord | None:
        """Carry out one portion of an operation; see the protocol."""
        before = self._due(operation, now_ms)
        if before is None:
            return None
        plan = before.plan
        most = allowed_now(plan.rate, before.due_at_ms, now_ms, limit)
        if plan.limit is not None:
            most = min(most, plan.limit - before.done)
        jobs, place = self._next_jobs(before, most)
        refusals = self._do_all(before, jobs, now_ms)
        done = len(jobs) - len(refusals)
        all_seen = place is None or place == before.last
        over = all_seen or (plan.limit is not None and before.done + done >= plan.limit)
        after = replace(
            before,
            state=OperationState.DONE if over else OperationState.RUNNING,
            done=before.done + done,
            refused=before.refused + len(refusals),
            refusals=(*before.refusals, *refusals)[-MAX_REFUSALS:],
            place=before.place if place is None else place,
            due_at_ms=due_after(plan.rate, before.due_at_ms, now_ms, done),
            ended_at_ms=now_ms if over else None,
        )
        self._went(after)
        return after

    def _due(self, operation: bytes | None, now_ms: int) -> OperationRecord | None:
        if operation is None:
            row = self._x(OPERATION_DUE, {"now_ms": now_ms}).fetchone()
            return None if row is None else _record(row)
        found = self._operation(operation)
        return found if found.state is OperationState.RUNNING and found.due_at_ms <= now_ms else None

    def _next_jobs(self, operation: OperationRecord, most: int) -> tuple[list[bytes], int | None]:
        """Return the next jobs, and the number of the last one that was looked at; None: there are no more."""
        values = filter_values(operation.plan.which)
        rows, place = self._portion(values | {"above": operation.place, "below": operation.last + 1, "most": most})
        return [row[1] for row in rows], place

    def _do_all(self, operation: OperationRecord, jobs: list[bytes], now_ms: int) -> list[Refusal]:
        """Do the thing to each job; return which ones refused."""
        act = self._act(operation, now_ms)
        refusals: list[Refusal] = []
        with self._together(now_ms):
            for job in jobs:
                failpoint("mid_replay")
                try:
                    act(job)
                except StoreError:
                    raise
                except FairlaneError as error:
                    refusals.append(Refusal(job, sanitised(str(error), MAX_REFUSAL_BYTES)))
        return refusals

    def _act(self, operation: OperationRecord, now_ms: int) -> Act:
        plan, by = operation.plan, operation.by
        tier = 0 if plan.tier is None else plan.tier
        reason = operation.reason or f"operation {UUID(bytes=operation.id)}"
        acts: dict[str, Act] = {
            "retry": lambda job: self._retry_as(job, plan.tier, by=by, reason=reason, now_ms=now_ms),
            "cancel": lambda job: _nothing(self.cancel(job, reason=reason, now_ms=now_ms)),
            "discard": lambda job: self._discard(job, now_ms),
            "boost": lambda job: self._boost(job, tier, by=by, reason=reason, now_ms=now_ms),
            "set_tier": lambda job: self._boost(job, tier, by=by, reason=reason, now_ms=now_ms, lower=True),
            "expedite": lambda job: _nothing(self.expedite(job, reason=reason, by=by, now_ms=now_ms)),
            "reverify": lambda job: _nothing(self.reverify(job, expedite=False, by=by, now_ms=now_ms, reason=reason)),
        }
        return acts[plan.action]

    def _retry_as(self, job: bytes, tier: int | None, *, by: str, reason: str, now_ms: int) -> None:
        self.retry(job, by=by, now_ms=now_ms, reason=reason)
        if tier is not None:
            self.boost(job, tier, by=by, now_ms=now_ms, lower=True, reason=reason)

    def _boost(self, job: bytes, tier: int, *, by: str, reason: str, now_ms: int, lower: bool = False) -> None:
        if self.boost(job, tier, by=by, now_ms=now_ms, lower=lower, reason=reason).outcome != "boosted":
            raise IllegalMove(UUID(bytes=job), "at least that urgent", "be raised")

    def _discard(self, job: bytes, now_ms: int) -> None:
        """Delete a dead job and what is kept beside it."""
        row = self._row(job)
        found = self._x(DISCARD_ROW, {"seq": row.seq}).fetchone()
        if found is None:
            raise IllegalMove(UUID(bytes=job), "no longer dead", "be discarded")
        kept_until_ms, untold = found
        if kept_until_ms is not None and kept_until_ms > now_ms:
            raise IllegalMove(UUID(bytes=job), "dead", "be discarded while its dedup key is kept")
        if untold:
            raise IllegalMove(UUID(bytes=job), "dead", "be discarded before the jobs behind it are told")
        self._x(DISCARD, {"seq": row.seq})
        self._forget([(row.seq,)])

    def _went(self, operation: OperationRecord) -> None:
        self._x(
            OPERATION_WENT,
            {
                "id": operation.id,
                "state": int(operation.state),
                "done": operation.done,
                "refused": operation.refused,
                "refusals": encode(operation.refusals).decode(),
                "place": operation.place,
                "due_at_ms": operation.due_at_ms,
                "ended_at_ms": operation.ended_at_ms,
            },
        )


def _nothing(_: object) -> None:
    """Take an answer that an operation does not need."""


def _record(row: tuple[Any, ...]) -> OperationRecord:  # Any: the database's own types
    (
        id_, body, state, total, more, done, refused, refusals, place, last, due_at_ms, by, reason, created_at_ms,
        ended_at_ms,
    ) = row  # fmt: skip
    return OperationRecord(
        id=id_,
        plan=_plan_of(body),
        state=OperationState(state),
        total=total,
        more=bool(more),
        done=done,
        refused=refused,
        refusals=_refusals_of(refusals),
        place=place,
        last=last,
        due_at_ms=due_at_ms,
        by=by,
        reason=reason,
        created_at_ms=created_at_ms,
        ended_at_ms=ended_at_ms,
    )
