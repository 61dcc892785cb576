"""`fairlane health`: whether waiting jobs are being run. Quick, reads only, and takes nothing for granted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import click
import msgspec

from fairlane.app import Fairlane
from fairlane.cli.bulk import pages
from fairlane.cli.groups import UNHEALTHY, example, store_options
from fairlane.cli.output import print_facts, print_json, safe, span
from fairlane.cli.signs import Seen, seen
from fairlane.cli.stores import Keeper, must_exist
from fairlane.domain.jobs import DepthRow, JobFilter, WorkerRecord
from fairlane.domain.policy import DEFAULT_POOL, QueueRule
from fairlane.domain.states import State
from fairlane.errors import FairlaneError
from fairlane.settings import without_password
from fairlane.store import AnyRule, MonitorRecord

SWEEP_MS: Final = 5_000
"""Time that a rescue may take after a lease has lapsed, or a worker was lost."""
NAMED: Final = 5
"""Groups of jobs that are named one by one."""


def served(worker: WorkerRecord, row: DepthRow, rules: dict[str, AnyRule]) -> bool:
    """Return whether a worker would run the jobs of a lane."""
    rule = rules.get(row.queue)
    pool = rule.pool if isinstance(rule, QueueRule) else DEFAULT_POOL
    return (
        worker.pool == pool
        and (worker.queues is None or row.queue in worker.queues)
        and (worker.tasks is None or row.task in worker.tasks)
    )


def unserved(lanes: Sequence[DepthRow], living: Sequence[WorkerRecord], rules: dict[str, AnyRule]) -> list[str]:
    """Return, in words, the queues and tasks whose available jobs no living worker would run."""
    waiting: dict[tuple[str, str], int] = {}
    for row in lanes:
        if row.available and not any(served(worker, row, rules) for worker in living):
            key = row.queue, row.task
            waiting[key] = waiting.get(key, 0) + row.available
    largest = sorted(waiting.items(), key=lambda item: -item[1])
    told = [
        f"{count:,} available jobs of task {task!r} in queue {queue!r}, and no live worker that runs them"
        for (queue, task), count in largest[:NAMED]
    ]
    if rest := largest[NAMED:]:
        told.append(f"{sum(count for _, count in rest):,} more in {len(rest):,} other groups")
    return told


def lapsed(app: Fairlane, workers: Sequence[Seen], now_ms: int) -> list[str]:
    """Return, in words, the running jobs that nobody holds any more and that nobody took back."""
    gone = {one.worker.id for one in workers if not one.alive}
    late, lost, oldest_ms = 0, 0, now_ms
    for records in pages(app, JobFilter(states=(State.RUNNING,))):
        for record in records:
            until_ms = record.lease_expires_at_ms or now_ms
            if until_ms + SWEEP_MS < now_ms:
                late += 1
                oldest_ms = min(oldest_ms, until_ms)
            elif record.worker in gone and (record.started_at_ms or now_ms) + SWEEP_MS < now_ms:
                lost += 1
    told: list[str] = []
    if late:
        told.append(f"{late:,} running jobs whose lease lapsed, the first {span((now_ms - oldest_ms) / 1000)} ago")
    if lost:
        told.append(f"{lost:,} running jobs of workers that are gone")
    return told


def look(app: Fairlane) -> dict[str, Any]:  # Any: ready for JSON
    """Return what health says of a store that exists."""
    must_exist(app)
    lanes, records, rules, held, now_ms = app.owner.read(
        lambda store, now_ms: (store.depth(now_ms), store.workers(), store.rules("queue"), store.monitor(), now_ms)
    )
    workers = seen(app, records)
    living = [one.worker for one in workers if one.alive]
    problems = unserved(lanes, living, rules) + lapsed(app, workers, now_ms)
    return {
        "healthy": not problems,
        "problems": problems,
        "url": without_password(app.url),
        "workers": len(living),
        "slots": sum(worker.slots for worker in living),
        "scheduled": sum(row.scheduled for row in lanes),
        "available": sum(row.available for row in lanes),
        "running": sum(row.running for row in lanes),
        "sinks": sinks_of(held, now_ms),
    }


def sinks_of(held: MonitorRecord | None, now_ms: int) -> list[dict[str, Any]]:  # Any: ready for JSON
    """Return how the alert sinks of the monitor that watches do, as it last said; empty: nobody watches."""
    if held is None or held.until_ms <= now_ms:
        return []
    told: list[dict[str, Any]] = msgspec.json.decode(held.sinks)
    return told


def _sink(told: dict[str, Any]) -> str:
    return f"{told['name']} {'ok' if told['healthy'] else 'failing: ' + told['error']}"


def _unhealthy(problem: str, url: str) -> dict[str, Any]:
    return {"healthy": False, "problems": [problem], "url": url}


@click.command("health", epilog=example("fairlane health && echo well"))
@store_options
def health_command(*, url: str | None, as_json: bool) -> None:
    """Tell whether waiting jobs are being run; exit code 3 if not.

    Unhealthy is: there is no store or it cannot be opened; jobs are available that no live worker would run; a lease
    lapsed, or a worker was lost, and nobody took its jobs back within 5 s. An idle store without workers is healthy.

    It also shows how the alert sinks of the process that watches over waits do; one that fails keeps no job from
    running.
    """
    app = Keeper(url)
    with app:
        try:
            told = look(app)
        except FairlaneError as error:
            told = _unhealthy(str(error), without_password(app.url))
    if as_json:
        print_json(told)
    else:
        click.echo("healthy" if told["healthy"] else "unhealthy")
        for problem in told["problems"]:
            click.echo(f"- {safe(problem)}")
        shown = told | {"sinks": ", ".join(_sink(one) for one in told.get("sinks", ()))}
        print_facts((name, value) for name, value in shown.items() if name not in {"healthy", "problems"})
    if not told["healthy"]:
        click.get_current_context().exit(UNHEALTHY)
