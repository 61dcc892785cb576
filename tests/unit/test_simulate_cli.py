"""`fairlane simulate` and `fairlane sample-trace` as a user meets them: output, files, exit codes."""

import json
import re
from html.parser import HTMLParser

import pytest
from click.testing import CliRunner

from fairlane.cli.simulate import sample_trace_command, simulate_command
from fairlane.simulate.traces import Trace, TraceJob, read, sample, write


@pytest.fixture
def trace_path(tmp_path):
    path = tmp_path / "week.csv.gz"
    write(sample(jobs=600, tenants=9, slots=8, utilisation=1.0), path)
    return path


def run(command, *args):
    return CliRunner().invoke(command, [str(arg) for arg in args])


def test_tables_side_by_side(trace_path):
    result = run(simulate_command, trace_path)
    assert result.exit_code == 0, result.output
    for text in ("CRITICAL", "BACKGROUND", "fair", "strict", "fifo", "Mean wait of the others", "Jain index"):
        assert text in result.output
    assert "Workers: 8, chosen to come near utilisation 0.95" in re.sub(r"\s+", " ", result.output)
    assert "chosen" not in run(simulate_command, trace_path, "--workers", 3, "--policy", "fair").output


def test_json_is_all_there_is(trace_path):
    result = run(simulate_command, trace_path, "--json", "--policy", "fifo", "--policy", "fair", "--workers", 7)
    found = json.loads(result.stdout)
    assert list(found["policies"]) == ["fifo", "fair"], "in the order asked for"
    assert (found["trace"], found["jobs"], found["workers"]) == ("week", 600, 7)
    assert found["policies"]["fair"]["tiers"]["critical"]["p99"] >= 0


def test_options_reach_the_scheduler(trace_path):
    base = ("--json", "--policy", "fair", "--workers", 6)

    def figures(*options):
        return json.loads(run(simulate_command, trace_path, *base, *options).stdout)["policies"]["fair"]

    plain = figures()
    for options in (
        ("--weight", "acme=9"),
        ("--cap", "acme=1"),
        ("--queue-cap", "mail=1"),
        ("--charge", "count"),
        ("--ageing-step", 1),
        ("--risen-every", 2, "--ageing-step", 5),
        ("--urgent-share", 1),
        ("--pause", "acme"),
        ("--without", "tenant-001"),
        ("--tau", 1),
    ):
        assert figures(*options) != plain, options
    assert figures("--cap", "acme=1")["others_mean_wait"] < plain["others_mean_wait"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--weight", "acme"), "'acme' is not tenant=weight"),
        (("--weight", "acme=0"), "at least 0.001"),
        (("--weight", "acme=nan"), "is not tenant=weight"),
        (("--cap", "acme=1.5"), "with a whole number"),
        (("--cap", "nobody=2"), "no tenant 'nobody' in trace 'week'"),
        (("--queue-cap", "none=2"), "no queue 'none'"),
        (("--without", "nobody"), "no tenant 'nobody'"),
        (("--policy", "lifo"), "'lifo' is not one of"),
        (("--workers", 0), "0 is not in the range"),
    ],
)
def test_usage_errors(trace_path, options, message):
    result = run(simulate_command, trace_path, *options)
    assert result.exit_code == 2
    assert message in result.output


