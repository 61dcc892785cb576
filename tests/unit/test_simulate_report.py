"""The figures of the report, worked out by hand."""

import pytest

from fairlane.domain.policy import Policy
from fairlane.errors import InvalidValue
from fairlane.simulate.compare import compare, jobs_to_run
from fairlane.simulate.engine import Setup
from fairlane.simulate.labels import summary
from fairlane.simulate.report import Run, Span, filled_up, quantile, shares, slowdowns, statistics
from fairlane.simulate.traces import Trace, TraceJob, sample

# Tenant a: 6 jobs of 10 s that waited 0, 10, …, 50 s. Tenant b: 5 jobs of 1 s that waited 4 s. Tenant c: one job.
HAND = [
    *(Run("a", "big", 4, wait, 10) for wait in (50, 0, 10, 20, 30, 40)),
    *(Run("b", "small", 1, 4, 1) for _ in range(5)),
    Run("c", "small", 0, 100, 5),
]


def test_the_figures_by_hand():
    figures = statistics(HAND, workers=2, span_s=50, tau_s=2)
    assert figures["heaviest_tenant"] == "a"
    assert figures["tiers"] == {
        "critical": {"jobs": 1, "mean": 100, "p50": 100, "p90": 100, "p99": 100, "max": 100},
        "high": {"jobs": 5, "mean": 4, "p50": 4, "p90": 4, "p99": 4, "max": 4},
        "background": {"jobs": 6, "mean": 25, "p50": 20, "p90": 50, "p99": 50, "max": 50},
    }
    assert list(figures["tiers"]) == ["critical", "high", "background"]
    assert figures["queues"]["big"] == figures["tiers"]["background"]
    assert figures["queues"]["small"] == {"jobs": 6, "mean": 20, "p50": 4, "p90": 100, "p99": 100, "max": 100}
    assert figures["others"]["all"] == figures["others"]["urgent"] == figures["queues"]["small"]
    assert figures["others_mean_wait"] == 20
    # a: (1 + 2 + … + 6) / 6 = 3.5; b: (4 + 1) / max(1, 2) = 2.5; c has too few jobs.
    assert slowdowns(HAND, 2) == {"a": 3.5, "b": 2.5}
    assert figures["slowdown"] == {"p50": 2.5, "p90": 3.5, "max": 3.5}
    x, y = 1 / 3.5, 1 / 2.5
    assert figures["jain_inverse_slowdown"] == pytest.approx((x + y) ** 2 / (2 * (x * x + y * y)), abs=1e-6)
    assert figures["utilisation"] == 0.7


def test_what_is_not_there_is_none():
    alone = statistics([Run("a", "q", 2, 1, 1)] * 3, workers=1, span_s=0)
    assert alone["others_mean_wait"] is None
    assert alone["others"]["all"] == {"jobs": 0, "mean": None, "p50": None, "p90": None, "p99": None, "max": None}
    assert alone["jain_inverse_slowdown"] is None
    assert alone["slowdown"] == {"p50": None, "p90": None, "max": None}
    assert alone["utilisation"] is None
    nothing = statistics([], workers=1, span_s=1)
    assert (nothing["tiers"], nothing["heaviest_tenant"], nothing["utilisation"]) == ({}, None, 0)


def test_heaviest_is_the_first_of_several_or_the_one_that_is_known():
    runs = [Run("b", "q", 2, 1, 1), Run("a", "q", 2, 3, 1)]
    assert statistics(runs, workers=1, span_s=1)["heaviest_tenant"] == "b"
    assert statistics(runs, workers=1, span_s=1, heaviest="a")["others_mean_wait"] == 1


def test_quantiles_are_nearest_rank():
    values = list(range(1, 101))
    found = [quantile(values, share) for share in (0, 0.001, 0.01, 0.011, 0.5, 0.9, 0.99, 1)]
    assert found == [1, 1, 1, 2, 50, 90, 99, 100]
    assert quantile([7], 0.99) == 7


# ---------------------------------------------------------------------- shares


def test_filling_up():
    assert filled_up({}, 5, {}) == {}
    assert filled_up({"a": 2, "b": 3}, 10, {}) == {"a": 2, "b": 3}
    assert filled_up({"a": 100, "b": 100}, 10, {"b": 4}) == pytest.approx({"a": 2, "b": 8})
    assert filled_up({"a": 1, "b": 100, "c": 2.5}, 9, {}) == pytest.approx({"a": 1, "b": 5.5, "c": 2.5})


