"""The program itself: help, exit codes, errors, where ``--url`` and ``--json`` may stand, what loading it costs."""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parent))  # "importlib" mode finds no neighbours by itself

from cli_rig import Cli

import fairlane
from fairlane.cli import output
from fairlane.cli.main import COMMANDS, cli
from fairlane.cli.output import plain_table, print_json, print_table, safe, span
from fairlane.cli.shapes import TIMES

ROOT = Path(__file__).parents[2]
NIL = "0198f0de-0000-7000-8000-000000000001"


@pytest.fixture
def fl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.delenv("FAIRLANE_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    return Cli(tmp_path)


def walk(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None, name
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from walk(command, (*path, name))


ALL = {" ".join(path): command for path, command in walk(cli)}


# ---------------------------------------------------------------- help


@pytest.mark.parametrize("path", ALL)
def test_every_command_has_help(path):
    result = CliRunner().invoke(cli, [*path.split(), "--help"])
    assert result.exit_code == 0, result.output
    assert f"Usage: fairlane {path}" in result.stdout
    for param in ALL[path].params:
        assert isinstance(param, click.Argument) or param.hidden or param.help, param


@pytest.mark.parametrize(
    "path", [path for path in ALL if path.split()[0] not in {"demo", "replay", "simulate", "sample-trace"}]
)
def test_help_shows_how_it_is_typed(path):
    shown = CliRunner().invoke(cli, [*path.split(), "--help"]).stdout
    assert f"Example:\n    fairlane {path.split()[0]}" in shown


@pytest.mark.parametrize("path", [path for path in ALL if not isinstance(ALL[path], click.Group)])
def test_examples_are_command_lines_that_parse(path):
    """Each example is taken apart as if it were typed, up to the values of arguments and options."""
    import shlex

    for line in (ALL[path].epilog or "").split("Example:\n", 1)[-1].splitlines():
        words = list(shlex.split(line.split("&&")[0].split(">")[0]))[1:]
        if words:
            assert " ".join(words).startswith(path)
            if path != "bench":  # names a folder that need not be here
                ALL[path].make_context(path, words[len(path.split()) :])


def test_names_in_the_list_are_those_of_the_commands():
    listed = CliRunner().invoke(cli, ["--help"]).stdout
    for name, entry in COMMANDS.items():
        assert name in listed
        assert ALL[name].name == name, entry


def test_help_loads_little():
    """`fairlane --help` answers in 150 ms: what is slow to load may not be loaded for it."""
    code = (
        "import sys\nfrom fairlane.cli.main import cli\n"
        "try:\n    cli.main(['--help'])\nexcept SystemExit: pass\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert "Commands:" in done.stdout
    assert not loaded & {"rich", "asyncio", "msgspec", "sqlite3", "logging", "json", "concurrent.futures"}
    ours = {name for name in loaded if name.startswith("fairlane")}
    assert ours == {"fairlane", "fairlane.cli", "fairlane.cli.main", "fairlane.cli.groups", "fairlane.errors"}
    assert len(loaded) < 160, sorted(loaded)


def test_the_page_is_that_of_the_help_texts():
    spec = importlib.util.spec_from_file_location("gen_cli", ROOT / "docs" / "gen_cli.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    assert page == module.render(), "run `python docs/gen_cli.py`"
    for path in ALL:
        assert f" `fairlane {path}`\n" in page


# ---------------------------------------------------------------- exit codes and errors


def test_without_a_command_it_shows_help(fl):
    result = fl(code=2, url=False)
    assert "Commands:" in result.stderr


@pytest.mark.parametrize(
    "line", [("frob",), ("jobs", "frob"), ("stats", "--frob"), ("enqueue",), ("jobs", "show"), ("stats", "--by", "age")]
)
def test_a_wrong_line_is_usage(fl, line):
    result = fl(*line, code=2, url=False)
    assert "Usage: fairlane" in result.stderr
    told = fl.json(*line, code=2, url=False)
    assert told["error"]["type"] == "UsageError"
    assert told["error"]["message"]


NEED_A_STORE = (
    ("jobs", "list"), ("jobs", "show", NIL), ("jobs", "cancel", NIL), ("jobs", "retry", NIL),
    ("jobs", "expedite", NIL), ("jobs", "boost", NIL, "--to", "high"), ("jobs", "wait", NIL), ("dead", "groups"),
    ("dead", "show", "X"), ("dead", "replay", "X"), ("dead", "discard", "X"), ("tenants", "list"),
    ("tenants", "set", "a", "--weight", "2"), ("queues", "pause", "q"), ("tasks", "resume", "t"), ("limits", "list"),
    ("stats",), ("configure", "--policy", "strict"), ("migrate",), ("migrate", "--check"),
)  # fmt: skip


@pytest.mark.parametrize("line", NEED_A_STORE, ids=" ".join)
def test_no_store_is_said_and_none_is_made(fl, line):
    result = fl(*line, code=1)
    assert result.stderr.startswith("fairlane: there is no store at sqlite:///")
    assert result.stderr.count("\n") == 1, "one line"
    assert "argument" in result.stderr, "where the URL came from"
    assert fl.json(*line, code=1)["error"]["type"] == "StoreError"
    assert sorted(path.name for path in fl.folder.iterdir()) == ["tasksapp.py"]


@pytest.mark.parametrize("command", ["health", "doctor"])
def test_no_store_is_unhealthy(fl, command):
    assert "there is no store at" in fl(command, code=3).stdout
    assert not fl.file.exists()


def test_an_empty_file_is_no_store(fl):
    fl.file.touch()
    assert "the file is empty" in fl("stats", code=1).stderr
    assert fl.file.stat().st_size == 0


def test_another_programs_database_is_left_alone(fl):
    import sqlite3

    db = sqlite3.connect(fl.file)
    db.execute("CREATE TABLE mine (x)")
    db.commit()
    db.close()
    for line in (("stats",), ("enqueue", "x")):
        assert "is a database of another program" in fl(*line, code=1).stderr
    assert fl.rows("SELECT name FROM sqlite_schema") == [("mine",)]


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("sqlite://", "in the memory of one program"),
        ("mysql://x", "is no store"),
        ("postgresql://me:secret@h/db?x=1", "libpq has no option 'x'"),
        ("sqlite:///no/such/folder/x.db", "the file does not exist"),
    ],
)
def test_a_wrong_url_is_said(fl, url, words):
    result = fl("stats", "--url", url, code=1, url=False)
    assert words in result.stderr
    assert "secret" not in result.output


def test_a_private_store_takes_no_jobs(fl):
    """They would be gone with the process that stored them."""
    assert "in the memory of one program" in fl("enqueue", "x", "--url", "sqlite://", code=1, url=False).stderr


def test_url_and_json_stand_anywhere(fl):
    fl("enqueue", "x")
    wrong = "sqlite:///nowhere.db"
    for line in (
        ("--url", fl.url, "--json", "stats"),
        (f"--url={fl.url}", "stats", "--json"),
        ("--json", "stats", f"--url={fl.url}"),
        ("--url", wrong, "stats", "--url", fl.url, "--json"),
    ):
        assert json.loads(fl(*line, url=False).stdout)["counts"]["available"] == 1
    for line in (
        ("--json", "--url", fl.url, "jobs", "list"),
        ("jobs", "--json", "--url", fl.url, "list"),
        ("--json", "jobs", "--url", fl.url, "list"),
        ("jobs", "list", "--json", "--url", fl.url),
    ):
        assert len(json.loads(fl(*line, url=False).stdout)["jobs"]) == 1
    assert json.loads(fl("--url", fl.url, "--json", "version", url=False).stdout)["fairlane"] == fairlane.__version__


def test_url_from_the_environment_and_from_the_file(fl, monkeypatch):
    fl("enqueue", "x")
    (fl.folder / "fairlane.toml").write_text(f'url = "{fl.url}"\n')
    assert len(json.loads(fl("jobs", "list", "--json", url=False).stdout)["jobs"]) == 1
    monkeypatch.setenv("FAIRLANE_URL", "sqlite:///other.db")
    assert "(here it comes from: FAIRLANE_URL)" in fl("jobs", "list", code=1, url=False).stderr


def test_a_wrong_setting_is_one_line(fl, monkeypatch):
    monkeypatch.setenv("FAIRLANE_LEASE", "soon")
    for line in (("stats",), ("doctor",), ("worker", "tasksapp")):
        stderr = fl(*line, code=1).stderr
        assert stderr == "fairlane: FAIRLANE_LEASE: lease must be a number, not 'soon'\n"


def test_python_m_and_the_console_script(fl):
    out, _ = fl.process("version")
    assert f"fairlane  {fairlane.__version__}" in out
    out, err = fl.process("jobs", "show", "nonsense", code=1)
    assert "Traceback" not in out + err
    assert fl.process("--version")[0] == f"fairlane {fairlane.__version__}\n"
    script = Path(sys.executable).with_name("fairlane")
    if script.exists():
        done = subprocess.run([script, "version", "--json"], capture_output=True, text=True, check=True, cwd=fl.folder)
        assert set(json.loads(done.stdout)) == {"fairlane", "python", "sqlite", "system"}


def test_a_closed_pipe_is_no_traceback(fl):
    with fl.app() as app:
        app.enqueue_many(app.new("x") for _ in range(900))
    process = fl.start("jobs", "list", "--limit", "900")
    process.stdout.readline()
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    process.wait()
    assert "Traceback" not in err


# ---------------------------------------------------------------- what is shown


def test_stored_text_cannot_drive_the_terminal(fl):
    evil = "[bold]\x1b[2J\u202eevil\n\x9b31m"
    with fl.app() as app:
        job = app.enqueue("x", {"a": evil}, tenant=evil, tags=[evil])
        app.tenants[evil].pause(evil)
        app.cancel(job.id, reason=evil)
    for line in (("jobs", "list"), ("jobs", "show", job.id), ("stats",), ("tenants", "list")):
        for shown in (fl(*line).stdout, fl(*line, "--json").stdout):
            assert not set(shown) & set("\x1b\x9b\u202e"), line
    assert "[bold]\\x1b[2J\\u202eevil\\n\\x9b31m" in fl("jobs", "list").stdout
    assert fl.json("jobs", "show", job.id)["args"] == {"a": evil}, "JSON says what it was"


def test_stored_text_is_no_markup_on_a_terminal():
    from rich.console import Console

    from fairlane.cli.output import rich_table

    console = Console(force_terminal=True, width=100, record=True)
    with console.capture() as caught:
        console.print(rich_table(("id", ">jobs"), [("[red]x[/red] :smile:", 5)], title="[b]t"))
    assert "[red]x[/red] :smile:" in caught.get()
    assert "[b]t" in caught.get()


@pytest.mark.parametrize("width", [40, 50, 80, 100, 120])
def test_ids_stay_whole_on_a_narrow_terminal(capsys, monkeypatch, width):
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    columns = ("id", "task", "queue", "state", ">age", "reason")
    job_id, why = "01a2319e-a32c-7660-b490-a63246995ce5", "the printer is on fire " * 4
    print_table(columns, [(job_id, "render", "reports", "available", "30 min 3 s", why)])
    told = capsys.readouterr().out
    for word in (*(column.removeprefix(">") for column in columns), job_id, "reports", "available", "30 min 3 s"):
        assert word in told
    longest = max(len(line.rstrip()) for line in told.splitlines())
    assert (longest <= width) == (width > 80), "where it cannot fit the terminal breaks the lines"


def test_small_helpers(capsys):
    assert safe("a\tb\x7f") == "a\\tb\\x7f"
    assert [span(s) for s in (9.96, 59.5, 60, 3600, 90_000)] == ["10.0 s", "60 s", "1 min 0 s", "1 h 0 min", "1 d 1 h"]
    table = plain_table(("名", ">n"), [("ab", 1), ("日本", 1000)])
    assert table == "名        n\nab        1\n日本  1,000"
    print_json({"a": "\ud800\u2028é"})
    assert capsys.readouterr().out == '{\n  "a": "\\ud800\\u2028é"\n}\n'
    assert len(TIMES) == 7
