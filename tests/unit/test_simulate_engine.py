"""The engine: exact where theory is exact, near where theory is a mean, and the same every time."""

import heapq
import math
import os
import random
import subprocess
import sys
from collections import Counter, defaultdict

import pytest

from fairlane.domain.policy import Policy
from fairlane.errors import InvalidValue
from fairlane.simulate.engine import NEVER, Setup, policy_named, simulate
from fairlane.simulate.traces import Trace, TraceJob, sample

SECOND_US = 1_000_000
POLICIES = [Policy.fair(), Policy.strict(), Policy.fifo()]


def jobs_of(tenant: str, count: int, *, run_s: float = 1.0, tier: int = 2, queue: str = "q", at_s: float = 0.0):
    return [TraceJob(round(at_s * SECOND_US), tenant, queue, tier, round(run_s * SECOND_US)) for _ in range(count)]


def first_come_first_served(trace: Trace, workers: int) -> list[int]:
    """Waits by the recursion of Kiefer and Wolfowitz: each job takes the worker that is free first."""
    free = [0] * workers
    waits = []
    for job in trace.jobs:
        start = max(heapq.heappop(free), job.submit_us)
        waits.append(start - job.submit_us)
        heapq.heappush(free, start + job.run_us)
    return waits


# ---------------------------------------------------------------------- against theory


@pytest.mark.parametrize("workers", [1, 2, 17, 40])
def test_fifo_is_exactly_first_come_first_served(workers):
    trace = sample(jobs=3000, tenants=20, slots=20, utilisation=1.1)
    assert simulate(trace, Policy.fifo(), workers).waits_us == first_come_first_served(trace, workers)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.kind)
def test_one_tenant_in_one_tier_is_first_come_first_served_under_every_policy(policy):
    trace = Trace.of("t", [job._replace(tenant="a", tier=2, queue="q") for job in sample(jobs=2000, tenants=5).jobs])
    assert simulate(trace, policy, 12).waits_us == first_come_first_served(trace, 12)


def poisson(workers: int, utilisation: float, jobs: int, seed: int, *, tenants: int = 1, tiers=(2,)) -> Trace:
    """Poisson arrivals and exponential run times of mean 1 s."""
    rng = random.Random(seed)
    at, made = 0.0, []
    for _ in range(jobs):
        at += rng.expovariate(workers * utilisation)
        tenant, tier = str(rng.randrange(tenants)), rng.choice(tiers)
        made.append(TraceJob(round(at * SECOND_US), tenant, "q", tier, round(rng.expovariate(1) * SECOND_US)))
    return Trace.of("poisson", made)


def erlang_c(workers: int, utilisation: float) -> float:
    """The mean wait in M/M/c with run times of mean 1."""
    offered = workers * utilisation
    below = sum(offered**k / math.factorial(k) for k in range(workers))
    all_busy = offered**workers / math.factorial(workers) / (1 - utilisation)
    return all_busy / (below + all_busy) / (workers * (1 - utilisation))


def mean_with_control(waits: list[float], trace: Trace, workers: int, utilisation: float, batches: int = 40) -> float:
    """The mean wait, freed from most of the chance in the draws.

    A single server that is ``workers`` times as fast, fed the same jobs (Lindley's recursion), strays from its known
    mean as the many servers stray from theirs; what they have in common is taken out (a control variate).
    """
    control, work, last = [], 0.0, 0.0
    for job in trace.jobs:
        work = max(0.0, work - (job.submit_s - last))
        last = job.submit_s
        control.append(work)
        work += job.run_s / workers
    size = len(waits) // batches
    ours = [math.fsum(waits[k * size : (k + 1) * size]) / size for k in range(batches)]
    theirs = [math.fsum(control[k * size : (k + 1) * size]) / size for k in range(batches)]
    mean, other = sum(ours) / batches, sum(theirs) / batches
    slope = sum((a - mean) * (b - other) for a, b in zip(ours, theirs, strict=True))
    slope /= sum((b - other) ** 2 for b in theirs)
    return mean - slope * (other - utilisation / (workers * (1 - utilisation)))


