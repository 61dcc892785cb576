"""What wheel and sdist hold, what they say of themselves, and that two builds are the same bytes."""

from __future__ import annotations

import base64
import csv
import hashlib
import os
import re
import shutil
import sys
import tarfile
import tomllib
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # "importlib" mode finds no neighbours by itself

from packing import Built, build

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

STATIC = "fairlane/dashboard/static/"
EXTRAS = {"all", "alerts", "otel", "postgres", "prometheus", "server"}


def in_wheel(built: Built) -> dict[str, bytes]:
    with zipfile.ZipFile(built.wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def in_sdist(built: Built) -> set[str]:
    with tarfile.open(built.sdist) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


def metadata(built: Built) -> Message:
    (name,) = (name for name in in_wheel(built) if name.endswith(".dist-info/METADATA"))
    return Parser().parsestr(in_wheel(built)[name].decode())


# ---------------------------------------------------------------- contents


def test_the_wheel_holds_the_package_and_nothing_else(built: Built) -> None:
    source = built.tree / "src"
    written = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()}
    packed = in_wheel(built)
    assert {name for name in packed if ".dist-info/" not in name} == written
    assert not [name for name in packed if re.search(r"__pycache__|\.pyc$|\.db|(^|/)(tests|bench)/", name)]
    for name in written:
        assert packed[name] == (source / name).read_bytes(), name


@pytest.mark.parametrize(
    "name",
    [
        "fairlane/py.typed",
        "fairlane/stores/sqlite/migrations/0001_initial.sql",
        "fairlane/stores/postgres/queries/claim.sql",
        "fairlane/dashboard/templates/base.html",
        f"{STATIC}fairlane.css",
        "fairlane/simulate/report.html",
    ],
)
def test_files_that_are_no_python_are_in_the_wheel(built: Built, name: str) -> None:
    assert name in in_wheel(built)


def test_every_file_is_what_its_record_says(built: Built) -> None:
    packed = in_wheel(built)
    (record,) = (name for name in packed if name.endswith(".dist-info/RECORD"))
    rows = {name: said for name, said, _ in csv.reader(packed[record].decode().splitlines())}
    assert rows.keys() == packed.keys()
    for name, said in rows.items():
        if name != record:
            digest = base64.urlsafe_b64encode(hashlib.sha256(packed[name]).digest()).rstrip(b"=").decode()
            assert said == f"sha256={digest}", name


def test_licences_are_in_the_wheel_and_vendored_files_are_unchanged(built: Built) -> None:
    packed = in_wheel(built)
    licences = {name.rpartition("/")[2] for name in packed if ".dist-info/licenses/" in name}
    rows = packed[f"{STATIC}VENDORED"].decode().partition("\n\n")[2].splitlines()[1:]
    assert rows
    for file, *_, sha256 in (row.split() for row in rows):
        assert hashlib.sha256(packed[STATIC + file]).hexdigest() == sha256
    needed = set(re.findall(r"\((LICENSE\.\w+)\)", "\n".join(rows)))
    assert needed
    assert licences == {"LICENSE", *needed}
    assert all(STATIC + name in packed for name in needed)


def test_the_sdist_holds_what_it_takes_to_build_test_and_read(built: Built) -> None:
    names = in_sdist(built)
    for name in (
        "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "Makefile",
        "mkdocs.yml", "requirements/dev.txt", "docs/architecture.md", "tests/conftest.py", "tools/release.py",
        "changes/README.md",
    ):  # fmt: skip
        assert name in names, name
    written = {str(path.relative_to(built.tree)) for path in (built.tree / "src").rglob("*") if path.is_file()}
    assert written <= names
    assert not [name for name in names if re.search(r"__pycache__|\.pyc$|\.db$|^\.venv|_cache/|^build/|^dist/", name)]


# ---------------------------------------------------------------- what it says of itself


def test_metadata(built: Built) -> None:
    said = metadata(built)
    project = tomllib.loads((built.tree / "pyproject.toml").read_text("utf-8"))["project"]
    assert said["Name"] == "fairlane"
    assert said["Version"] == project["version"]
    assert said["Requires-Python"] == ">=3.11"
    assert said["License-Expression"] == "Apache-2.0"
    assert said["Description-Content-Type"] == "text/markdown"
    assert "Ten lines" in said.get_payload()
    assert set(said.get_all("Provides-Extra") or []) == EXTRAS
    core = [line for line in said.get_all("Requires-Dist") or [] if "extra ==" not in line]
    assert {re.split(r"[<>=!~ ]", line)[0] for line in core} == {"click", "cronsim", "msgspec", "rich", "uuid-utils"}
    classifiers = set(said.get_all("Classifier") or [])
    assert {"Typing :: Typed", "Programming Language :: Python :: 3.11"} <= classifiers
    assert not [line for line in classifiers if line.startswith("License ::")]  # the expression says it


def test_entry_points(built: Built) -> None:
    (text,) = (body.decode() for name, body in in_wheel(built).items() if name.endswith("/entry_points.txt"))
    assert "[console_scripts]\nfairlane = fairlane.cli.main:main\n" in text
    assert "[pytest11]\nfairlane = fairlane.testing.plugin\n" in text


# ---------------------------------------------------------------- the same bytes


def test_two_builds_are_alike(built: Built, tmp_path: Path) -> None:
    """Elsewhere, of files with other times and modes, straight from the tree and not by way of the sdist."""
    other = tmp_path / "elsewhere" / "copy"
    shutil.copytree(built.tree, other, copy_function=shutil.copyfile)
    for path in other.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
        os.utime(path, (1_600_000_000, 1_600_000_000))
    out = build(other, tmp_path / "out", "--wheel", "--sdist")
    for first in (built.wheel, built.sdist):
        assert (out / first.name).read_bytes() == first.read_bytes(), first.name


def test_an_sdist_builds_the_same_sdist(built: Built, tmp_path: Path) -> None:
    with tarfile.open(built.sdist) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (tree,) = (tmp_path / "unpacked").iterdir()
    out = build(tree, tmp_path / "out")
    assert (out / built.wheel.name).read_bytes() == built.wheel.read_bytes()
    assert (out / built.sdist.name).read_bytes() == built.sdist.read_bytes()
