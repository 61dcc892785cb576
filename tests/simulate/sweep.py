"""The figures behind the defaults: one line for each setting, a column for each gate of SPEC 11.

    python tests/simulate/sweep.py                       # the defaults
    python tests/simulate/sweep.py risen_every 4 8 16    # one setting, several values
    python tests/simulate/sweep.py shares 8,8,4,2,1 1,1,1,1,1

Settings: ageing_step (a factor on the step of each workload), risen_every, urgent_share, max_lag, charge, shares,
policy. Takes about 20 s a line.
"""

from __future__ import annotations

import sys
from pathlib import Path
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parent))

from workloads import abuse, aged_backlog, burst, endless_critical, new_tenants, real

from fairlane.domain import charging
from fairlane.domain.tiers import SHARES, Tier
from fairlane.simulate.engine import policy_named, simulate
from fairlane.simulate.report import Run, quantile, statistics
from fairlane.simulate.traces import Trace

SIX_HOURS_S = 6 * 3600.0
COLUMNS = (
    "setting",
    *("google T0-1 p99", "T4 p99", "others", "Jain"),
    *("abuse T0-1 p99", "others"),
    *("wagap T1 p99", "T4 max", "others"),
    "azure others",
    *("burst T0 p99", "T1 p99", "others p99"),
    *("endless T1 p99", "T4 p99", "T0 mean"),
    "newcomers: resident",
    "aged: urgent p99",
)


def line(name: str, step: float, policy: str, settings: dict) -> list[str]:
    """The figures of one setting."""

    def runs(trace: Trace, workers: int, step_s: float) -> list[Run]:
        made = policy_named(policy, ageing_step=step_s * step, **settings)
        return list(simulate(trace, made, workers).runs())

    def figures(trace: Trace, workers: int, step_s: float, tau_s: float):
        return statistics(runs(trace, workers, step_s), workers=workers, span_s=trace.span_s, tau_s=tau_s)

    def p99(found: list[Run], which) -> float:
        return quantile(sorted(run.wait_s for run in found if which(run)), 0.99)

    google = figures(real("google2011"), 9086, 60, 10)
    marked = figures(abuse(), 9086, 60, 10)
    wagap = figures(real("wagap2013"), 146, SIX_HOURS_S, 60)
    azure = figures(real("azurellm2023"), 44, 60, 1)
    rush = figures(burst(), 10, 60, 1)
    endless = figures(endless_critical(), 10, 10, 1)["tiers"]
    fresh = [run.wait_s for run in runs(new_tenants(), 10, 60) if run.tenant == "resident"]
    aged = runs(aged_backlog(), 10, 60)
    urgent = max(google["tiers"]["critical"]["p99"], google["tiers"]["high"]["p99"])
    values = [
        *(urgent, google["tiers"]["background"]["p99"], google["others_mean_wait"], google["jain_inverse_slowdown"]),
        *(marked["others"]["urgent"]["p99"], marked["others_mean_wait"]),
        *(wagap["tiers"]["high"]["p99"], wagap["tiers"]["background"]["max"], wagap["others_mean_wait"]),
        azure["others_mean_wait"],
        *(rush["tiers"]["critical"]["p99"], rush["tiers"]["high"]["p99"], rush["others"]["all"]["p99"]),
        *(endless["high"]["p99"], endless["background"]["p99"], endless["critical"]["mean"]),
        sum(fresh) / len(fresh),
        p99(aged, lambda run: run.tier <= Tier.HIGH),
    ]
    return [name, *(f"{value:.3g}" if value < 1000 else f"{value:.0f}" for value in values)]


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(setting: str, values: list[str]) -> None:
    say(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for value in values:
        step, policy, settings, shares = 1.0, "fair", {}, SHARES
        if setting == "ageing_step":
            step = float(value)
        elif setting == "policy":
            policy = value
        elif setting == "shares":
            shares = tuple(int(share) for share in value.split(","))
        elif setting in ("risen_every", "urgent_share", "max_lag", "charge"):
            kind = {"risen_every": int, "charge": str}.get(setting, float)
            settings[setting] = kind(value)
        elif setting:
            sys.exit(f"no setting {setting!r}\n{__doc__}")
        with patch.object(charging, "SHARES", shares):
            say(f"| {' | '.join(line(f'{setting} {value}'.strip(), step, policy, settings))} |")


if __name__ == "__main__":
    main(sys.argv[1] if sys.argv[1:] else "", sys.argv[2:] or [""])
