"""Make a release: changelog, version, commit, tag, wheel, sdist, SBOM, checksums. It publishes nothing.

    python tools/release.py 0.2.0             # in a clean tree; what it makes goes into dist/
    python tools/release.py 0.2.0 --dry-run   # the same in a clone that is thrown away; only dist/ is kept

Nothing is changed before everything has been checked: the version is newer than the last one and has no tag, the tree
is clean, there are fragments in changes/. Wheel and sdist are built twice, in two places, and must come out alike.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from packaging.version import InvalidVersion, Version

VERSION_LINE: Final = re.compile(r'^version = "([^"]+)"$', re.MULTILINE)
PIN: Final = re.compile(r"^[A-Za-z0-9][\w.-]*==[^\\]+", re.MULTILINE)
VENDORED: Final = Path("src/fairlane/dashboard/static/VENDORED")
SPDX: Final = {"0BSD", "MIT", "BSD-2-Clause", "BSD-3-Clause", "ISC", "Apache-2.0"}


class Refused(Exception):
    """The release cannot be made; nothing was changed."""


def say(what: str) -> None:
    """Tell what is being done."""
    sys.stderr.write(f"== {what}\n")
    sys.stderr.flush()


def run(*command: str | Path, cwd: Path, env: Mapping[str, str] | None = None) -> str:
    """Run a program to its end and return what it printed; its errors go where ours go.

    Raises:
        CalledProcessError: It failed.
    """
    done = subprocess.run(
        command, cwd=cwd, env=None if env is None else os.environ | env, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout.strip()


def git(tree: Path, *arguments: str) -> str:
    """Run git in a tree."""
    return run("git", *arguments, cwd=tree)


# ---------------------------------------------------------------- before anything is changed


def check(tree: Path, version: str) -> None:
    """See that a release can be made of a tree.

    Raises:
        Refused: It cannot; the message says everything that is in the way.
    """
    wrong: list[str] = []
    held = version_of(tree)
    try:
        wanted = Version(version)
    except InvalidVersion:
        raise Refused(f"{version!r} is no version; they look like 0.2.0 or 0.2.0rc1") from None
    if str(wanted) != version:
        wrong.append(f"{version!r} is written {str(wanted)!r}")
    if wanted < Version(held) or (wanted == Version(held) and git(tree, "tag", "--list", "v*")):
        wrong.append(f"{version} is not newer than {held}")
    if git(tree, "tag", "--list", f"v{version}"):
        wrong.append(f"there is a tag v{version}")
    if changed := git(tree, "status", "--porcelain"):
        wrong.append("the tree is not clean:\n" + "\n".join(f"    {line}" for line in changed.splitlines()[:20]))
    if not fragments(tree):
        wrong.append("changes/ holds no fragment: there is nothing to release")
    if wrong:
        raise Refused("\n".join(wrong))


def version_of(tree: Path) -> str:
    """Return the version that a tree has."""
    return str(tomllib.loads((tree / "pyproject.toml").read_text("utf-8"))["project"]["version"])


def fragments(tree: Path) -> list[Path]:
    """Return the fragments of the next entry of the changelog."""
    return sorted(path for path in (tree / "changes").glob("*.*.md") if path.name != "README.md")


# ---------------------------------------------------------------- commit and tag


def write_down(tree: Path, version: str, date: str | None) -> None:
    """Write the changelog and the version, commit, and tag."""
    dated = () if date is None else ("--date", date)
    say(f"changelog: {len(fragments(tree))} fragments")
    run(sys.executable, "-m", "towncrier", "build", "--yes", "--version", version, *dated, cwd=tree)
    pyproject = tree / "pyproject.toml"
    text, changed = VERSION_LINE.subn(f'version = "{version}"', pyproject.read_text("utf-8"), count=1)
    assert changed == 1, "pyproject.toml has a line with the version"
    pyproject.write_text(text, "utf-8")
    git(tree, "add", "--all", "CHANGELOG.md", "changes", "pyproject.toml")
    git(tree, "commit", "--quiet", "--message", f"Version {version}")
    git(tree, "tag", "--annotate", f"v{version}", "--message", f"Version {version}")
    say(f"commit {git(tree, 'rev-parse', '--short', 'HEAD')}, tag v{version}")


# ---------------------------------------------------------------- what is handed out


def build(tree: Path, out: Path, epoch: str) -> list[Path]:
    """Build sdist and wheel, the wheel out of the sdist, and return them.

    Args:
        tree: What to build.
        out: Where they go.
        epoch: Time of all files in them, in seconds since 1970.
    """
    command = (sys.executable, "-m", "build", "--no-isolation", "--outdir", out)
    run(*command, cwd=tree, env={"SOURCE_DATE_EPOCH": epoch})
    return sorted((*out.glob("*.whl"), *out.glob("*.tar.gz")))


def built_twice(tree: Path, out: Path, scratch: Path) -> list[Path]:
    """Build in the tree and in a fresh clone of it; return what came out, which must be the same.

    Raises:
        Refused: It is not: somebody who builds the tag would get something else.
    """
    epoch = git(tree, "log", "-1", "--format=%ct")
    made = build(tree, out, epoch)
    again = scratch / "again"
    git(tree, "clone", "--quiet", "--no-hardlinks", str(tree), str(again))
    other = {path.name: digest(path) for path in build(again, scratch / "other", epoch)}
    if {path.name: digest(path) for path in made} != other:
        raise Refused("two builds of the same commit differ")
    return made


def bill(tree: Path, wheel: Path, out: Path, scratch: Path) -> Path:
    """Write what the wheel brings with all its extras, at the versions that were tested (CycloneDX), and return it.

    The scripts that the wheel holds itself are in it too.
    """
    where = scratch / "installed"
    venv.create(where, with_pip=False)
    python = where / "bin" / "python"
    pins = scratch / "pins.txt"
    pins.write_text("\n".join(PIN.findall((tree / "requirements/dev.txt").read_text("utf-8"))) + "\n", "utf-8")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "--python", python)
    run(*pip, "install", "--quiet", "--constraint", pins, f"{wheel}[all]", cwd=tree)
    file = out / f"{wheel.name.partition('-py3')[0]}.cdx.json"
    command = ("environment", "--output-reproducible", "--output-format", "JSON", "--output-file", file)
    run(
        sys.executable, "-m", "cyclonedx_py", *command,
        "--pyproject", tree / "pyproject.toml", "--mc-type", "library", python, cwd=tree,
    )  # fmt: skip
    document = json.loads(file.read_text("utf-8"))
    name_main(document, wheel)
    add_parts(document, vendored(tree))
    file.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n", "utf-8")
    return file


def name_main(document: dict[str, Any], wheel: Path) -> None:  # Any: JSON
    """Give the document's own component its address and checksum; it is no part of itself, nor a path of ours."""
    main = document["metadata"]["component"]
    main["purl"] = f"pkg:pypi/{main['name']}@{main['version']}"
    main["hashes"] = [{"alg": "SHA-256", "content": digest(wheel)}]
    document["components"] = [part for part in document["components"] if part["name"] != main["name"]]


