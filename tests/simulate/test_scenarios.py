"""Troubles that users of job queues have reported, one workload each: what the default policy makes of them."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # "importlib" mode finds no neighbours by itself

from bound import starts_beyond_the_bound
from workloads import BACKGROUND, CRITICAL, HIGH, NORMAL, SECOND_US, aged_backlog, flood, job, new_tenants, split

from fairlane.domain.policy import Policy
from fairlane.simulate.engine import Outcome, Setup, simulate
from fairlane.simulate.report import quantile
from fairlane.simulate.traces import Trace, sample

WORKERS = 10


def waits_s(outcome: Outcome, which) -> list[float]:
    """The waits of the jobs that a test picks, in ascending order."""
    pairs = zip(outcome.trace.jobs, outcome.waits_us, strict=True)
    return sorted(wait / SECOND_US for each, wait in pairs if which(each))


def mean(values) -> float:
    return sum(values) / len(values)


def test_a_trickle_beside_a_flood_waits_for_a_free_worker_and_no_longer():
    trace = flood()
    fair, fifo = (simulate(trace, policy, WORKERS) for policy in (Policy.fair(), Policy.fifo()))
    trickle = waits_s(fair, lambda each: each.tenant == "trickle")
    assert quantile(trickle, 0.99) <= 1, "ten workers with jobs of a second: one is free every 0.1 s"
    assert mean(waits_s(fifo, lambda each: each.tenant == "trickle")) > 200
    heavy = [mean(waits_s(each, lambda one: one.tenant == "flood")) for each in (fair, fifo)]
    assert heavy[0] <= 1.06 * heavy[1], "and the flood pays what the trickle uses"


def test_a_flood_does_not_stand_before_one_job_of_each_other_tenant():
    """postel #126: A floods 10,000, B to E want one each, same tier: all four start at once."""
    trace = Trace.of("t", [*(job(0, "a", NORMAL) for _ in range(2000)), *(job(1.5, name, NORMAL) for name in "bcde")])
    outcome = simulate(trace, Policy.fair(), WORKERS)
    order = [trace.jobs[start.place.seq] for start in outcome.starts]
    behind = [each.tenant for each in order if each.submit_us or each.tenant != "a"]
    first = next(number for number, each in enumerate(order) if each.tenant != "a")
    assert {each.tenant for each in order[first : first + 5]} >= set("bcde")
    assert len(behind) == 4


def test_one_heavy_tenant_alone_loses_nothing():
    """Turns cost a tenant nothing while nobody else wants the workers: the mean is that of first come, first served."""
    made = sample(jobs=6000, tenants=1, slots=20, utilisation=0.9, seed=4)
    one_tier = Trace.of("t", [each._replace(tier=NORMAL) for each in made.jobs])
    five = [mean(simulate(made, policy, 20).waits_us) for policy in (Policy.fair(), Policy.fifo())]
    one = [mean(simulate(one_tier, policy, 20).waits_us) for policy in (Policy.fair(), Policy.fifo())]
    assert five[0] == pytest.approx(five[1], rel=0.05), "tiers change who waits, not how long on average"
    queues = [simulate(one_tier, policy, 20).waits_us for policy in (Policy.fair(), Policy.fifo())]
    assert queues[0] == queues[1]
    assert one[0] == one[1]


def test_a_stream_of_ever_new_tenants_starves_nobody():
    """A newcomer's first job comes before the next job of one who has used more: an overload of newcomers leaves a
    resident little but the guaranteed starts. Those it gets, within the bound. (First come, first served is kinder
    to it: 87 s on average instead of 696 s. Names are to be given out with care.)
    """
    trace = new_tenants()

    def resident(outcome):
        return waits_s(outcome, lambda each: each.tenant == "resident")

    fair, unguarded = (simulate(trace, Policy.fair(risen_every=every), WORKERS) for every in (8, 0))
    assert starts_beyond_the_bound(fair) <= 0
    assert starts_beyond_the_bound(unguarded) > 0
    assert mean(resident(fair)) < mean(resident(unguarded))
    calm = simulate(new_tenants(load=0.8), Policy.fair(), WORKERS)
    assert quantile(resident(calm), 0.99) <= 10, "without overload nobody waits for long"


def test_who_splits_into_many_names_gets_many_turns_but_no_urgent_work():
    """Names are what turns are counted by. Urgent jobs of the others do not notice; a weight for each name mends it."""
    whole, parts = split(1), split(50)

    def others(outcome, tier):
        return waits_s(outcome, lambda each: each.tenant.startswith("other") and each.tier == tier)

    one = simulate(whole, Policy.fair(), WORKERS)
    many = simulate(parts, Policy.fair(), WORKERS)
    assert quantile(others(one, NORMAL), 0.99) <= 2
    assert mean(others(many, NORMAL)) > 100, "fifty turns in sixty are the splitter's"
    assert quantile(others(many, HIGH), 0.99) <= 1
    weights = {each.tenant: 0.02 for each in parts.jobs if each.tenant.startswith("split")}
    mended = simulate(parts, Policy.fair(), WORKERS, Setup(weights=weights))
    assert quantile(others(mended, NORMAL), 0.99) <= 5


def test_urgent_work_over_an_aged_backlog():
    """wavelens/gradient #111: a backlog that has aged to the top must not stand before new urgent work."""
    trace = aged_backlog()
    fair, strict, fifo = (
        simulate(trace, policy, WORKERS) for policy in (Policy.fair(), Policy.strict(), Policy.fifo())
    )

    def p99(outcome, tier):
        return quantile(waits_s(outcome, lambda each: each.tier == tier), 0.99)

    assert p99(fair, CRITICAL) <= 2
    assert p99(fair, HIGH) <= 2
    assert p99(strict, HIGH) > 30, "there the backlog has aged to the same tier"
    assert p99(fifo, CRITICAL) > 300
    spread = defaultdict(int)
    for start in fair.starts:
        spread[start.rule] += 1
    assert spread["risen"] <= len(fair.starts) / 8 + 1


def test_an_aged_backlog_does_not_outweigh_a_newcomer():
    """Tenant a with a backlog that has aged, tenant b with new work: from then on they share evenly."""
    backlog = [job(0, "a", BACKGROUND) for _ in range(8000)]
    trace = Trace.of("t", [*backlog, *(job(300, "b", BACKGROUND) for _ in range(2000))])
    outcome = simulate(trace, Policy.fair(), WORKERS)
    order = [trace.jobs[start.place.seq].tenant for start in outcome.starts]
    first = order.index("b")
    counts = Counter(order[first : first + 2000])
    assert counts["b"] / 2000 == pytest.approx(0.5, abs=0.07), "an eighth of the starts is a's by the guarantee"


def test_idleness_earns_no_credit():
    """b was away for an hour while a worked: it comes in as an equal, not with an hour to catch up on."""
    trace = Trace.of(
        "t",
        [
            job(0, "b", NORMAL),
            *(job(0, "a", NORMAL) for _ in range(45_00)),
            *(job(400, "b", NORMAL) for _ in range(2000)),
        ],
    )
    outcome = simulate(trace, Policy.fair(ageing_step=1e6), WORKERS)
    order = [trace.jobs[start.place.seq].tenant for start in outcome.starts]
    after = order[4050:4450]
    assert Counter(after)["b"] / len(after) == pytest.approx(0.5, abs=0.05)
