"""Workers on two hosts, one of which is cut off while it runs jobs and holds the gate, and is brought back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from field import LONG_S, Field, Process
from hosts import Host, listening, why_not
from tests.pg import Server

from fairlane.domain.jobs import JobFilter
from fairlane.domain.states import State
from fairlane.store import Store
from fairlane.testing import invariants

pytestmark = [pytest.mark.postgres, pytest.mark.crash, pytest.mark.timeout(240)]

SLOTS = 4
QUEUE_MOST, TENANT_MOST = 5, 2
TENANTS = "abc"
WAITING = 6


@pytest.fixture
def hosts() -> Iterator[tuple[Host, Host]]:
    reason = why_not()
    if reason:
        pytest.skip(reason)
    first = Host(0)
    try:
        second = Host(1)
        try:
            yield first, second
        finally:
            second.close()
    finally:
        first.close()


class Course:
    """What goes on in the test: jobs keep coming, and the limits are looked at all the time.

    Args:
        field: The store, its log and its processes.
    """

    def __init__(self, field: Field) -> None:
        self.field = field
        self.most: Counter[str] = Counter()
        self.naps: list[str] = []

    def look(self) -> None:
        """See what runs, in one snapshot."""
        running = Counter(self.field.app.owner.read(_running))
        running["the queue"] = running.total()
        self.most |= running
        assert running["the queue"] <= QUEUE_MOST, f"{running} run"
        assert running["a"] <= TENANT_MOST, f"{running} run"

    def until(self, holds: Callable[[], object], what: str) -> None:
        """Wait for something while there are always jobs to run."""

        def step() -> object:
            self.look()
            if self.field.states().get("available", 0) < WAITING:
                self.naps += self.field.enqueue("nap", tenant=TENANTS[len(self.naps) % len(TENANTS)], ms=20)
            return holds()

        self.field.until(step, what, LONG_S)

    def ran(self, what: str, pid: int, among: Collection[str]) -> int:
        """Return how many of these jobs a process has started, or ended."""
        return len({line.job for line in self.field.lines(what) if line.pid == pid} & set(among))


def _running(store: Store, now_ms: int) -> list[str]:
    return [job.tenant for job in store.jobs(JobFilter(states=(State.RUNNING,)), limit=100).jobs]


def test_a_host_is_cut_off_and_comes_back(tmp_path: Path, hosts: tuple[Host, Host]):
    cut, other = hosts
    with listening([cut.server_address, other.server_address]) as (server, port):
        url = server.database()
        field = Field(tmp_path, url=url)
        try:
            base = url.partition("?")[0].rpartition("/")[2]
            urls = {host: f"postgresql://postgres@{host.server_address}:{port}/{base}" for host in hosts}
            _run(field, server, cut, other, urls)
        finally:
            field.close()


def _run(  # noqa: PLR0915 - one course of events
    field: Field, server: Server, cut: Host, other: Host, urls: Mapping[Host, str]
) -> None:
    def worker(host: Host) -> Process:
        # Leases outlast the test: jobs of the host that was cut off run elsewhere because it gives no sign of life.
        return field.run("worker", inside=host.inside, env={"URL": urls[host]}, concurrency=SLOTS, lease=120.0)

    course = Course(field)
    field.app.queues["default"].set(max_running=QUEUE_MOST)
    field.app.tenants["a"].set(max_running=TENANT_MOST)
    early, late, last = (field.folder / name for name in ("early", "late", "last"))
    short = [*_held(field, early, tenant="a", first=True), *_held(field, early, tenant="b", first=True)]
    long = [*_held(field, late, tenant="a", again=str(last)), *_held(field, late, tenant="b", again=str(last))]
    held = short + long
    lost = worker(cut)
    field.until_started(len(held))
    found = worker(other)
    course.until(lambda: course.ran("end", found.pid, course.naps) >= 5, "work on the other host")

    holder = field.run("holds_the_gate", pipe=True, inside=cut.inside, env={"URL": urls[cut]})
    assert holder.stdin is not None
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    field.note(lost.pid, "stop")  # from here on, what it runs counts as long as its leases do: so says the store
    cut.cut()
    connected = f"SELECT count(*) FROM pg_stat_activity WHERE client_addr = '{cut.address}'"
    assert server.run(connected)[0][0] > 0
    course.until(lambda: server.run(connected) == [(0,)], "the server's notice that a host is gone")
    course.until(lambda: course.ran("start", found.pid, held) == len(held), "the jobs of the host that was cut off")
    course.until(lambda: course.ran("end", found.pid, short) == len(short), "the ends of those that end at once")
    early.touch()
    course.until(lambda: course.ran("end", lost.pid, short) == len(short), "ends while it is cut off")

    cut.mend()
    late.touch()
    course.until(lambda: course.ran("end", lost.pid, long) == len(long), "late ends of what runs elsewhere")
    holder.stdin.write(b"!")
    holder.stdin.flush()
    assert holder.stdout.readline() == b"lost\n"
    course.until(lambda: course.ran("end", lost.pid, course.naps) >= 5, "work on the host that is back")
    running = {str(job.uuid) for job in field.books()[0] if job.state is State.RUNNING}
    assert running >= set(long), "a late end has ended a run that is another's"  # it was told before it claimed anew
    last.touch()
    field.term(found)
    assert found.wait(LONG_S) == 0
    before = course.ran("end", lost.pid, course.naps)
    course.until(lambda: course.ran("end", lost.pid, course.naps) >= before + 5, "work on that host alone")
    field.until_done()
    _judge(field, course, held, lost.pid)
    assert lost.poll() is None


def _held(field: Field, path: Path, *, tenant: str, **more: Any) -> list[str]:
    return field.enqueue("wait_for", tenant=tenant, path=str(path), **more)


def _judge(field: Field, course: Course, held: list[str], lost: int) -> None:
    field.audit(crash_budget=1)
    jobs, _, _ = field.books()
    by_id = {str(job.uuid): job for job in jobs}
    assert {job.state for job in jobs} == {State.COMPLETED}
    for job in (by_id[one] for one in held):
        assert (job.result, job.crashes, job.failures) == ('"attempt 2"', 1, 0)
        assert [error.type for error in job.errors] == ["WorkerLost"]
    again = {one for one in course.naps if by_id[one].crashes}
    first = {line.job: line.pid for line in reversed(field.lines("start"))}
    # The host that is back claims some jobs before it has given a sign of life, and others take it for dead.
    assert {first[one] for one in again} <= {lost}
    assert len(again) <= SLOTS
    assert field.starts() == Counter([*held, *held, *course.naps, *again])
    assert course.most["the queue"] == QUEUE_MOST
    assert course.most["a"] == TENANT_MOST
    assert invariants.most_at_once(field.lines(), lambda line: "x")["x"] <= QUEUE_MOST
    assert invariants.most_at_once(field.lines(), lambda line: line.tenant)["a"] <= TENANT_MOST
