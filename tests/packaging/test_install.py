"""The wheel in an empty environment: it needs no extra to work, says which one is missing, and is small."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # "importlib" mode finds no neighbours by itself

from packing import ROOT, Built

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

MOST_BYTES = 20_000_000
"""What pip unpacks, with all that the core needs; it was 11 MB when this was written."""
MOST_BYTES_COMPILED = 25_000_000
"""The same with the bytecode that pip makes of it, 22 MB then: two fifths are Pygments, which rich needs."""
ELSEWHERE = {"django", "structlog"}
"""Programs that fairlane works inside of: nobody who has them needs an extra."""
OF_EXTRAS = {
    "anyio", "apprise", "fastapi", "hypothesis", "jinja2", "markupsafe", "opentelemetry", "prometheus_client",
    "psycopg", "psycopg_pool", "pydantic", "pytest", "starlette", "uvicorn",
}  # fmt: skip


class Installed:
    """An environment that holds what ``pip install fairlane`` brings, and not even pip."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.folder = folder
        venv.create(folder, with_pip=False)
        self.bin = folder / "bin"
        (self.packages,) = folder.glob("lib/python3*/site-packages")
        assert not list(self.packages.iterdir())
        pip = [
            sys.executable,
            "-m",
            "pip",
            "--disable-pip-version-check",
            "--no-input",
            "--python",
            f"{folder}/bin/python",
        ]
        done = subprocess.run([*pip, "install", str(wheel)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def run(self, program: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment, with nothing of ours around it."""
        ours = ("FAIRLANE_", "PYTHON", "PYTEST", "COVERAGE")
        env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        command = [str(self.bin / program), *arguments]
        return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="session")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.mktemp("installed") / "env", built.wheel)


def test_only_the_core_is_there(installed: Installed) -> None:
    names = {re.split(r"-\d", path.name)[0] for path in installed.packages.glob("*.dist-info")}
    direct = {"fairlane", "click", "cronsim", "msgspec", "rich", "uuid_utils"}
    assert names >= direct
    assert names - direct <= {"markdown_it_py", "mdurl", "pygments", "Pygments"}  # what rich needs


def test_it_is_small(installed: Installed) -> None:
    sizes = {path: path.stat().st_size for path in installed.packages.rglob("*") if path.is_file()}
    unpacked = sum(size for path, size in sizes.items() if path.suffix != ".pyc")
    assert 3_000_000 < unpacked <= MOST_BYTES
    assert sum(sizes.values()) <= MOST_BYTES_COMPILED


def test_every_public_name_is_there_without_extras(installed: Installed, tmp_path: Path) -> None:
    program = "import fairlane\nfor name in fairlane.__all__: getattr(fairlane, name)\nprint(fairlane.__version__)"
    done = installed.run("python", "-W", "error", "-c", program, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*\n", done.stdout)


def test_every_module_can_be_imported_or_needs_an_extra(installed: Installed, tmp_path: Path) -> None:
    program = """
import importlib, pkgutil, fairlane
for one in pkgutil.walk_packages(fairlane.__path__, "fairlane.", onerror=lambda name: None):
    if one.name == "fairlane.__main__":
        continue  # runs the command line
    try:
        importlib.import_module(one.name)
    except ImportError as error:
        print(one.name, error.name)
    except fairlane.ConfigError as error:
        print(one.name, next(word for word in str(error).lower().split() if word in {"django"}))
print("all")
"""
    done = installed.run("python", "-c", program, cwd=tmp_path)
    *told, last = done.stdout.splitlines()
    assert (done.returncode, last) == (0, "all"), done.stderr
    failed = dict(line.split(" ", 1) for line in told)
    assert failed.keys() >= {"fairlane.http.app", "fairlane.dashboard.routes"}, done.stderr
    of_extras = {
        name: missing for name, missing in failed.items() if missing.partition(".")[0] in OF_EXTRAS | ELSEWHERE
    }
    assert failed == of_extras


def test_the_command_line_answers(installed: Installed, tmp_path: Path) -> None:
    done = installed.run("fairlane", "--help", cwd=tmp_path)
    assert done.returncode == 0
    assert "worker" in done.stdout
    assert installed.run("python", "-m", "fairlane", "version", cwd=tmp_path).returncode == 0


def test_the_ten_lines_of_the_readme_run(installed: Installed, tmp_path: Path) -> None:
    block = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert block is not None
    (tmp_path / "program.py").write_text(block[1], "utf-8")
    done = installed.run("python", "program.py", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "sent hi to a@b.c\n", "")
    burst = installed.run("fairlane", "worker", "program:app", "--burst", cwd=tmp_path)
    assert burst.returncode == 0, burst.stderr


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        (["server"], "server"),
        (["dev", "program:app"], "server"),
        (["export-openapi"], "server"),
        (["--url", "postgresql://nobody@localhost/nothing", "stats"], "postgres"),
    ],
)
def test_a_missing_extra_is_named(installed: Installed, tmp_path: Path, command: list[str], extra: str) -> None:
    done = installed.run("fairlane", *command, cwd=tmp_path)
    assert done.returncode in {1, 2}
    assert "pip install" in done.stderr
    assert f"fairlane[{extra}]" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("lines", "extra"),
    [
        ("fl.Fairlane('postgresql://nobody@localhost/nothing')", "postgres"),
        ("fl.Fairlane('sqlite://').instrument()", "otel"),
    ],
)
def test_a_program_is_told_which_extra_is_missing(installed: Installed, tmp_path: Path, lines: str, extra: str) -> None:
    program = f"import fairlane as fl\ntry:\n    {lines}\nexcept fl.ConfigError as error:\n    print(error)"
    done = installed.run("python", "-c", program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"fairlane[{extra}]" in done.stdout
