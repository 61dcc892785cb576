"""`fairlane jobs explain`, and how waits and inversions are shown by `fairlane stats`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import click

from fairlane.app import Fairlane
from fairlane.cli import shapes
from fairlane.cli.groups import example, store_options
from fairlane.cli.output import print_facts, print_json, safe, span
from fairlane.cli.stores import keeping
from fairlane.domain.explaining import Explanation
from fairlane.domain.tiers import Tier
from fairlane.instants import aware
from fairlane.shapes import explained
from fairlane.views import By

SHOWN: Final = 20

Part = tuple[str, tuple[str, ...], Sequence[Sequence[object]]]
"""A title, columns, rows."""


@click.command("explain", epilog=example("fairlane jobs explain 0198f0de-0000-7000-8000-000000000001"))
@click.argument("job_id", metavar="ID")
@store_options
def explain_command(*, url: str | None, as_json: bool, job_id: str) -> None:
    """Tell why a job is waiting: what blocks it, what goes before it, and about when it starts."""
    with keeping(url) as app:
        told = app.explain(job_id)
        if as_json:
            print_json(explained(told))
        else:
            _show(told)


def _show(told: Explanation) -> None:
    click.echo(f"{told.cause}: {safe(told.summary)}\n")
    for blocker in told.blockers[1:]:
        click.echo(f"  also {blocker.cause}: {safe(blocker.text)}")
    if told.blockers[1:]:
        click.echo()
    aged = "" if told.effective_tier == told.tier else f", by now {told.effective_tier.label}"
    print_facts(
        [
            ("job", str(UUID(bytes=told.id))),
            ("state", told.state.label),
            ("lane", f"queue {told.queue}, task {told.task}, tenant {told.tenant}"),
            ("tier", f"{told.tier.label}{aged}{', express' if told.express else ''}"),
            ("jobs before it", None if told.place is None else str(told.place)),
            ("tenants ahead", None if told.tenants_ahead is None else str(told.tenants_ahead)),
            ("tenants with urgent work", None if told.tenants_urgent is None else str(told.tenants_urgent)),
            ("express jobs ahead", None if told.express_ahead is None else str(told.express_ahead)),
            ("started by the rule" if told.place is None else "rule that will start it", told.rule),
            ("starts in", _range(told)),
        ]
    )


def _range(told: Explanation) -> str | None:
    if told.starts_in is None:
        return f"not known: {told.starts_unknown}" if told.starts_unknown else None
    return f"{span(told.starts_in[0])} to {span(told.starts_in[1])}, were runs as long as they have been"


# ---------------------------------------------------------------- stats


def waited(app: Fairlane, by: tuple[By, ...], window: float) -> dict[str, Any]:  # Any: ready for JSON
    """Return percentiles of waits."""
    told = app.waits(by, window=window)
    rows: list[dict[str, Any]] = []
    for row in told.rows:
        names: dict[str, Any] = {name: getattr(row, name) for name in by}
        if "tier" in names:
            names["tier"] = Tier(names["tier"]).label
        rows.append(names | {name: getattr(row, name) for name in ("jobs", "mean", "p50", "p90", "p99", "max")})
    return {"since": shapes.instant(aware(told.since_ms)), "jobs": told.jobs, "more": told.more, "rows": rows}


def waits_part(told: dict[str, Any], by: tuple[str, ...]) -> Part:  # Any: ready for JSON
    """Return waits as a table."""
    columns = (*by, *(f">{name}" for name in ("jobs", "mean", "p50", "p90", "p99", "max")))
    rows = [
        [*(row[name] for name in by), row["jobs"], *(span(row[name]) for name in ("mean", "p50", "p90", "p99", "max"))]
        for row in told["rows"]
    ]
    return f"Waits of {told['jobs']:,}{'+' if told['more'] else ''} starts since {told['since']}", columns, rows


def inversions_part(told: dict[str, Any]) -> Part:  # Any: ready for JSON
    """Return inversions as a table: what explains them, how many starts that were."""
    rows: list[list[object]] = [[why, count] for why, count in told["counts"].items() if count]
    rows.extend(["UNEXPLAINED", f"{one['started']} before {one['waiting']}"] for one in told["unexplained"][:SHOWN])
    title = f"Less urgent before more urgent, among {told['starts']:,} starts since {told['since']}"
    return title, ("explained by", ">starts"), rows
