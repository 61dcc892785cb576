"""The report of a simulation as one HTML file: no script, no network, light and dark, wide and narrow."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Final

from fairlane.domain.tiers import TIERS, Tier
from fairlane.simulate.charts import Axis, Chart, Point, power_axis, rest_axis, share_axis, time_axis, wait_axis
from fairlane.simulate.compare import Comparison, Result
from fairlane.simulate.labels import NONE, counted, duration, own_mean_wait, percent, ratio, summary, worker_count
from fairlane.simulate.report import LEAST_JOBS, Waits, quantile, shares, slowdowns

STEPS: Final = 48
"""How many steps of time a chart has: about one for each 6 pixels."""
POINTS: Final = 160
MOST_DOTS: Final = 300
TOP_TENANTS: Final = 8
PAIR: Final = 2
HALF: Final = 50


def write(comparison: Comparison, path: str | Path) -> None:
    """Write the report.

    Raises:
        OSError: The file cannot be written.
    """
    Path(path).write_text(render(comparison), encoding="utf-8")


def render(comparison: Comparison) -> str:
    """Return the report as a page that stands alone."""
    trace = comparison.trace
    template = Template(files("fairlane.simulate").joinpath("report.html").read_text(encoding="utf-8"))
    sections = [_summary(comparison), _tiers(comparison), _tenants(comparison), _shares(comparison), _notes(comparison)]
    return template.substitute(
        title=escape(f"{trace.name}: fairlane simulation"),
        name=escape(trace.name),
        facts=" · ".join(escape(fact) for fact in _facts(comparison)),
        lead=_lead(comparison),
        body="\n".join(section for section in sections if section),
    )


# ---------------------------------------------------------------------- head


def _facts(comparison: Comparison) -> list[str]:
    trace, setup = comparison.trace, comparison.setup
    tenants = len(trace.tenants())
    policy = next(iter(comparison.results.values())).outcome.policy
    facts = [
        f"{counted(len(trace.jobs), 'job')} of {counted(tenants, 'tenant')} in {duration(trace.span_s)}",
        worker_count(comparison.workers, trace.utilisation(comparison.workers)),
        f"ageing step {duration(policy.ageing_step_ms / 1000)}",
        f"charged by {policy.charge}",
    ]
    facts += [f"weight of {tenant}: {weight:g}" for tenant, weight in setup.weights.items()]
    facts += [f"{tenant} runs at most {most}" for tenant, most in setup.caps.items()]
    facts += [f"queue {queue} runs at most {most}" for queue, most in setup.queue_caps.items()]
    facts += [f"{tenant} is paused" for tenant in sorted(setup.paused)]
    return facts


def _lead(comparison: Comparison) -> str:
    trace = comparison.trace
    counts = trace.tenants()
    heaviest = trace.heaviest()
    share = f"Tenant <b>{escape(heaviest)}</b> has <b>{percent(counts[heaviest] / len(trace.jobs))}</b> of the jobs."
    if len(counts) == 1:
        return share
    means = {name: result.statistics["others_mean_wait"] for name, result in comparison.results.items()}
    texts = [f"<b>{duration(mean)}</b> under {name}" for name, mean in means.items()]
    others = "The other tenant waits" if len(counts) == PAIR else f"The other {len(counts) - 1:,} tenants wait"
    text = f"{share} {others} {_listed(texts)} on average"
    alone = next(iter(comparison.results.values())).alone
    if alone is not None:
        text += f"; if {escape(heaviest)} were not there, it would be <b>{duration(alone)}</b>"
    return text + "."


def _listed(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


# ---------------------------------------------------------------------- pieces


def _section(title: str, text: str, content: str) -> str:
    return f'<section><h2>{title}</h2>\n<p class="sub">{text}</p>\n{content}</section>'


def _key(name: str) -> str:
    sample = f'<svg viewBox="0 0 26 8" aria-hidden="true"><path class="line {name}" d="M2 4H24"/></svg>'
    return f'<span class="key">{sample}{escape(name)}</span>'


def _legend(comparison: Comparison) -> str:
    return f'<p class="legend">{"".join(_key(name) for name in comparison.results)}</p>'


def _figure(chart: Chart, caption: str) -> str:
    return f"<figure><figcaption>{caption}</figcaption>{chart.svg()}</figure>"


def _cells(values: Iterable[str], best: Iterable[bool] | None = None) -> str:
    marks = iter(best) if best is not None else iter(())
    return "".join(
        f'<td class="best">{escape(text)}</td>' if next(marks, False) else f"<td>{escape(text)}</td>" for text in values
    )


def _table(head: Sequence[str], rows: Iterable[tuple[str, str]], *, kind: str, label: str) -> str:
    """A table whose rows are a first cell and the others, both HTML already."""
    columns = "".join(f'<th scope="col">{text}</th>' for text in head)
    lines = "".join(f'<tr><th scope="row">{first}</th>{cells}</tr>' for first, cells in rows)
    return (
        f'<div class="scroll" tabindex="0" role="group" aria-label="{escape(label)}"><table class="{kind}">'
        f"<thead><tr>{columns}</tr></thead><tbody>{lines}</tbody></table></div>"
    )


# ---------------------------------------------------------------------- sections


def _summary(comparison: Comparison) -> str:
    names = list(comparison.results)
    measures = [measure for measure in summary(comparison) if any(value is not None for value in measure.values)]
    rows = [(escape(measure.label), _cells(measure.shown, measure.best)) for measure in measures]
    table = _table(["", *(_key(name) for name in names)], rows, kind="summary", label="The policies side by side")
    bars = _charts_of_means(comparison)
    content = f'<div class="card three"><div class="{"broad" if bars else "all"}">{table}</div>{bars}</div>'
    text = (
        "Others are all tenants but the heaviest. A tenant&rsquo;s slowdown is how many times longer its jobs took "
        "than they would alone; Jain&rsquo;s index is 1 when it is the same for all."
    )
    return _section("The policies side by side", text, content)


def _charts_of_means(comparison: Comparison) -> str:
    heaviest = comparison.trace.heaviest()
    others = {name: result.statistics["others_mean_wait"] for name, result in comparison.results.items()}
    own = {name: own_mean_wait(result, heaviest) for name, result in comparison.results.items()}
    alone = {name: result.alone for name, result in comparison.results.items()}
    longest = max((mean for means in (others, own) for mean in means.values() if mean is not None), default=0.0)
    if not longest or not any(others.values()):
        return ""
    upright = (
        f"; upright: if {escape(heaviest)} were not there" if any(mean is not None for mean in alone.values()) else ""
    )
    return (
        f"<div>{_bars(f'Mean wait of the others{upright}', others, alone, longest)}"
        f"{_bars(f'Mean wait of tenant {escape(heaviest)} itself', own, {}, longest)}</div>"
    )


def _bars(caption: str, means: dict[str, float | None], marks: dict[str, float | None], longest: float) -> str:
    rows: list[str] = []
    for name, mean in means.items():
        part = 100 * (mean or 0.0) / longest
        alone = marks.get(name)
        mark = (
            ""
            if alone is None
            else f'<span class="mark" style="left: {min(100.0, 100 * alone / longest):.1f}%"></span>'
        )
        place, edge = (" in", f"right: {100 - part:.1f}%") if part > HALF else ("", f"left: {part:.1f}%")
        rows.append(
            f'<div class="row"><span>{escape(name)}</span><div class="track {name}">'
            f'<span class="fill" style="width: {part:.1f}%"></span>'
            f'<span class="value{place}" style="{edge}">{duration(mean)}</span>{mark}</div></div>'
        )
    return f'<figure><figcaption>{caption}</figcaption><div class="bars">{"".join(rows)}</div></figure>'


def _tiers(comparison: Comparison) -> str:
    results = comparison.results
    by_tier: dict[str, dict[int, list[tuple[float, float]]]] = {}
    for name, result in results.items():
        mine = by_tier[name] = defaultdict(list)
        for span, run in zip(result.outcome.spans(), result.runs, strict=True):
            mine[run.tier].append((span.submit_s, run.wait_s))
    longest = max((run.wait_s for result in results.values() for run in result.runs), default=0.0)
    time, wait = time_axis(comparison.trace.span_s, "submitted at"), wait_axis(longest)
    across = wait_axis(longest, "wait")
    cards: list[str] = []
    for tier in TIERS:
        if any(tier in mine for mine in by_tier.values()):
            pairs = {name: mine.get(tier, []) for name, mine in by_tier.items()}
            figures = {name: result.statistics["tiers"].get(tier.label) for name, result in results.items()}
            cards.append(_tier_card(tier, pairs, figures, (time, wait, across)))
    text = (
        "For each tier: quantiles of the waits; the wait that 90 % of the jobs did not exceed, by the time at which "
        "they were submitted; and the share of the jobs that waited longer than a given time. Axes of waits are "
        "logarithmic."
    )
    return _section("Waits by tier", text, _legend(comparison) + "".join(cards))


def _tier_card(
    tier: Tier,
    pairs: dict[str, list[tuple[float, float]]],
    figures: dict[str, Waits | None],
    axes: tuple[Axis, Axis, Axis],
) -> str:
    time, wait, across = axes
    over_time = Chart(time, wait, f"{tier.name}: wait over time, by policy")
    rest = Chart(across, rest_axis("share of jobs"), f"{tier.name}: share of jobs that waited longer, by policy")
    for name, points in reversed(pairs.items()):
        over_time.line(_by_step(points, time.high), name)
        rest.line(_longer(sorted(wait_s for _, wait_s in points), across), name)
    rows = [
        (_key(name), _cells(duration(own[q]) if own else NONE for q in ("p50", "p90", "p99", "max")))
        for name, own in figures.items()
    ]
    jobs = max(len(points) for points in pairs.values())
    table = _table(["", "p50", "p90", "p99", "max"], rows, kind="small", label=f"Waits of {tier.name}")
    figures_over_time = _figure(over_time, "90 % waited at most this long")
    figures_rest = _figure(rest, "share of jobs that waited longer than this")
    return (
        f'<div class="card"><div class="head"><h3>{tier.name}</h3><span>{counted(jobs, "job")}</span></div>'
        f'<div class="three"><div class="wide">{table}</div>{figures_over_time}{figures_rest}</div></div>'
    )


def _by_step(points: Sequence[tuple[float, float]], until_s: float) -> list[Point | None]:
    """The 0.9 quantile of the waits in each step of time; None where nothing was submitted."""
    steps: list[list[float]] = [[] for _ in range(STEPS)]
    for submit_s, wait_s in points:
        steps[min(STEPS - 1, int(submit_s / until_s * STEPS))].append(wait_s)
    return [
        ((step + 0.5) * until_s / STEPS, quantile(sorted(waits), 0.9)) if waits else None
        for step, waits in enumerate(steps)
    ]


def _longer(ordered: Sequence[float], axis: Axis) -> list[Point | None]:
    """The share of waits above each of many values, evenly spaced on a logarithmic axis."""
    if not ordered:
        return []
    points: list[Point | None] = []
    for number in range(POINTS + 1):
        value = axis.low * (axis.high / axis.low) ** (number / POINTS)
        above = 1 - bisect_right(ordered, value) / len(ordered)
        points.append((value, above))
        if above <= 0:
            break
    return points


def _tenants(comparison: Comparison) -> str:
    slow = {name: slowdowns(result.runs, comparison.tau_s) for name, result in comparison.results.items()}
    if not any(slow.values()):
        return ""
    counts, heaviest = comparison.trace.tenants(), comparison.trace.heaviest()
    worst = max(max(own.values(), default=1.0) for own in slow.values())
    up = power_axis(1, max(10.0, worst), "")
    ordered = Chart(
        share_axis("tenants, from the least slowed down to the most"), up, "Slowdown of the tenants in order"
    )
    by_jobs = Chart(
        power_axis(LEAST_JOBS, max(counts.values()), "jobs of the tenant"), up, "Slowdown of each tenant by its jobs"
    )
    for name, own in reversed(slow.items()):
        ordered.line(_ranked(sorted(own.values())), name)
        for tenant in sorted(own, key=counts.__getitem__, reverse=True)[:MOST_DOTS]:
            kind = f"{name} heaviest" if tenant == heaviest else name
            by_jobs.dot(
                (counts[tenant], own[tenant]),
                kind,
                f"{tenant}: {counts[tenant]:,} jobs, {ratio(own[tenant])} times under {name}",
            )
    table = _tenant_table(comparison, slow, counts)
    charts = _figure(ordered, "slowdown of the tenants in order") + _figure(
        by_jobs, f"slowdown by number of jobs; ringed: {escape(heaviest)}"
    )
    text = (
        f"Mean slowdown of each tenant with at least {LEAST_JOBS} jobs, where a job shorter than "
        f"{duration(comparison.tau_s)} counts as that long."
    )
    return _section("Tenants", text, f'{_legend(comparison)}<div class="card three">{charts}{table}</div>')


def _ranked(ordered: Sequence[float]) -> list[Point]:
    last = max(1, len(ordered) - 1)
    picks = sorted({round(number * last / POINTS) for number in range(POINTS + 1)} & set(range(len(ordered))))
    return [(pick / last, ordered[pick]) for pick in picks]


def _tenant_table(comparison: Comparison, slow: dict[str, dict[str, float]], counts: Counter[str]) -> str:
    rows: list[tuple[str, str]] = []
    for tenant, jobs in counts.most_common(TOP_TENANTS):
        ratios = [own.get(tenant) for own in slow.values()]
        name = f'<div class="name" title="{escape(tenant)}">{escape(tenant)}</div>'
        rows.append((name, _cells([f"{jobs:,}", *(ratio(value) for value in ratios)])))
    head = ["Tenant", "Jobs", *(escape(name) for name in comparison.results)]
    label = f"Slowdown of the {len(rows)} tenants with most jobs"
    table = _table(head, rows, kind="small", label=label)
    return f'<div class="wide"><figure><figcaption>{label}</figcaption>{table}</figure></div>'


def _shares(comparison: Comparison) -> str:
    counts = comparison.trace.tenants()
    if len(counts) < PAIR:
        return ""
    heaviest = comparison.trace.heaviest()
    until_s = max(result.outcome.last_start_s for result in comparison.results.values())
    if not until_s:
        return ""
    time = time_axis(until_s, "time")
    cards: list[str] = []
    for name, result in comparison.results.items():
        charts = _share_charts(comparison, result, name, time)
        cards.append(f'<div class="card"><div class="head"><h3>{escape(name)}</h3></div>{charts}</div>')
    due = '<svg viewBox="0 0 26 8" aria-hidden="true"><path class="line due" d="M2 4H24"/></svg>'
    legend = f'<p class="legend"><span class="key">{due}share due</span><span>filled: share used</span></p>'
    text = (
        f"Which part of the work done at each time was that of tenant {escape(heaviest)}, and of all others together. "
        "Due is what an even division of the workers by weight gives, among the tenants that have work then, none "
        "getting more than it has jobs for. Tiers play no part in it: urgent work may use more than is due for a while."
    )
    return _section("Share used against share due", text, f'{legend}<div class="three">{"".join(cards)}</div>')


def _share_charts(comparison: Comparison, result: Result, name: str, time: Axis) -> str:
    heaviest, setup = comparison.trace.heaviest(), comparison.setup
    series = shares(
        result.outcome.spans(),
        workers=comparison.workers,
        until_s=time.high,
        steps=STEPS,
        weights=setup.weights,
        caps=setup.caps,
        keep=[heaviest],
    )
    figures: list[str] = []
    for who, title in ((heaviest, f"tenant {heaviest}"), ("", "all others")):
        used, due = series.used.get(who, []), series.due.get(who, [])
        chart = Chart(time, share_axis(""), f"Share used against share due under {name}: {title}")
        chart.area(_stairs(used, series.step_s), name)
        chart.line(_stairs(used, series.step_s), f"{name} used")
        chart.line(_stairs(due, series.step_s), "due")
        figures.append(_figure(chart, escape(title)))
    return "".join(figures)


def _stairs(values: Sequence[float], step_s: float) -> list[Point]:
    return [(edge * step_s, value) for number, value in enumerate(values) for edge in (number, number + 1)]


def _notes(comparison: Comparison) -> str:
    names = list(comparison.results)
    queues = sorted({queue for result in comparison.results.values() for queue in result.statistics["queues"]})[:50]
    rows: list[tuple[str, str]] = []
    for queue in queues:
        figures = [comparison.results[name].statistics["queues"].get(queue) for name in names]
        jobs = max(own["jobs"] for own in figures if own)
        waits = [duration(own[q]) if own else NONE for own in figures for q in ("mean", "p99")]
        rows.append((f'<div class="name">{escape(queue)}</div>', _cells([f"{jobs:,}", *waits])))
    head = ["Queue", "Jobs", *(f"{escape(name)} {q}" for name in names for q in ("mean", "p99"))]
    table = _table(head, rows, kind="small", label="Waits by queue")
    rules = _rules(comparison)
    return (
        '<section><h2>More</h2><div class="card"><details><summary>Waits by queue</summary>'
        f"{table}</details><details><summary>Which rule started the jobs</summary>{rules}</details>"
        f"<details><summary>What the words mean</summary>{_WORDS}</details></div></section>"
    )


def _rules(comparison: Comparison) -> str:
    rows: list[tuple[str, str]] = []
    for name, result in comparison.results.items():
        counts = Counter(start.rule for start in result.outcome.starts)
        total = max(1, sum(counts.values()))
        text = ", ".join(f"{rule} {count:,} ({percent(count / total)})" for rule, count in counts.most_common())
        rows.append((_key(name), f'<td class="from">{escape(text)}</td>'))
    return _table(["Policy", '<div class="from">Starts by rule</div>'], rows, kind="small", label="Starts by rule")


_WORDS: Final = """<dl>
<dt>fair</dt><dd>CRITICAL, then HIGH; below them tenants take turns by the worker time they have used. Every eighth
start goes to a job that has waited long enough to rise.</dd>
<dt>strict</dt><dd>The most urgent tier first, over all tenants; waiting raises a job tier by tier; tenants take turns
within a tier.</dd>
<dt>fifo</dt><dd>First come, first served: what a queue without tiers or tenants does.</dd>
<dt>wait</dt><dd>From submit to start.</dd>
<dt>p99</dt><dd>The wait that 99 % of the jobs did not exceed (nearest rank).</dd>
<dt>slowdown</dt><dd>(wait + run time) ÷ run time, at least 1; the mean over a tenant&rsquo;s jobs.</dd>
<dt>utilisation</dt><dd>Work that arrives ÷ what the workers can do from the first submit to the last.</dd>
</dl>"""