@pytest.mark.parametrize(
    ("workers", "utilisation", "jobs", "policy"),
    [
        (2, 0.5, 15_000, Policy.fifo()),
        pytest.param(2, 0.8, 40_000, Policy.fifo(), marks=pytest.mark.slow),
        pytest.param(4, 0.7, 40_000, Policy.fifo(), marks=pytest.mark.slow),
        pytest.param(3, 0.9, 40_000, Policy.fifo(), marks=pytest.mark.slow),
        # No policy that knows only the past changes the mean over all jobs (conservation): fair has it too.
        pytest.param(3, 0.9, 40_000, Policy.fair(), marks=pytest.mark.slow),
        pytest.param(3, 0.9, 40_000, Policy.strict(), marks=pytest.mark.slow),
    ],
    ids=lambda value: getattr(value, "kind", value),
)
def test_mean_wait_is_that_of_erlang_c(workers, utilisation, jobs, policy):
    trace = poisson(workers, utilisation, jobs, seed=5, tenants=5, tiers=range(5))
    waits = [wait / SECOND_US for wait in simulate(trace, policy, workers).waits_us]
    mean = mean_with_control(waits, trace, workers, utilisation)
    assert mean == pytest.approx(erlang_c(workers, utilisation), rel=0.02)


# ---------------------------------------------------------------------- what holds for every run


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.kind)
def test_no_worker_idles_while_a_job_waits_and_none_runs_two(policy):
    trace = sample(jobs=1500, tenants=15, slots=10, utilisation=1.2)
    workers = 10
    outcome = simulate(trace, policy, workers)
    changes: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for job, wait in zip(trace.jobs, outcome.waits_us, strict=True):
        start = job.submit_us + wait
        changes[job.submit_us][0] += 1
        changes[start][0] -= 1
        changes[start][1] += 1
        changes[start + job.run_us][1] -= 1
    waiting = running = 0
    for instant in sorted(changes):
        waiting += changes[instant][0]
        running += changes[instant][1]
        assert 0 <= running <= workers
        assert not waiting or running == workers
    assert (waiting, running) == (0, 0)
    assert sorted(start.place.seq for start in outcome.starts) == list(range(1500)), "each job starts once"


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.kind)
def test_a_lane_stays_in_order(policy):
    trace = sample(jobs=2000, tenants=10, slots=10, utilisation=1.2)
    last: dict[tuple[str, str, int], int] = {}
    for start in simulate(trace, policy, 10).starts:
        job = trace.jobs[start.place.seq]
        lane = job.tenant, job.queue, job.tier
        assert last.get(lane, -1) < start.place.seq
        last[lane] = start.place.seq


HASHED = """
import hashlib
from fairlane.simulate.engine import policy_named, simulate
from fairlane.simulate.traces import sample
trace = sample(jobs=2000, tenants=30)
waits = [simulate(trace, policy_named(name), 30).waits_us for name in ("fair", "strict", "fifo")]
print(hashlib.sha256(repr(waits).encode()).hexdigest())
"""


def test_the_same_arguments_give_the_same_waits_in_any_process():
    trace = sample(jobs=2000, tenants=30)
    assert simulate(trace, Policy.fair(), 30) == simulate(trace, Policy.fair(), 30)
    prints = set()
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed}
        prints.add(subprocess.run([sys.executable, "-c", HASHED], env=env, check=True, capture_output=True).stdout)
    assert len(prints) == 1


def test_jobs_without_run_time_and_jobs_of_one_instant():
    trace = Trace.of("t", [*jobs_of("a", 3, run_s=0), *jobs_of("b", 2, run_s=1)])
    for policy in POLICIES:
        outcome = simulate(trace, policy, 1)
        assert sorted(outcome.waits_us)[-1] in (0, SECOND_US)
        assert len(outcome.starts) == 5