def test_share_used_against_share_due_by_hand():
    """One worker, 4 s. a runs from 0 to 3 though b waits from 1 on; b runs from 3 to 4."""
    spans = [Span("a", 0, 0, 3), Span("b", 1, 3, 4)]
    found = shares(spans, workers=1, until_s=4, steps=4)
    assert found.used == {"a": [1, 1, 1, 0], "b": [0, 0, 0, 1]}
    assert found.due["a"] == pytest.approx([1, 0.5, 0.5, 0])
    assert found.due["b"] == pytest.approx([0, 0.5, 0.5, 1])
    heavier = shares(spans, workers=1, until_s=4, steps=4, weights={"b": 3}, keep=["b"])
    assert heavier.due["b"] == pytest.approx([0, 0.75, 0.75, 1])
    assert heavier.used[""] == [1, 1, 1, 0]


def test_steps_that_are_cut_and_spans_beyond_the_end():
    found = shares([Span("a", 0.5, 0.5, 9), Span("b", 0, 0, 0.25)], workers=9, until_s=2, steps=2)
    assert found.used["a"] == pytest.approx([2 / 3, 1])
    assert found.used["b"] == pytest.approx([1 / 3, 0])
    assert found.due["a"] == pytest.approx([2 / 3, 1]), "there are workers for all"


# ---------------------------------------------------------------------- comparisons


def test_a_comparison_has_the_shape_of_the_specification():
    trace = sample(jobs=400, tenants=8, slots=6)
    told: list[int] = []
    comparison = compare(trace, [Policy.fair(), Policy.fifo()], 6, progress=told.append)
    found = comparison.as_json()
    assert (found["trace"], found["jobs"], found["workers"]) == ("sample-1", 400, 6)
    assert list(found["policies"]) == ["fair", "fifo"]
    assert list(found["policies"]["fair"]) == [
        "tiers", "queues", "others", "others_mean_wait", "heaviest_tenant", "jain_inverse_slowdown", "slowdown",
        "utilisation", "others_mean_wait_without_heaviest",
    ]  # fmt: skip
    assert told[-1] == jobs_to_run(trace, 2) == 2 * (400 + 160)
    assert found["policies"]["fair"]["utilisation"] == pytest.approx(0.9, rel=1e-3)


def test_others_alone_are_a_simulation_of_their_own():
    def jobs(tenant, count):
        return [TraceJob(0, tenant, "q", 2, 1_000_000) for _ in range(count)]

    both = compare(Trace.of("t", [*jobs("a", 9), *jobs("b", 3)]), [Policy.fifo()], 1)
    assert both.results["fifo"].statistics["others_mean_wait"] == 10
    assert both.results["fifo"].alone == 1
    one = compare(Trace.of("t", jobs("a", 9)), [Policy.fifo()], 1)
    assert one.results["fifo"].alone is None


def test_what_is_set_holds_without_the_heaviest_too():
    jobs = [TraceJob(0, tenant, "q", 2, 1_000_000) for tenant in "aaaaabbb"]
    setup = Setup(caps={"a": 5, "b": 1}, weights={"a": 2})
    found = compare(Trace.of("t", jobs), [Policy.fair()], 8, setup).results["fair"]
    assert found.statistics["others_mean_wait"] == found.alone == 1, "b runs one job at a time: waits of 0, 1 and 2 s"


def test_the_summary_marks_who_does_best():
    comparison = compare(sample(jobs=800, tenants=12, slots=8), [Policy.fifo(), Policy.fair()], 8)
    lines = {measure.label: measure for measure in summary(comparison)}
    others, index = lines["Mean wait of the others"], lines["Jain index of 1 / slowdown"]
    assert others.values[1] < others.values[0]
    assert others.best == [False, True]
    assert index.values[1] > index.values[0]
    assert index.best == [False, True]
    assert lines["Mean wait of tenant acme itself"].best == [False, False], "no contest"


def test_each_policy_once():
    trace = sample(jobs=10, tenants=2, slots=1, utilisation=0.1)
    with pytest.raises(InvalidValue, match="each once"):
        compare(trace, [Policy.fair(), Policy.fair(ageing_step=1)], 1)
    with pytest.raises(InvalidValue, match="at least one"):
        compare(trace, [], 1)
