"""The command: measure, then write JSON and Markdown."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.compare.place import ROOT, enter, tell

if TYPE_CHECKING:
    from bench.compare.adapters.base import Adapter
    from bench.compare.scenarios.base import Scenario
    from bench.compare.servers import Servers


def _list(text: str) -> list[str]:
    return text.split(",")


def arguments() -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description=__doc__)
    parser.add_argument("--only", type=_list, default=[], help="scenarios, with commas between; default: all")
    parser.add_argument(
        "--peers", type=_list, default=[], help="queues, with commas between; fairlane's are always there"
    )
    parser.add_argument("--runs", type=int, help="how often each is measured; default: 3, and as the scenario says")
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no measurement after so long")
    parser.add_argument("--quick", action="store_true", help="small counts: to see that everything runs")
    parser.add_argument("--json", type=Path, help="where the results go")
    parser.add_argument("--markdown", type=Path, help="where the tables go; default: to the screen")
    parser.add_argument("--join", type=Path, action="append", default=[], help="results of earlier runs, taken in too")
    return parser.parse_args()


class Run:
    """One run over all queues.

    Args:
        options: What the command line says.
        folder: Where data is.
    """

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        from bench.compare.scenarios import SCENARIOS

        self.options = options
        self.folder = folder
        self.until = time.monotonic() + options.minutes * 60
        self.scenarios = [_known(SCENARIOS, name) for name in options.only] or list(SCENARIOS.values())
        self.skipped: list[dict[str, str]] = []
        self.queues: list[type[Adapter]] = []
        self.measurements: list[dict[str, Any]] = []  # Any: JSON

    def find(self) -> None:
        """Find out which queues can be measured."""
        from bench.compare.adapters import ADAPTERS, adapter

        for name in self.options.peers:
            _known(ADAPTERS, name)
        for name in ADAPTERS:
            if self.options.peers and name not in self.options.peers and not name.startswith("fairlane"):
                continue
            try:
                kind = adapter(name)
                missing = kind.missing(ROOT)
            except Exception as error:  # noqa: BLE001  whatever a peer raises, the others can be measured
                self._skip(name, "all", f"{type(error).__name__}: {error}")
                continue
            if missing:
                self._skip(name, "all", missing)
            else:
                self.queues.append(kind)

    def _skip(self, queue: str, scenario: str, why: str) -> None:
        tell(f"LEFT OUT: {queue}, {scenario}: {why}")
        self.skipped.append({"queue": queue, "scenario": scenario, "why": why})

    def without_server(self, servers: Servers) -> None:
        """Leave out the queues whose server is not there."""
        for kind in list(self.queues):
            if why := servers.missing.get(kind.store):
                self._skip(kind.name, "all", why)
                self.queues.remove(kind)

    def plan(self) -> Iterable[tuple[int, Scenario, type[Adapter]]]:
        """Return what is measured, in this order: all queues of a scenario side by side, then the next, then again."""
        asked: dict[str, list[type[Adapter]]] = {}
        for scenario in self.scenarios:
            asked[scenario.name] = []
            for kind in self.queues:
                if kind.only and scenario.name not in kind.only:
                    continue
                if why := scenario.excludes(kind):
                    self._skip(kind.name, scenario.name, why)
                else:
                    asked[scenario.name].append(kind)
        runs = {scenario.name: self.options.runs or scenario.runs for scenario in self.scenarios}
        for number in range(max(runs.values())):
            for scenario in self.scenarios:
                if number < runs[scenario.name]:
                    queues = asked[scenario.name]
                    yield from ((number, scenario, kind) for kind in (queues if number % 2 == 0 else queues[::-1]))

    def all(self, servers: Servers) -> None:
        """Measure everything."""
        for number, scenario, kind in self.plan():
            if time.monotonic() > self.until:
                tell("the time is over")
                return
            one: dict[str, Any] = {
                "queue": kind.name,
                "scenario": scenario.name,
                "round": number,
                "load": round(os.getloadavg()[0], 2),
            }
            began = time.monotonic()
            one |= self._measure(scenario, kind, servers)
            one["took_s"] = round(time.monotonic() - began, 1)
            self.measurements.append(one)
            told = one.get("trouble") or ", ".join(f"{name} {value:g}" for name, value in one["figures"].items())
            tell(f"{number + 1} {scenario.name:11} {kind.name:24} {told}  [{one['took_s']} s]")

    def _measure(self, scenario: Scenario, kind: type[Adapter], servers: Servers) -> dict[str, Any]:
        from bench.compare.system import System, Trouble

        place = self.folder / "one"
        system = None
        try:
            system = System(kind, scenario.name, servers, place, quick=self.options.quick)
            figures = scenario.run(system)
            return {"figures": {name: round(value, 4) for name, value in figures.items()}}
        except Trouble as error:
            return {"trouble": str(error)}
        except Exception as error:  # noqa: BLE001  a queue that fails is a result
            return {"trouble": f"{type(error).__name__}: {error}"[:300]}
        finally:
            if system is not None:
                system.close()
            shutil.rmtree(place, ignore_errors=True)

    def results(self, servers: Servers) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        from bench.compare.servers import POSTGRES_SETTINGS, REDIS_SETTINGS

        from fairlane.bench import machine

        return {
            "at": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),  # noqa: TID251  a date for people
            "command": " ".join(["python -m bench.compare", *sys.argv[1:]]),
            "machine": {
                **machine(self.folder),
                "python": sys.version.split()[0],
                "postgres": servers.postgres.version if servers.postgres else "none",
                "redis": servers.redis.version if servers.redis else "none",
            },
            "servers": {"postgres": POSTGRES_SETTINGS, "redis": REDIS_SETTINGS},
            "queues": {
                kind.name: {
                    "store": kind.store,
                    "durability": kind.durability,
                    "settings": kind.settings,
                    "tuned_crash": kind.tuned_crash,
                    "versions": kind.versions(ROOT),
                }
                for kind in self.queues
            },
            "measurements": self.measurements,
            "skipped": self.skipped,
        }


def _known(names: dict[str, Any], name: str) -> Any:  # Any: whatever the names stand for
    if name not in names:
        raise SystemExit(f"there is no {name!r}; there are {', '.join(names)}")
    return names[name]


def joined(results: dict[str, Any], earlier: dict[str, Any]) -> dict[str, Any]:
    """Return results with those of an earlier run before them; what is only said once is the later one's."""
    left_out = [*earlier["skipped"], *results["skipped"]]
    return {
        **results,
        "command": f"{earlier['command']}; {results['command']}",
        "queues": {**earlier["queues"], **results["queues"]},
        "measurements": [*earlier["measurements"], *results["measurements"]],
        "skipped": [one for number, one in enumerate(left_out) if one not in left_out[:number]],
    }


def write(options: argparse.Namespace, results: dict[str, Any]) -> None:
    """Write what was asked for."""
    from bench.compare.report import markdown
    from bench.compare.scenarios import SCENARIOS
    from bench.compare.targets import judged

    for path in options.join:
        results = joined(results, json.loads(path.read_text()))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    text = markdown(results, SCENARIOS.values()) + "\n### aims\n\n" + "\n".join(judged(results)) + "\n"
    if options.markdown:
        options.markdown.parent.mkdir(parents=True, exist_ok=True)
        options.markdown.write_text(text)
    else:
        sys.stdout.write(text)


def main() -> None:
    """Run the command."""
    options = arguments()
    enter()
    from bench.compare.servers import servers

    # Beside the environment, not in the system's folder for temporary files: that may be in memory.
    folder = Path(tempfile.mkdtemp(prefix="data-", dir=ROOT))
    folder.chmod(0o755)  # PostgreSQL may run as another user
    run = Run(options, folder)
    try:
        run.find()
        with servers(folder, {str(kind.store) for kind in run.queues}) as started:
            run.without_server(started)
            try:
                run.all(started)
            except KeyboardInterrupt:
                tell("stopped; what there is, is written")
            write(options, run.results(started))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
