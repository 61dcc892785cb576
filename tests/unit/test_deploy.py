"""The files in deploy/ and the commands in their guides: they name metrics, commands and ports that there are."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from fairlane.cli.main import cli
from fairlane.metrics import BY_NAME, METRICS
from fairlane.worker.shutdown import GIVE_BACK_S, LAST_S, TIDY_S

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
BOARD = DEPLOY / "grafana" / "fairlane.json"
RULES = DEPLOY / "prometheus" / "rules.yml"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
GUIDES = [ROOT / "docs" / "guides" / f"{name}.md" for name in ("kubernetes", "metrics-and-tracing")]
ALERTS = {
    "FairlaneServerGone", "FairlaneNoWorker", "FairlaneTierPastObjective", "FairlaneWaitsMissObjective",
    "FairlaneOldestJob", "FairlaneNothingStarts", "FairlaneExpressFull", "FairlaneDeadJobsGrow",
}  # fmt: skip
LABELS = {label for metric in METRICS for label in metric.labels} | {"le"}


def expressions() -> Iterator[tuple[str, str]]:
    """Give every PromQL expression with where it is."""
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]
    board = json.loads(BOARD.read_text())
    for panel in board["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]["query"]


def metrics_in(text: str) -> set[str]:
    """Return the names of metrics in a text; the three series of a histogram are of its name."""
    found = set(re.findall(r"\bfairlane_[a-z_]+\b", text))
    histograms = {metric.name for metric in METRICS if metric.type == "histogram"}
    ends = {f"{name}_{end}": name for name in histograms for end in ("bucket", "sum", "count")}
    return {ends.get(name, name) for name in found}


# ---------------------------------------------------------------- metrics


def test_every_metric_that_is_asked_for_exists() -> None:
    asked = {name for _, expression in expressions() for name in metrics_in(expression)}
    assert asked <= set(BY_NAME)
    assert len(asked) > 12


@pytest.mark.parametrize(("where", "expression"), tuple(expressions()), ids=lambda value: value[:30])
def test_labels_in_an_expression_are_labels_of_its_metrics(where: str, expression: str) -> None:
    named = {label for metric in metrics_in(expression) for label in BY_NAME[metric].labels} | {"le"}
    grouped = {label for found in re.findall(r"\b(?:by|on) \(([^)]*)\)", expression) for label in found.split(", ")}
    matched = set(re.findall(r'[{,]\s*([a-z_]+)\s*(?:=~|!=|=|!~)\s*"', expression))
    assert grouped | matched <= named, where
    assert expression.count("(") == expression.count(")")


def test_gauges_of_the_whole_store_are_never_summed_over_servers() -> None:
    """Each of two servers tells all jobs: their sum would be twice as many."""
    own = {"fairlane_http_requests_total", "fairlane_operations_total", "fairlane_express_rejected_total"}
    for where, expression in expressions():
        for metric in metrics_in(expression) - own - {"fairlane_build_info"}:
            before = re.split(rf"{metric}(?:_bucket)?\b", expression)[0]
            assert re.search(r"\bmax(?: by \([^)]*\) )?\((?:rate\(|increase\(|delta\()?$", before) or (
                "label_values" in expression
            ), (where, metric)


def test_the_alerts_that_are_promised_are_there_and_tell_what_to_do() -> None:
    rules = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    assert {rule["alert"] for rule in rules} == ALERTS
    for rule in rules:
        assert re.fullmatch(r"\d+m", rule["for"])
        assert rule["labels"]["severity"] in {"critical", "warning"}
        assert set(rule["annotations"]) == {"summary", "description"}
        used = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
        assert used <= LABELS
        assert all(re.search(rf"by \([^)]*\b{label}\b", rule["expr"]) for label in used), rule["alert"]


def test_the_dashboard_is_whole() -> None:
    board = json.loads(BOARD.read_text())
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert {panel["datasource"]["uid"] for panel in panels} == {"${datasource}"}
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells


def test_every_metric_is_in_the_guide() -> None:
    text = GUIDES[1].read_text()
    table = {name for line in text.splitlines() if line.startswith("| `fairlane_") for name in metrics_in(line)}
    assert table == set(BY_NAME)


# ---------------------------------------------------------------- commands and manifests


def parsed(line: list[str]) -> click.Context:
    """Parse a command line as `fairlane` would, and run nothing."""
    assert line[0] == "fairlane"
    group: click.Command = cli
    ctx: click.Context | None = None
    rest = line[1:]
    while isinstance(group, click.Group):
        ctx = group.make_context(rest[0], [], parent=ctx, resilient_parsing=True)
        _, command, rest = group.resolve_command(ctx, rest)
        assert command is not None, line
        group = command
    return group.make_context(" ".join(line[:2]), list(rest), parent=ctx)


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    """Give the pod of every Deployment with where it is."""
    for path in MANIFESTS:
        for document in yaml.safe_load_all(path.read_text()):
            if document["kind"] == "Deployment":
                yield f"{path.name}:{document['metadata']['name']}", document


PODS = dict(pods())
CONTAINERS = {
    f"{where}:{container['name']}": (container, document["spec"]["template"]["spec"])
    for where, document in PODS.items()
    for container in document["spec"]["template"]["spec"]["containers"]
}


def test_there_are_manifests() -> None:
    assert [path.name for path in MANIFESTS] == ["one-pod.yaml", "several-pods.yaml"]
    assert len(CONTAINERS) == 4


@pytest.mark.parametrize("where", CONTAINERS)
def test_containers_run_commands_that_there_are_and_probe_their_ports(where: str) -> None:
    container, pod = CONTAINERS[where]
    options = parsed(container["command"]).params
    port = options.get("probe_port") or options.get("port")
    (exposed,) = container["ports"]
    assert exposed["containerPort"] == port
    for probe, path in (("startupProbe", "/readyz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
        assert container[probe]["httpGet"] == {"path": path, "port": exposed["name"]}
    if "grace" in options:
        assert pod["terminationGracePeriodSeconds"] > options["grace"] + LAST_S + GIVE_BACK_S + TIDY_S
    else:
        assert options["host"] == "0.0.0.0"
    assert container["securityContext"]["readOnlyRootFilesystem"]


@pytest.mark.parametrize("where", PODS)
def test_selectors_meet_labels(where: str) -> None:
    document = PODS[where]
    assert document["spec"]["selector"]["matchLabels"] == document["spec"]["template"]["metadata"]["labels"]


def test_a_sqlite_store_has_one_pod() -> None:
    """Two machines must never open the file."""
    for where, document in PODS.items():
        pod = document["spec"]["template"]["spec"]
        env = {one["name"]: one["value"] for container in pod["containers"] for one in container.get("env", ())}
        if "sqlite" in env.get("FAIRLANE_URL", ""):
            assert (document["spec"]["replicas"], document["spec"]["strategy"]) == (1, {"type": "Recreate"}), where
        else:
            assert "volumes" not in pod


def commands_of(path: Path) -> Iterator[str]:
    """Give the lines of a guide's shell blocks that are our commands, also behind another program's."""
    for block in re.findall(r"```(?:sh|bash|console)\n(.*?)```", path.read_text(), re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            found = re.search(r"(?:^|-- |^\$ |opentelemetry-instrument )(fairlane .*)$", line)
            if found:
                yield found[1].partition(" #")[0]


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_commands_in_the_guides_are_right(guide: Path) -> None:
    lines = list(commands_of(guide))
    assert lines
    for line in lines:
        parsed(shlex.split(line))


def test_commands_in_comments_of_manifests_are_right() -> None:
    lines = [
        found for path in MANIFESTS for found in re.findall(r"^# .*-- (fairlane .*)$", path.read_text(), re.MULTILINE)
    ]
    assert lines
    for line in lines:
        parsed(shlex.split(line))
