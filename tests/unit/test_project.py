"""The package says of itself what the specification asks for."""

import ast
import re
from importlib import metadata
from importlib.resources import files

import pytest

import fairlane

EXTRAS = {
    "server": {"fastapi", "uvicorn", "jinja2", "prometheus-client"},
    "postgres": {"psycopg"},
    "alerts": {"apprise"},
    "prometheus": {"prometheus-client"},
    "otel": {"opentelemetry-api"},
}
CORE = {"msgspec", "click", "rich", "cronsim", "uuid-utils"}


def required(extra: str | None) -> set[str]:
    """Return the names that the installed package requires, for one extra or for the core (None)."""
    names = set()
    for line in metadata.requires("fairlane") or []:
        requirement, _, condition = line.partition(";")
        asked = re.search(r"extra\s*==\s*['\"]([\w-]+)['\"]", condition)
        if (asked.group(1) if asked else None) == extra:
            name = re.match(r"[\w.-]+(?:\[[^\]]*\])?", requirement.strip())
            assert name is not None, line
            names.add(name.group(0).lower())
    return names


def test_core_needs_few_libraries() -> None:
    assert required(None) == CORE


@pytest.mark.parametrize("extra", EXTRAS)
def test_extra_brings_its_libraries(extra: str) -> None:
    assert {name.partition("[")[0] for name in required(extra)} == EXTRAS[extra]


def test_all_is_every_extra() -> None:
    assert {name.partition("[")[0] for name in required("all")} == set().union(*EXTRAS.values())


def test_no_other_extra() -> None:
    assert set(metadata.metadata("fairlane").get_all("Provides-Extra") or []) == {*EXTRAS, "all"}


def test_version_is_that_of_the_metadata() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+|rc\d+)?", metadata.version("fairlane"))
    # A package of a docstring at most has no public names yet, and only its metadata can be asked.
    if len(ast.parse(files(fairlane).joinpath("__init__.py").read_text(encoding="utf-8")).body) > 1:
        assert fairlane.__version__ == metadata.version("fairlane")


def test_type_checkers_may_trust_the_package() -> None:
    assert files(fairlane).joinpath("py.typed").is_file()
