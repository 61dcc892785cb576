"""The release script: what it refuses, and that it makes everything in a clone when it is only tried."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

sys.path.insert(0, str(Path(__file__).parent))  # "importlib" mode finds no neighbours by itself

from packing import ROOT, copy_tree

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(shutil.which("git") is None, reason="a release is made with git"),
]

NAME, MAIL = "A Developer", "developer@example.org"
ALONE = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
"""So that the machine's own settings of git play no part."""


class Repository:
    """A repository of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.git("config", "user.name", NAME)
        self.git("config", "user.email", MAIL)

    @classmethod
    def of_tree(cls, folder: Path) -> Repository:
        """Make one of a copy of the tree, with one commit."""
        subprocess.run(["git", "init", "--quiet", "--initial-branch", "main", str(copy_tree(folder))], check=True)
        made = cls(folder)
        made.git("add", "--all")
        made.git("commit", "--quiet", "--message", "Everything")
        return made

    def clone(self, folder: Path) -> Repository:
        """Return a copy to be changed."""
        self.git("clone", "--quiet", str(self.folder), str(folder))
        return Repository(folder)

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=self.folder, env=os.environ | ALONE, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def release(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(self.folder / "tools" / "release.py"), *arguments]
        return subprocess.run(
            command, cwd=self.folder, env=os.environ | ALONE, capture_output=True, text=True, check=False
        )

    def state(self) -> tuple[str, ...]:
        """Return what must not change when nothing is released."""
        return self.git("rev-parse", "HEAD"), self.git("tag"), self.git("status", "--porcelain")


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """One for tests that see that nothing changes."""
    return Repository.of_tree(tmp_path_factory.mktemp("release") / "tree")


@pytest.fixture
def repository(untouched: Repository, tmp_path: Path) -> Repository:
    """One to be changed."""
    return untouched.clone(tmp_path / "repository")


@pytest.fixture
def script() -> ModuleType:
    """The release script as a module."""
    spec = importlib.util.spec_from_file_location("release_script", ROOT / "tools" / "release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("version", "why"),
    [
        ("0.0.1", "not newer than"),
        ("next", "is no version"),
        ("1.0.0-rc.1", "is written '1.0.0rc1'"),
    ],
)
def test_a_wrong_version_is_refused(untouched: Repository, version: str, why: str) -> None:
    before = untouched.state()
    done = untouched.release(version, "--dry-run")
    assert done.returncode == 1
    assert why in done.stderr
    assert untouched.state() == before


def test_all_that_is_in_the_way_is_told_at_once(repository: Repository) -> None:
    repository.git("rm", "--quiet", *(str(path) for path in (repository.folder / "changes").glob("*.*.md")))
    repository.git("commit", "--quiet", "--message", "Without fragments")
    (repository.folder / "notes.txt").write_text("unfinished", "utf-8")
    repository.git("tag", "v7.0.0")
    before = repository.state()
    done = repository.release("7.0.0")
    assert done.returncode == 1
    for why in ("there is a tag v7.0.0", "the tree is not clean", "notes.txt", "holds no fragment"):
        assert why in done.stderr
    assert repository.state() == before
    assert not (repository.folder / "dist").exists()


def test_a_dry_run_makes_everything_and_changes_nothing(untouched: Repository, tmp_path: Path) -> None:
    before, out = untouched.state(), tmp_path / "out"
    done = untouched.release("9.8.7", "--dry-run", "--date", "2030-01-02", "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert untouched.state() == before
    made = {path.name: path for path in out.iterdir()}
    wheel, sdist, bill = "fairlane-9.8.7-py3-none-any.whl", "fairlane-9.8.7.tar.gz", "fairlane-9.8.7.cdx.json"
    assert made.keys() == {wheel, sdist, bill, "SHA256SUMS"}
    sums = dict(line.split("  ")[::-1] for line in made["SHA256SUMS"].read_text("utf-8").splitlines())
    assert sums == {name: hashlib.sha256(made[name].read_bytes()).hexdigest() for name in (wheel, sdist, bill)}
    _the_sdist_is_that_of_the_release(made[sdist])
    _the_bill_is_complete(json.loads(made[bill].read_text("utf-8")), sums[wheel], str(tmp_path))


def _the_sdist_is_that_of_the_release(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = set(archive.getnames())
        changelog = archive.extractfile("fairlane-9.8.7/CHANGELOG.md")
        assert changelog is not None
        text = changelog.read().decode()
    assert "## 9.8.7 (2030-01-02)" in text
    assert not [name for name in names if name.startswith("fairlane-9.8.7/changes/+")]


def _the_bill_is_complete(bill: dict[str, Any], wheel: str, here: str) -> None:
    main = bill["metadata"]["component"]
    assert (main["name"], main["version"], main["purl"]) == ("fairlane", "9.8.7", "pkg:pypi/fairlane@9.8.7")
    assert main["hashes"] == [{"alg": "SHA-256", "content": wheel}]
    assert here not in json.dumps(bill)
    parts = {part["name"].lower().replace("_", "-"): part for part in bill["components"]}
    assert {
        "click",
        "cronsim",
        "msgspec",
        "rich",
        "uuid-utils",
        "fastapi",
        "psycopg",
        "htmx.org",
        "uplot",
    } <= parts.keys()
    assert not {"fairlane", "hatchling", "mypy", "pip", "pytest"} & parts.keys()
    lock = (ROOT / "requirements" / "core.txt").read_text("utf-8")
    for name in ("click", "msgspec", "rich"):
        assert f"{name}=={parts[name]['version']} " in lock
    for part in parts.values():
        assert part["purl"].startswith(("pkg:pypi/", "pkg:npm/"))
        assert part.get("licenses"), part["name"]
    depends = {one["ref"]: one.get("dependsOn", []) for one in bill["dependencies"]}
    assert {"vendored/htmx.min.js", f"rich=={parts['rich']['version']}"} <= set(depends[main["bom-ref"]])
    known = {part["bom-ref"] for part in bill["components"]}
    assert depends.keys() - {main["bom-ref"]} == known
    assert JsonStrictValidator(SchemaVersion.from_version(bill["specVersion"])).validate_str(json.dumps(bill)) is None


def test_a_release_is_committed_and_tagged(
    repository: Repository, script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a dry run does in a clone and drops; what is built of it is the same."""
    for name, value in ALONE.items():
        monkeypatch.setenv(name, value)
    script.check(repository.folder, "9.8.7")
    script.write_down(repository.folder, "9.8.7", "2030-01-02")
    assert repository.git("tag") == "v9.8.7"
    assert repository.git("rev-parse", "v9.8.7^{commit}") == repository.git("rev-parse", "HEAD")
    assert repository.git("log", "-1", "--format=%s") == "Version 9.8.7"
    assert repository.git("status", "--porcelain") == ""
    assert 'version = "9.8.7"' in (repository.folder / "pyproject.toml").read_text("utf-8")
    assert [path.name for path in (repository.folder / "changes").iterdir()] == ["README.md"]
    with pytest.raises(script.Refused, match=r"there is a tag v9\.8\.7"):
        script.check(repository.folder, "9.8.7")


