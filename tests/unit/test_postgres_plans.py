"""Every statement finds what it wants by an index, whatever PostgreSQL knows of the tables: nothing, old news, or all.

Connections keep their plans, so a plan that was made while the tables were empty, or for values that are not known yet,
must be as good as one made today. Statements that count or check a whole table are named with their reasons.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from tests.pg import emptied, server

import fairlane.stores.postgres.store
from fairlane.stores._queries import query
from fairlane.stores.postgres.connection import address_of, connect

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(300)]

QUERIES: Final = Path(fairlane.stores.postgres.store.__file__).parent / "queries"
JOBS, LANES, ENDED, RUNNING, DEAD = 200_000, 1_000, 20_000, 5_000, 500
NOW_MS: Final = 1_700_000_000_000

FEW: Final = {
    "job_lease", "job_ask", "job_express", "job_dead", "job_dead_seq", "job_dedup", "job_kept", "job_key", "job_bundle",
    "job_id",
}  # fmt: skip
"""Indexes of few jobs (those that run, express ones, dead ones), or by what few jobs have in common."""
MOST: Final = {"job_pkey", "job_head", "job_ended"}
"""Indexes of most jobs: whoever reads one from end to end reads all jobs."""
WHOLE: Final = {
    "check_available", "check_behind", "check_edges", "check_scheduled", "check_successors", "check_timers",
    "rebuild_lanes",  # after a restore
    "counts", "surplus_queues",  # they count jobs that have ended, from the index alone
}  # fmt: skip
WHOLE_WITHOUT_OPTIONS: Final = {
    "meant_count", "surplus_any",  # they stop at a number, and find it soon
    "ended_page", "ends", "starts", "surplus_jobs",  # of those that have ended
    "due",  # of those that are due
    "lane_heads",  # of a lane; behind the gate the options are set for a pooler too
}  # fmt: skip
WHILE_EMPTY: Final = {"ended_page"}
"""Before 16, what is found is sorted as long as the table is taken for empty: until the first ANALYZE, which autovacuum
makes a minute after the first 50 jobs at the latest, and which makes the plan anew."""

VALUES: Final[Mapping[str, Any]] = {  # by the names that the statements use
    "above": 1_000, "after": JOBS - 100, "args": "{}", "arrival_ms": NOW_MS, "ask": 1, "asked_for": None,
    "available_at_ms": NOW_MS, "before": 700, "before_ms": NOW_MS, "behind": 0, "below": JOBS * 2, "bundle": b"b" * 16,
    "by": "me", "by_wall": 0, "checked": 0, "checkpoint": None, "child": 5, "crashes": 0, "deadline_ms": NOW_MS,
    "dedup": "5:queue:k7", "dedup_key": "k7", "dedup_ttl_ms": None, "ended_before_ms": None, "ended_from_ms": None,
    "enqueued_before_ms": None, "error": None, "errors": None, "expires_at_ms": None, "express": None, "failures": 0,
    "fence": 1, "fingerprint": "f7", "finished_at_ms": NOW_MS, "floor": 0, "handed": 0, "id": b"i" * 16,
    "ids": b"i" * 32, "keep": 1_000, "lane": 7, "last": 9, "limits": "[]", "marks": 2, "most": 100, "name": "q7",
    "now_ms": NOW_MS, "number": 7, "on_failure": 0, "other_lane": None, "parent": 5, "phase": 0, "preemptions": 0,
    "progress": None, "queue": None, "reason": "why", "reference": None, "result": None, "running": ["701"],
    "scan": 1_000, "scheduled_at_ms": NOW_MS, "seq": 777, "since_ms": NOW_MS - 60_000, "snap": "700:700:",
    "spell_ms": 1_000, "state": 3, "states": 63, "stored": 3, "tag": None, "tags": None, "task": None, "tenant": None,
    "text": None, "tier": None, "tiers": 31, "timer_ms": NOW_MS, "trace": None, "upto": 9, "version": 5, "worker": "w",
    "path": 0, "most_s": 10,
}  # fmt: skip

IN_ORDER: Final[Mapping[str, tuple[Any, ...]]] = {  # those whose values have no names
    "behind_less": (1, 777),
    "behind_over": (1, None, NOW_MS, 777),
    "claim": (1, "w", NOW_MS, NOW_MS, NOW_MS, [777, 778], [0, 0], [1, 1], [1, 1]),
    "complete": (NOW_MS, None, 777, 1),
    "complete_all": (NOW_MS, [777, 778], [1, 1], [None, None]),
    "enqueue_many": (NOW_MS, 9, None, [b"i" * 16], [7], [NOW_MS], ["{}"], None, [0], None, None, None, None),
    "enqueue_one": (NOW_MS, NOW_MS, None, b"i" * 16, 7, None, 0, None, None, None, "{}", 0),
    "follow": (777,),
    "jobs_there": ([b"i" * 16],),
    "lane_heads": ([7, 8], [NOW_MS, -1], [1, -1], 100),
    "lent_enqueue_one": (json.dumps({"now_ms": NOW_MS, "database": "x"}),),
    "lent_enqueue": (json.dumps({"now_ms": NOW_MS, "database": "x", "most": 9, "jobs": []}),),
    "lent_fate": (4711, 1, 777),
    "lent_holders": ('["5:queue:k7"]',),
    "lent_settle": (NOW_MS, None, None, 777, 1, 1, None),
}


TRANSACTIONS: Final = {"above": "700", "before": "701", "running": ["699"], "snap": "700:700:"}
"""What the statements that read the inbox are given: numbers of transactions, as text."""


def values_of(name: str, **others: Any) -> Any:
    """Return values for a statement."""
    assert name in IN_ORDER or not re.search("%[sb]", query("postgres", name)), f"{name}: say its values in IN_ORDER"
    return IN_ORDER.get(name) or {**VALUES, **(TRANSACTIONS if name.startswith("inbox_") else {}), **others}


def statements() -> list[str]:
    """Return the names of the statements that read or change jobs, the log or the inbox."""
    names = (file.stem for file in sorted(QUERIES.glob("*.sql")))
    return [
        name
        for name in names
        if not name.startswith("part_")
        and re.search(r"\b(job|log|inbox)\b(?!_)", re.sub(r"INSERT INTO fairlane\.\w+", "", query("postgres", name)))
        and name not in {"job_copy", "migration_table", "incident_insert", "incident_update"}
    ]


def explained(db: psycopg.Connection[Any], name: str, values: Any, *, generic: bool) -> dict[str, Any]:
    """Return the plan of a statement, for these values or for any."""
    sql = query("postgres", name)
    given: list[Any] = []
    places: dict[str, int] = {}

    def number(found: re.Match[str]) -> str:
        key = found[1]
        if key is None:
            given.append(values[len(given)])
            return f"${len(given)}"
        if key not in places:
            given.append(values[key])
            places[key] = len(given)
        return f"${places[key]}"

    sql = re.sub(r"%\((\w+)\)s|%[sb]", number, sql).replace("%%", "%")
    dumped = psycopg.adapt.Transformer(db)
    raw = dumped.dump_sequence(given, [psycopg.adapt.PyFormat.TEXT] * len(given))
    types = ", ".join(
        db.execute("SELECT format_type(%s::oid, NULL)", (oid or 705,)).fetchone()[0] for oid in dumped.types
    )  # type: ignore[index]
    db.execute(f"SET plan_cache_mode = {'force_generic_plan' if generic else 'force_custom_plan'}")
    db.execute(f"PREPARE one{f' ({types})' if given else ''} AS {sql}".encode())
    literals = ", ".join(
        "NULL" if value is None else psycopg.sql.Literal(bytes(value).decode()).as_string(db) for value in raw
    )
    (plan,) = db.execute(f"EXPLAIN (FORMAT JSON) EXECUTE one{f' ({literals})' if given else ''}".encode()).fetchone()[0]
    db.execute("DEALLOCATE one")
    return plan["Plan"]


LOAD: Final = """
INSERT INTO fairlane.lane (queue, task, tenant, tier)
SELECT 'q' || n %% 5, 't' || n %% 4, 'tenant' || n / 10, n %% 5 FROM generate_series(0, %(lanes)s - 1) AS n;
INSERT INTO fairlane.worker
SELECT 'w' || n, 'default', NULL, NULL, 10, 'host', n, 1, NULL FROM generate_series(1, 50) AS n;
INSERT INTO fairlane.job (
    id, lane, state, arrival_ms, timer_ms, fence, worker, enqueued_at_ms, scheduled_at_ms, available_at_ms,
    started_at_ms, finished_at_ms, dedup, fingerprint, bundle, express, args
)
SELECT
    decode(md5(n::text), 'hex'), 1 + n %% %(lanes)s, state, %(now_ms)s - n,
    CASE WHEN state = 2 THEN %(now_ms)s + n WHEN state = 0 THEN %(now_ms)s + n * 10 END,
    (state >= 2)::integer, CASE WHEN state >= 2 THEN 'w' || n %% 50 END, %(now_ms)s - n, %(now_ms)s - n, %(now_ms)s - n,
    CASE WHEN state >= 2 THEN %(now_ms)s - n END, CASE WHEN state >= 3 THEN %(now_ms)s - n END,
    CASE WHEN n %% 10 = 0 THEN '2:q1:k' || n END, CASE WHEN state = 4 THEN 'f' || n %% 20 END,
    CASE WHEN n %% 100 < 5 THEN decode(md5((n / 1000)::text), 'hex') END,
    CASE WHEN state = 1 AND n %% 2000 = 1 THEN n END, '{}'
