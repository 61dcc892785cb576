"""Writes ``docs/reference/http.md`` from ``docs/reference/openapi.json``: run it after a change of the API.

A test holds the page equal to what this gives, and another one the document equal to the API.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parent / "reference"
PAGE: Final = FOLDER / "http.md"
HEAD: Final = """# The HTTP API, call by call

<!-- Written by docs/gen_http.py from openapi.json; change the API, then run it. -->

What the calls are for, with examples: [the HTTP API](../guides/http-api.md). The same for programs:
[openapi.json](openapi.json), which a server also gives at `/v1/openapi.json`.

"""
GROUPS: Final = (
    ("jobs", "Jobs"),
    ("leases", "Leases: workers in any language"),
    ("settings", "What is set, and pauses"),
    ("watching", "Watching, and who may do what"),
    ("many", "Many jobs at once"),
    ("ops", "Probes and metrics"),
)
Json = dict[str, Any]  # Any: what JSON holds


def render() -> str:
    """Return the page."""
    told: Json = json.loads((FOLDER / "openapi.json").read_text(encoding="utf-8"))
    calls = [(path, verb, call) for path, verbs in told["paths"].items() for verb, call in verbs.items()]
    usual = set.intersection(*(set(call["responses"]) for path, _, call in calls if path not in OPEN))
    parts = [HEAD + told["info"]["description"].strip() + "\n", *_errors(calls, usual)]
    for tag, title in GROUPS:
        parts.append(f"## {title}\n")
        for path, verb, call in calls:
            if call["tags"] == [tag]:
                parts += _call(path, verb, call, usual)
    parts.append("## Objects\n")
    for name, schema in sorted(told["components"]["schemas"].items()):
        parts += _object(name, schema)
    return "\n".join(parts).rstrip() + "\n"


OPEN: Final = {"/healthz"}
"""What may be called without a token, and refuses nobody."""


def _errors(calls: list[tuple[str, str, Json]], usual: set[str]) -> Iterator[str]:
    said = {
        status: answer["description"]
        for _, _, call in calls
        for status, answer in call["responses"].items()
        if status >= "400"
    }
    yield "| status | what it means | of |\n|---|---|---|"
    for status, text in sorted(said.items()):
        yield f"| {status} | {_cell(text)} | {'every call' if status in usual else 'calls that name it'} |"
    yield ""


def _call(path: str, verb: str, call: Json, usual: set[str]) -> Iterator[str]:
    yield f"### `{verb.upper()} {path}`\n\n{call['description'].strip()}\n"
    rows = [_parameter(one) for one in call.get("parameters", ()) if one["in"] != "path" or one.get("description")]
    if rows:
        yield "| parameter | in | type | meaning |\n|---|---|---|---|\n" + "\n".join(rows) + "\n"
    told = []
    if "requestBody" in call:
        told.append(f"Body: {_type(call['requestBody']['content']['application/json']['schema'])}.")
    good = [f"{status} {_content(answer)}".rstrip() for status, answer in call["responses"].items() if status < "400"]
    told.append(f"Answers: {', '.join(sorted(good))}.")
    own = sorted(status for status in call["responses"] if status >= "400" and status not in usual)
    if own:
        told.append(f"Besides: {', '.join(own)}.")
    yield " ".join(told) + "\n"


def _parameter(one: Json) -> str:
    kind = _type(one["schema"]).removesuffix(" (or null)")
    return f"| `{one['name']}` | {one['in']} | {kind} | {_said(one['schema'], one.get('description'))} |"


def _content(answer: Json) -> str:
    kinds = answer.get("content", {})
    schema = kinds.get("application/json", {}).get("schema") or {}
    others = [f"`{kind}`" for kind in kinds if kind != "application/json"]
    return " or ".join(others) if others else _type(schema) if schema else ""


def _object(name: str, schema: Json) -> Iterator[str]:
    yield f"### {name}\n\n{schema.get('description', '').strip()}\n"
    needed = set(schema.get("required", ())) if name.endswith("In") else set[str]()
    rows = [
        f"| `{field}`{' (needed)' if field in needed else ''} | {_type(about)} | {_said(about)} |"
        for field, about in schema.get("properties", {}).items()
    ]
    if rows:
        yield "| field | type | meaning |\n|---|---|---|\n" + "\n".join(rows) + "\n"


WORDS: Final = {
    "boolean": "yes or no", "date-time": "instant", "integer": "whole number", "string": "text", "uuid": "id",
}  # fmt: skip


def _type(schema: Json) -> str:
    """Return in words what a schema takes, with its bounds."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        kinds = list(dict.fromkeys(_type(one) for one in schema["anyOf"]))
        maybe = " (or null)" if "null" in kinds else ""
        return " or ".join(kind for kind in kinds if kind != "null") + maybe
    if "enum" in schema:
        return ", ".join(f"`{word}`" for word in schema["enum"])
    kind = schema.get("type", "any JSON")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}" + _bounds(schema, "minItems", "maxItems", "")
    word = WORDS.get(schema.get("format", ""), WORDS.get(kind, kind))
    if kind == "string":
        return word + _bounds(schema, "minLength", "maxLength", " characters")
    return word + _bounds(schema, "minimum", "maximum", "")


def _bounds(schema: Json, low: str, high: str, unit: str) -> str:
    least, most = schema.get(low), schema.get(high)
    above = schema.get("exclusiveMinimum")
    if most is not None and most > 2**62:
        most = None
    told = []
    if above is not None:
        told.append(f"above {above:,g}")
    elif least is not None and (least or low == "minimum"):
        told.append(f"{least:,g} or more" if most is None else f"{least:,g}")
    if most is not None:
        told.append(f"{'to ' if told and above is None else 'at most '}{most:,.0f}" if most >= 1 else f"to {most:g}")
    return f", {' '.join(told)}{unit}" if told else ""


def _said(schema: Json, text: str | None = None) -> str:
    told = _cell(text or schema.get("description", ""))
    default = schema.get("default")
    if default not in (None, "", False, {}, []):
        told += f" Default: `{json.dumps(default)}`"
    return told.strip()


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