HOOK = """
import secrets
from pathlib import Path
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

class Noise(BuildHookInterface):
    def initialize(self, version, build_data):
        noise = Path(self.root, "noise.txt")
        noise.write_text(secrets.token_hex())
        build_data["force_include"][str(noise)] = "fairlane/noise.txt"
"""


def test_a_build_that_comes_out_differently_is_refused(
    repository: Repository, script: ModuleType, tmp_path: Path
) -> None:
    (repository.folder / "hatch_build.py").write_text(HOOK, "utf-8")
    with (repository.folder / "pyproject.toml").open("a", encoding="utf-8") as pyproject:
        pyproject.write("\n[tool.hatch.build.targets.wheel.hooks.custom]\n")
    repository.git("add", "--all")
    repository.git("commit", "--quiet", "--message", "Noise")
    with pytest.raises(script.Refused, match="two builds of the same commit differ"):
        script.built_twice(repository.folder, tmp_path / "out", tmp_path / "scratch")


def test_files_of_an_earlier_release_are_left_alone(repository: Repository) -> None:
    dist = repository.folder / "dist"
    dist.mkdir()
    (dist / "fairlane-0.0.9.tar.gz").write_bytes(b"")
    before = repository.state()
    done = repository.release("9.8.7")
    assert done.returncode == 1
    assert "is not empty" in done.stderr
    assert repository.state() == before