FROM (
    SELECT n, CASE
        WHEN n <= %(dead)s THEN 4 WHEN n <= %(ended)s THEN 3 WHEN n <= %(ended)s + %(running)s THEN 2
        WHEN n %% 10 = 0 THEN 0 ELSE 1 END AS state
    FROM generate_series(1, %(jobs)s) AS n
) AS made;
INSERT INTO fairlane.log
SELECT n, 1 + (n %% 512 = 0)::integer, 2, '[]', ARRAY[1 + n %% %(lanes)s, 0, 0], pg_current_snapshot(), 0
FROM generate_series(1, 4500) AS n;
INSERT INTO fairlane.edge SELECT %(jobs)s - n, %(jobs)s - n + 1, 0 FROM generate_series(1, 500) AS n
"""
FORGET: Final = """
DELETE FROM pg_statistic;
UPDATE pg_class SET relpages = 0, reltuples = -1 WHERE relnamespace = 'fairlane'::regnamespace
"""


def load(url: str, **sizes: int) -> None:
    """Fill a database."""
    values = {"jobs": JOBS, "lanes": LANES, "ended": ENDED, "running": RUNNING, "dead": DEAD, "now_ms": NOW_MS, **sizes}
    with psycopg.connect(url, autocommit=True, cursor_factory=psycopg.ClientCursor) as db:
        for statement in LOAD.split(";\n"):
            db.execute(statement.encode(), values)


@pytest.fixture(scope="module")
def databases() -> Iterator[Mapping[str, str]]:
    """Databases: with nothing in them, full and unknown, full but known when there was little, full and known."""
    with server(autovacuum="off") as one:
        urls = {"empty": one.database(), "stale": one.database()}
        load(urls["stale"], jobs=60, ended=50, running=0, dead=0, lanes=5)
        with psycopg.connect(urls["stale"], autocommit=True) as db:
            db.execute("ANALYZE")
        emptied(urls["stale"])
        load(urls["stale"])
        for name in ("fresh", "full"):
            one.run(f"CREATE DATABASE copy_{name} TEMPLATE {urls['stale'].partition('?')[0].rpartition('/')[2]}")
            urls[name] = one.url_of(f"copy_{name}")
            with psycopg.connect(urls[name], autocommit=True) as db:
                db.execute(FORGET.encode() if name == "fresh" else b"ANALYZE")
        yield urls


def below(node: dict[str, Any], *, stop: str = "") -> Iterator[dict[str, Any]]:
    """Walk over a plan, not beyond nodes of a kind."""
    yield node
    for part in node.get("Plans", ()):
        if part["Node Type"] != stop:
            yield from below(part, stop=stop)


def job_scans(plan: dict[str, Any], *, stop: str = "") -> Iterator[tuple[str, str, str]]:
    """Return how a plan comes to jobs: kind of scan, index, condition."""
    for node in below(plan, stop=stop):
        kind = node["Node Type"]
        if node.get("Relation Name") == "job" and kind not in {"Bitmap Heap Scan", "ModifyTable"}:
            yield kind, node.get("Index Name", ""), node.get("Index Cond", "")
        elif kind == "Bitmap Index Scan" and node["Index Name"].startswith("job_"):
            yield kind, node["Index Name"], node.get("Index Cond", "")


def faults(name: str, plan: dict[str, Any]) -> Iterator[str]:
    """Return what is wrong with a plan."""
    one_job = re.search(r"WHERE (job\.)?seq = (%|chosen|done)", query("postgres", name)) is not None
    for kind, index, condition in job_scans(plan):
        if kind == "Seq Scan" or (index in MOST and not condition):
            yield "reads all jobs"
        if one_job and index in FEW and "seq =" not in condition:
            yield f"looks for one job among all of {index}"
    for node in below(plan):
        if node["Node Type"] == "Sort":
            for _, index, condition in job_scans(node, stop="Limit"):
                if index not in FEW and "seq = " not in condition and "id = " not in condition:
                    yield f"sorts what it finds by {index or 'reading all jobs'}"


def look(url: str, *, options: bool) -> dict[str, set[str]]:
    """Return what is wrong with the plans of statements, by their names."""
    address = address_of(url)
    wrong: dict[str, set[str]] = {}
    with connect(address if options else address._replace(pooled=True)) as db:
        db.prepare_threshold = None
        for name in statements():
            paths = [{"path": path} for path in range(7)] if "%(path)s" in query("postgres", name) else [{}]
            for path in paths:
                for generic in (False, True):
                    found = set(faults(name, explained(db, name, values_of(name, **path), generic=generic)))
                    if found:
                        wrong.setdefault(name, set()).update(found)
    return wrong


@pytest.mark.parametrize("known", ["empty", "fresh", "stale", "full"])
def test_no_statement_of_ours_reads_or_sorts_all_jobs(databases: Mapping[str, str], known: str) -> None:
    wrong = look(databases[known], options=True)
    with connect(address_of(databases[known])) as db:
        allowed = WHOLE | WHILE_EMPTY if known == "empty" and db.info.server_version < 160_000 else WHOLE
    assert {name: said for name, said in wrong.items() if name not in allowed} == {}


@pytest.mark.parametrize("known", ["stale", "full"])
def test_nor_does_one_on_a_connection_without_our_options(databases: Mapping[str, str], known: str) -> None:
    """Through a pooler, and on the connections of callers, once the server has looked at the tables."""
    wrong = look(databases[known], options=False)
    assert {name: said for name, said in wrong.items() if name not in WHOLE | WHOLE_WITHOUT_OPTIONS} == {}


def test_every_subquery_has_a_name() -> None:
    """PostgreSQL before 16 asks for one."""
    for file in sorted(QUERIES.glob("*.sql")):
        sql = query("postgres", file.stem)
        for found in re.finditer(r"\b(?:FROM|JOIN|LATERAL)\s*\(", sql):
            end, depth = found.end(), 1
            while depth:
                depth += {"(": 1, ")": -1}.get(sql[end], 0)
                end += 1
            assert re.match(r"\s+AS\s+\w+", sql[end:]), f"{file.name}: {sql[found.start() : end]}"
