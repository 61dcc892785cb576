"""The search for jobs: ``tenant:acme tier:high state:available age:>2m`` and what it means, or what is wrong with it.

Terms are joined by "and". ``name:value``; a value with spaces is quoted, ``tag:"two words"``; a word without a name is
looked for in task, tenant, dedup key, tags and the last error. An id alone leads to its job.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from fairlane.domain.checks import MAX_NAME_BYTES
from fairlane.domain.states import State
from fairlane.domain.tiers import Tier
from fairlane.errors import InvalidValue

MAX_QUERY: Final = 1_000
MAX_TERMS: Final = 30
_TERM: Final = re.compile(r'\s*(?:([a-z_]+):)?(?:"((?:[^"\\]|\\.)*)"|(\S+))')
_AGE: Final = re.compile(r">?\s*(\d+(?:\.\d+)?)\s*(s|m|h|d)")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_SETS: Final = {
    "waiting": (State.SCHEDULED, State.AVAILABLE),
    "live": (State.SCHEDULED, State.AVAILABLE, State.RUNNING),
    "ended": (State.COMPLETED, State.DEAD, State.CANCELLED),
}
NAMES: Final = {
    "tenant": "tenant:acme",
    "queue": "queue:mail",
    "task": "task:send",
    "tier": "tier:high",
    "state": "state:available,running",
    "age": "age:>2m",
    "error": "error:TimeoutError",
    "tag": "tag:invoice",
    "key": "key:order-42",
    "group": "group:3f2a…",
}
"""What can be asked for, each with an example."""


@dataclass(slots=True)
class Asked:
    """What somebody asked for.

    Attributes:
        text: As it was written.
        which: What ``app.jobs`` takes.
        wrong: What was not understood, in words.
        id: The id, when only that was given.
    """

    text: str
    which: dict[str, Any] = field(default_factory=dict[str, Any])  # Any: a filter's values
    wrong: list[str] = field(default_factory=list[str])
    id: str | None = None

    @property
    def everything(self) -> bool:
        """Whether it means every job."""
        return not self.which


def written(name: str, value: str) -> str:
    r"""Return a term as it is written into the search.

    Example:
        >>> written("tenant", "acme"), written("tag", 'a "b" c')
        ('tenant:acme', 'tag:"a \\"b\\" c"')
    """
    if value and not re.search(r'[\s"\\]', value):
        return f"{name}:{value}"
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'{name}:"{escaped}"'


def query_for(**terms: str) -> str:
    """Return the search for these terms; those without a value are left out.

    Example:
        >>> query_for(tenant="big corp", queue="", state="available")
        'tenant:"big corp" state:available'
    """
    return " ".join(written(name, value) for name, value in terms.items() if value)


def parse(query: str) -> Asked:
    """Return what a search means. Never raises: what is not understood is said, and no job is meant by it.

    Example:
        >>> asked = parse('tenant:acme state:waiting age:>2m bounced')
        >>> asked.which["tenant"], asked.which["older_than"], asked.which["q"], asked.wrong
        ('acme', 120.0, 'bounced', [])
        >>> parse("tier:hihg").wrong
        ["tier 'hihg' is not one of critical=0, high=1, normal=2, low=3, background=4"]
    """
    asked = Asked(query[:MAX_QUERY].strip())
    if len(query) > MAX_QUERY:
        asked.wrong.append(f"the search is longer than {MAX_QUERY:,} characters")
        return asked
    terms = _TERM.findall(asked.text)
    if len(terms) > MAX_TERMS:
        asked.wrong.append(f"the search has more than {MAX_TERMS} terms")
        return asked
    words: list[str] = []
    for name, quoted, plain in terms:
        value = re.sub(r"\\(.)", r"\1", quoted) if quoted else plain
        if name in _READERS:
            try:
                _take(asked, name, value)
            except InvalidValue as error:
                asked.wrong.append(str(error))
        else:
            words.append(f"{name}:{value}" if name else value)
    if len(words) == 1 and len(terms) == 1 and (found := _id(words[0])):
        asked.id = found
    elif words:
        text = " ".join(words)
        if len(text.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES:
            asked.wrong.append(f"the words looked for are longer than {MAX_NAME_BYTES} bytes")
        else:
            asked.which["q"] = text
    return asked


def _take(asked: Asked, name: str, value: str) -> None:
    field_name, read = _READERS[name]
    if not value:
        raise InvalidValue(f"{name}: a value is missing, as in {NAMES.get(name, name + ':value')}")
    if field_name in asked.which:
        raise InvalidValue(f"{name} is given twice")
    asked.which[field_name] = read(value)


def _id(text: str) -> str | None:
    try:
        return str(UUID(text)) if len(text) in {32, 36} else None
    except ValueError:
        return None


def _states(value: str) -> tuple[State, ...]:
    found: list[State] = []
    for part in value.lower().split(","):
        if part in _SETS:
            found += _SETS[part]
        elif part.upper() in State.__members__:
            found.append(State[part.upper()])
        else:
            known = ", ".join([*(state.label for state in State), *_SETS])
            raise InvalidValue(f"state {part!r} is not one of {known}")
    return tuple(sorted(set(found)))


def _age(value: str) -> float:
    found = _AGE.fullmatch(value.strip().lower())
    if found is None:
        raise InvalidValue(f"age {value!r} is not like >2m; units are s, m, h and d")
    return float(found[1]) * _SECONDS[found[2]]


def _tier(value: str) -> Tier:
    return Tier.of(int(value) if value.isascii() and value.isdecimal() and len(value) == 1 else value)


_READERS: Final[dict[str, tuple[str, Callable[[str], object]]]] = {
    "tenant": ("tenant", str),
    "queue": ("queue", str),
    "task": ("task", str),
    "tier": ("tier", _tier),
    "state": ("state", _states),
    "is": ("state", _states),
    "age": ("older_than", _age),
    "error": ("error", str),
    "tag": ("tag", str),
    "key": ("dedup_key", str),
    "group": ("fingerprint", str),
}
