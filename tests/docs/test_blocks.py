"""Every Python block of the documentation runs, page by page; the sessions of some pages do too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import docs_runner
import pytest
from docs_pages import DOCS, PAGES, Block, blocks_of, name_of
from docs_runner import BEFORE, SESSIONS, faults_in
from tests.pg import server

ON_POSTGRES = {"guides/transactions.md"}
"""Pages whose blocks run on a PostgreSQL server; what is in ``before/`` for them is given its URL."""
MOST_EXCUSES = 4
WITH_BLOCKS = [page for page in PAGES if any(block.language == "python" for block in blocks_of(page))]
BY_THEMSELVES = [page for page in WITH_BLOCKS if name_of(page) not in ON_POSTGRES]
EXCUSED = [block for page in PAGES for block in blocks_of(page) if block.excuse]


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("page", BY_THEMSELVES, ids=name_of)
def test_the_blocks_of_a_page_run(page: Path, tmp_path: Path) -> None:
    run(page, tmp_path)


@pytest.mark.postgres
@pytest.mark.timeout(120)
def test_the_blocks_of_a_page_run_on_postgresql(tmp_path: Path) -> None:
    with server() as running:
        for page in (DOCS / name for name in ON_POSTGRES):
            run(page, tmp_path, running.database())


def run(page: Path, folder: Path, *url: str) -> None:
    """Run the blocks of a page in a process of their own: pages configure what all of a process share."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("FAIRLANE_", "PYTEST_"))}
    done = subprocess.run(
        [sys.executable, "-W", "error", docs_runner.__file__, page, *url],
        cwd=folder, env=env, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_files_that_pages_make_are_used() -> None:
    """A block with a title is run by a session, not by itself."""
    titled = {
        name_of(page) for page in PAGES for block in blocks_of(page) if block.title and block.language == "python"
    }
    assert titled <= SESSIONS


def test_excuses_are_few_and_say_why() -> None:
    assert len(EXCUSED) <= MOST_EXCUSES
    assert all(len(block.excuse or "") > 10 for block in EXCUSED)


def test_excused_blocks_name_what_there_is() -> None:
    assert not [(str(block), faults) for block in EXCUSED if (faults := faults_in(block))]


def test_a_fault_in_an_excused_block_is_found() -> None:
    text = "from fairlane import Nothing\n\nawait app.frob()\nfl.Odd"
    block = Block(DOCS / "index.md", line=1, language="python", title=None, excuse="for this test", text=text)
    assert set(faults_in(block)) == {"fairlane.Nothing", "app.frob", "fl.Odd"}


def test_every_beginning_belongs_to_a_page() -> None:
    begun = {str(path.relative_to(BEFORE).with_suffix(".md")) for path in BEFORE.rglob("*.py")}
    assert begun <= {name_of(page) for page in WITH_BLOCKS}


def test_no_python_hides_under_another_name() -> None:
    for page in PAGES:
        for block in blocks_of(page):
            assert block.language not in {"py", "python3", "pycon", "Python"}, block
