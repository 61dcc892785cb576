"""What is neither Python nor a command: settings, YAML, JSON, calls of the HTTP API, links between files."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from docs_pages import DOCS, PAGES, ROOT, Block, blocks_of, name_of

from fairlane.settings import Settings

BLOCKS = [block for page in PAGES for block in blocks_of(page)]
KNOWN = {"", "console", "ini", "java", "javascript", "js", "json", "python", "sh", "sql", "text", "toml", "ts", "yaml"}
API: dict[str, Any] = json.loads((DOCS / "reference" / "openapi.json").read_text("utf-8"))
OTHERS = [path for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("examples/**/*.md")]) if path.name != "CHANGELOG.md"]


def blocks_in(language: str) -> list[Block]:
    return [block for block in BLOCKS if block.language == language]


def test_every_language_has_somebody_who_looks() -> None:
    assert {block.language for block in BLOCKS} <= KNOWN


@pytest.mark.parametrize("block", blocks_in("toml"), ids=str)
def test_settings_are_settings(block: Block, tmp_path: Path) -> None:
    table = tomllib.loads(block.text)
    if "tool" in table:
        (tmp_path / "pyproject.toml").write_text(block.text, "utf-8")
    else:
        (tmp_path / "fairlane.toml").write_text(block.text, "utf-8")
    assert Settings.load(environment={}, folder=tmp_path)


@pytest.mark.parametrize("block", blocks_in("yaml"), ids=str)
def test_yaml_is_yaml(block: Block) -> None:
    assert list(yaml.safe_load_all(block.text))


@pytest.mark.parametrize("block", blocks_in("json"), ids=str)
def test_json_is_json(block: Block) -> None:
    assert json.loads(block.text)


# ---------------------------------------------------------------- the HTTP API


def routes() -> Iterator[tuple[str, re.Pattern[str]]]:
    for path, verbs in API["paths"].items():
        pattern = re.compile(re.sub(r"\\\{\w+\\\}", r"[^/\\s]+", re.escape(path)))
        yield from ((verb.upper(), pattern) for verb in verbs)


ROUTES = list(routes())
CALL = re.compile(
    r"\b((?:GET|POST|PUT|DELETE)(?:`?, `?(?:GET|POST|PUT|DELETE))*) (/(?:v1/[\w:/{}.-]*|healthz|readyz|metrics))"
)


def exists(verb: str, path: str) -> bool:
    return any(verb == known and pattern.fullmatch(path.rstrip("/")) for known, pattern in ROUTES)


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "http.md"], ids=name_of)
def test_calls_of_the_api_exist(page: Path) -> None:
    for verbs, path in CALL.findall(page.read_text("utf-8")):
        for verb in re.findall("[A-Z]+", verbs):
            assert exists(verb, path), f"{verb} {path}"


def test_a_call_that_there_is_not_is_found() -> None:
    assert exists("PUT", "/v1/queues/mail")
    assert not exists("DELETE", "/v1/queues/mail")
    assert not exists("GET", "/v1/frob")


def curls() -> Iterator[tuple[str, str, str]]:
    """Give each call with a body that pages make with curl: where, the path, the body."""
    for block in blocks_in("sh"):
        for line in block.text.replace("\\\n", " ").splitlines():
            if found := re.search(r"curl \S+ (\S*?)(/v1/\S*) .*?-d (?:'(.+?)'|\"((?:\\.|[^\"\\])+)\")", line):
                yield str(block), re.sub(r"\$\w+", "x", found[2]), found[3] or found[4].replace('\\"', '"')


@pytest.mark.parametrize(("where", "path", "body"), list(curls()))
def test_bodies_of_calls_are_allowed(where: str, path: str, body: str) -> None:
    (call,) = [verbs["post"] for known, verbs in API["paths"].items() if "post" in verbs and matches(known, path)]
    name = call["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    schema = API["components"]["schemas"][name] | {"components": API["components"]}
    allowed = jsonschema_rs.validator_for(schema)
    allowed.validate(json.loads(re.sub(r"\$\w+", "1", body)))
    with pytest.raises(jsonschema_rs.ValidationError):
        allowed.validate({"frob": 1})


def matches(known: str, path: str) -> bool:
    return re.fullmatch(re.sub(r"\\\{\w+\\\}", r"[^/\\s]+", re.escape(known)), path) is not None


# ---------------------------------------------------------------- links


@pytest.mark.parametrize("page", [*OTHERS, *PAGES[1:]], ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    """They do in the repository; the site has its own check."""
    text = re.sub(r"^```.*?^```|`[^`]*`", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"[a-z]+:|#", link):
            assert (page.parent / link.partition("#")[0]).exists(), link
