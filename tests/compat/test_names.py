"""What the other packages export is in the shims, or is refused by an error that says what to use instead."""

from __future__ import annotations

import importlib
import importlib.util
import re
import warnings
from pathlib import Path

import pytest

from fairlane.compat import _words

GUIDES = Path(__file__).parents[2] / "docs" / "moving-over"
TABLES = {name: getattr(_words, f"{name.upper()}_NAMES") for name in ("celery", "rq", "dramatiq", "procrastinate")}
OTHERS = {  # insides, and what is about the package itself
    "celery": {
        "SERIES", "Signature", "VERSION", "VERSION_BANNER", "bugreport", "execute", "local", "log",
        "maybe_patch_concurrency", "maybe_signature", "messaging", "registry", "version_info", "version_info_t",
    },
    "rq": set[str](),
    # Errors that fairlane's calls do not raise, insides, and the base classes of middleware and threads.
    "dramatiq": {
        "MessageProxy", "Consumer", "ConsumerThread", "WorkerThread", "get_logger", "DramatiqError", "BrokerError",
        "DecodeError", "ActorNotFound", "QueueNotFound", "QueueJoinTimeout", "BrokerConnectionError",
        "ConnectionClosed", "ConnectionFailed",
    },
    "procrastinate": set[str](),
}  # fmt: skip


@pytest.mark.parametrize("system", TABLES)
def test_what_the_package_exports(system: str):
    if importlib.util.find_spec(system) is None:
        pytest.skip(f"{system.upper()} IS NOT INSTALLED: its names are not looked at")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # theirs
        theirs = importlib.import_module(system)
    ours = importlib.import_module(f"fairlane.compat.{system}")
    names = {name for name in theirs.__all__ if not name.startswith("_")} - OTHERS[system]
    assert names
    assert {name for name in names if name not in vars(ours)} <= TABLES[system].keys()


@pytest.mark.parametrize(("system", "name"), [(system, name) for system, table in TABLES.items() for name in table])
def test_an_import_of_what_is_not_there_says_what_to_use(system: str, name: str):
    with pytest.raises(ImportError, match=f"{name} has no counterpart in fairlane; "):
        exec(f"from fairlane.compat.{system} import {name}", {})
    module = importlib.import_module(f"fairlane.compat.{system}")
    assert not hasattr(module, "nothing_of_the_kind")


@pytest.mark.parametrize("system", TABLES)
def test_the_guide_names_everything_that_is_refused(system: str):
    spec = importlib.util.spec_from_file_location("gen_moving_over", GUIDES.parent / "gen_moving_over.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (GUIDES / f"{system}.md").read_text(encoding="utf-8")
    assert page == module.render(system), "run `python docs/gen_moving_over.py`"
    tables = [table for name, table in vars(_words).items() if name.startswith(system.upper())]
    assert len(tables) == len(module.KINDS[system])


@pytest.mark.parametrize("page", sorted(GUIDES.glob("*.md")), ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path):
    for link in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / link).exists(), link