def test_a_bad_trace_is_a_failure_and_a_missing_one_a_usage_error(tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text("submit_s,tenant,queue,tier,run_s\n1,a,q,7,1\n")
    result = run(simulate_command, path)
    assert result.exit_code == 1
    assert f"Error: {path}, line 2: column tier is '7'" in result.output
    assert run(simulate_command, tmp_path / "none.csv").exit_code == 2


def test_names_may_hold_an_equals_sign(tmp_path):
    path = tmp_path / "t.csv"
    write(Trace.of("t", [TraceJob(k, "a=b", "q", 2, 1_000_000) for k in range(5)]), path)
    assert run(simulate_command, path, "--workers", 2, "--cap", "a=b=1", "--policy", "fair").exit_code == 0


# ---------------------------------------------------------------------- the report


class Page(HTMLParser):
    """Notes tags and attributes, and that what opens also closes."""

    VOID = frozenset({"meta", "br", "path", "circle"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href", "xlink:href", "action", "data")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_the_report_stands_alone(trace_path, tmp_path):
    out = tmp_path / "out.html"
    result = run(simulate_command, trace_path, "--html", out)
    assert result.exit_code == 0, result.output
    text = out.read_text(encoding="utf-8")
    page = Page(text)
    assert page.links == []
    assert "script" not in page.tags
    assert "url(" not in text
    assert "http://" not in text
    assert "https://" not in text
    assert page.tags.count("svg") > 15
    assert "prefers-color-scheme: dark" in text
    assert "$" not in text, "every field of the template is filled"
    assert not re.search(r"\b(nan|inf|None)\b", re.sub(r"<style>.*</style>", "", text, flags=re.S))


@pytest.mark.parametrize("options", [(), ("--policy", "fair"), ("--pause", "<b>&'x"), ("--workers", 1)])
def test_names_are_escaped_and_odd_traces_are_drawn(tmp_path, options):
    path, out = tmp_path / "<i>.csv", tmp_path / "out.html"
    jobs = [TraceJob(k * 1000, "<b>&'x", "<script>alert(1)</script>", k % 5, 3_000_000) for k in range(20)]
    write(Trace.of("t", [*jobs, TraceJob(500, "$title", "q", 0, 1)]), path)
    result = run(simulate_command, path, "--html", out, *options)
    assert result.exit_code == 0, result.output
    page = Page(out.read_text(encoding="utf-8"))
    assert "script" not in page.tags
    assert "i" not in page.tags


def test_one_job_is_drawn(tmp_path):
    path, out = tmp_path / "t.csv", tmp_path / "out.html"
    write(Trace.of("t", [TraceJob(0, "a", "q", 2, 0)]), path)
    assert run(simulate_command, path).exit_code == 2, "no utilisation: the workers must be said"
    assert run(simulate_command, path, "--workers", 1, "--html", out).exit_code == 0
    Page(out.read_text(encoding="utf-8"))


def test_a_report_that_cannot_be_written(trace_path, tmp_path):
    result = run(simulate_command, trace_path, "--policy", "fifo", "--html", tmp_path / "none" / "out.html")
    assert result.exit_code == 1
    assert "cannot write" in result.output


# ---------------------------------------------------------------------- sample-trace


def test_sample_trace_writes_what_simulate_reads(tmp_path):
    out = tmp_path / "s.csv.gz"
    options = ("--jobs", 500, "--tenants", 6, "--seconds", 60, "--slots", 4, "--utilisation", 0.8, "--seed", 9)
    result = run(sample_trace_command, out, *options)
    assert result.exit_code == 0, result.output
    assert "500 jobs of 6 tenants in 60 s, utilisation 0.80 on 4 slots" in result.output
    assert read(out).jobs == sample(jobs=500, tenants=6, seconds=60, slots=4, utilisation=0.8, seed=9).jobs
    assert run(simulate_command, out, "--policy", "fair").exit_code == 0


def test_sample_trace_as_json(tmp_path):
    out = tmp_path / "s.csv"
    result = run(sample_trace_command, out, "--jobs", 100, "--tenants", 6, "--seconds", 60, "--slots", 4, "--json")
    told = json.loads(result.output)
    assert told.pop("utilisation") == pytest.approx(0.9, abs=0.01)
    assert told == {"file": str(out), "jobs": 100, "tenants": 6, "seconds": 60.0, "slots": 4}


def test_sample_trace_says_what_cannot_be(tmp_path):
    result = run(sample_trace_command, tmp_path / "s.csv", "--jobs", 2)
    assert result.exit_code == 2
    assert "2 jobs are too few for 50 tenants" in result.output
    assert run(sample_trace_command, tmp_path / "none" / "s.csv").exit_code == 1