def test_progress_ends_at_all_jobs():
    told: list[int] = []
    simulate(sample(jobs=500, tenants=5), Policy.fair(), 3, progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 500
    assert len(told) <= 110


# ---------------------------------------------------------------------- what is set beside the policy


def running_at_most(outcome, key) -> Counter:
    """The most jobs that ran at once, by tenant or queue."""
    changes = []
    for job, wait in zip(outcome.trace.jobs, outcome.waits_us, strict=True):
        if wait != NEVER:
            start = job.submit_us + wait
            changes += [(start, 1, key(job)), (start + job.run_us, -1, key(job))]
    now, most = Counter(), Counter()
    for _, change, name in sorted(changes):
        now[name] += change
        most[name] = max(most[name], now[name])
    return most


def test_weights_share_the_worker_time():
    trace = Trace.of("t", [*jobs_of("a", 4000, run_s=1), *jobs_of("b", 1000, run_s=4)])
    outcome = simulate(trace, Policy.fair(), 10, Setup(weights={"b": 3}))
    first = Counter[str]()
    for start in outcome.starts:
        job = trace.jobs[start.place.seq]
        if job.submit_us + outcome.waits_us[start.place.seq] < 200 * SECOND_US:
            first[job.tenant] += job.run_us
    assert first["b"] / first["a"] == pytest.approx(3, rel=0.05)


def test_caps_hold_at_every_instant_and_delay_nobody_else():
    trace = Trace.of("t", [*jobs_of("a", 50), *jobs_of("b", 50, queue="r"), *jobs_of("c", 20)])
    outcome = simulate(trace, Policy.fair(), 20, Setup(caps={"a": 3}, queue_caps={"r": 4}))
    assert running_at_most(outcome, lambda job: job.tenant)["a"] == 3
    assert running_at_most(outcome, lambda job: job.queue)["r"] == 4
    waits = defaultdict(list)
    for job, wait in zip(trace.jobs, outcome.waits_us, strict=True):
        waits[job.tenant].append(wait)
    assert max(waits["c"]) <= SECOND_US, "13 workers are left for 20 jobs of one second"


def test_a_paused_tenant_runs_nothing_and_delays_nobody():
    trace = Trace.of("t", [*jobs_of("a", 50, tier=0), *jobs_of("b", 5)])
    outcome = simulate(trace, Policy.fair(), 5, Setup(paused=frozenset({"a"})))
    assert outcome.waits_us == [NEVER] * 50 + [0] * 5
    assert [run.tenant for run in outcome.runs()] == ["b"] * 5


def test_declared_slots_bound_urgent_work():
    trace = Trace.of("t", [*jobs_of("flood", 400, tier=0), *jobs_of("b", 400, tier=2)])
    for slots, most in ((None, 10), (0, 40)):
        outcome = simulate(trace, Policy.fair(), 40, Setup(slots=slots))
        first = Counter(start.rule for start in outcome.starts[:40])
        assert first["urgent"] == most


@pytest.mark.parametrize(
    ("setup", "message"),
    [
        (Setup(weights={"x": 2}), "no tenant 'x' in trace 't'; it has a, b"),
        (Setup(caps={"x": 2}), "no tenant 'x'"),
        (Setup(paused=frozenset({"x"})), "no tenant 'x'"),
        (Setup(queue_caps={"x": 2}), "no queue 'x' in trace 't'; it has q"),
    ],
)
def test_unknown_names_are_refused(setup, message):
    trace = Trace.of("t", [*jobs_of("a", 1), *jobs_of("b", 1)])
    with pytest.raises(InvalidValue, match=message):
        simulate(trace, Policy.fair(), 1, setup)


def test_values_out_of_range_are_refused():
    trace = Trace.of("t", jobs_of("a", 1))
    with pytest.raises(InvalidValue, match="workers is 0"):
        simulate(trace, Policy.fair(), 0)
    with pytest.raises(InvalidValue, match="weight of tenant 'a' is 0"):
        Setup(weights={"a": 0})
    with pytest.raises(InvalidValue, match="cap of queue 'q' is -1"):
        Setup(queue_caps={"q": -1})


def test_policies_by_name():
    assert policy_named("fair", ageing_step=5, risen_every=4) == Policy.fair(ageing_step=5, risen_every=4)
    assert policy_named("strict", ageing_step=5, charge="count") == Policy.strict(ageing_step=5, charge="count")
    assert policy_named("fifo", ageing_step=5, risen_every=4).kind == "fifo"
    with pytest.raises(InvalidValue, match="'lifo' is not one of"):
        policy_named("lifo")