def add_parts(document: dict[str, Any], parts: list[dict[str, Any]]) -> None:  # Any: JSON
    """Add what the wheel holds itself."""
    document["components"] = sorted([*document["components"], *parts], key=lambda part: part["bom-ref"])
    refs = [part["bom-ref"] for part in parts]
    ours = document["metadata"]["component"]["bom-ref"]
    (depends,) = (one for one in document["dependencies"] if one["ref"] == ours)
    depends["dependsOn"] = sorted([*depends.get("dependsOn", []), *refs])
    document["dependencies"] += [{"ref": ref} for ref in refs]


def vendored(tree: Path) -> list[dict[str, Any]]:  # Any: JSON
    """Return the scripts and styles that the wheel holds as their makers ship them."""
    parts: list[dict[str, Any]] = []
    rows = (tree / VENDORED).read_text("utf-8").partition("\n\n")[2].splitlines()[1:]
    for file, package, version, _, licence, *_, sha256 in (row.split() for row in rows if row.strip()):
        assert licence in SPDX, f"{VENDORED}: {licence} is no licence that we know"
        parts.append(
            {
                "bom-ref": f"vendored/{file}",
                "type": "library",
                "name": package,
                "version": version,
                "purl": f"pkg:npm/{package}@{version}",
                "hashes": [{"alg": "SHA-256", "content": sha256}],
                "licenses": [{"license": {"id": licence}}],
                "description": f"{file}, in the wheel",
            }
        )
    return parts


def digest(path: Path) -> str:
    """Return a file's SHA-256."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_checksums(out: Path, files: list[Path]) -> Path:
    """Write the checksums as ``sha256sum --check`` reads them."""
    sums = out / "SHA256SUMS"
    sums.write_text("".join(f"{digest(path)}  {path.name}\n" for path in sorted(files)), "utf-8")
    return sums


# ---------------------------------------------------------------- all of it


def release(tree: Path, version: str, *, out: Path, date: str | None, dry_run: bool) -> list[Path]:
    """Make a release and return the files to hand out.

    Raises:
        Refused: It cannot be made.
    """
    check(tree, version)
    if out.exists() and any(out.iterdir()):
        raise Refused(f"{out} is not empty")
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fairlane-release-") as name:
        scratch = Path(name)
        place = tree
        if dry_run:
            place = scratch / "tree"
            git(tree, "clone", "--quiet", "--no-hardlinks", str(tree), str(place))
            for key in ("user.name", "user.email"):
                git(place, "config", key, git(tree, "config", key))
        write_down(place, version, date)
        say("wheel and sdist, twice")
        files = built_twice(place, out, scratch)
        say("what it brings")
        files.append(bill(place, next(path for path in files if path.suffix == ".whl"), out, scratch))
        files.append(write_checksums(out, files))
    return files


def main() -> int:
    """Read the command line and make the release."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("version", help="the new version, such as 0.2.0")
    parser.add_argument("--dry-run", action="store_true", help="do it in a clone: no commit, no tag, no change here")
    parser.add_argument("--date", metavar="YYYY-MM-DD", help="the date in the changelog; today by default")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where files go; dist/ by default")
    parser.add_argument("--tree", type=Path, default=Path(__file__).parents[1], help=argparse.SUPPRESS)
    asked = parser.parse_args()
    tree = asked.tree.resolve()
    try:
        files = release(tree, asked.version, out=asked.out or tree / "dist", date=asked.date, dry_run=asked.dry_run)
    except Refused as error:
        sys.stderr.write(f"No release: {error}\n")
        return 1
    for path in files:
        sys.stdout.write(f"{path}\n")
    say(
        "a dry run: nothing is left of it but these"
        if asked.dry_run
        else f"look at it, then: git push origin v{asked.version}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
