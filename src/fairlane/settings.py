"""Settings: built once, from defaults < file < environment < arguments; each knows where it came from.

The file is ``fairlane.toml`` in the working directory or, where there is none, the table ``[tool.fairlane]`` of
``pyproject.toml`` there. In the environment a setting is called ``FAIRLANE_`` and its name in capitals.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, cast
from urllib.parse import unquote

from fairlane.domain.checks import flag, number, text, whole
from fairlane.domain.policy import Capacities, Policy
from fairlane.errors import ConfigError, InvalidValue

PREFIX: Final = "FAIRLANE_"
DEFAULT_URL: Final = "sqlite:///fairlane.db"
DAY_S: Final = 86_400.0
MAX_SPAN_S: Final = 100 * 366 * DAY_S
MAX_ADDRESS: Final = 4096
YES: Final = ("true", "1", "yes", "on")
NO: Final = ("false", "0", "no", "off")

Check = Callable[[str, object], Any]  # Any: each setting has its own type


class Setting(NamedTuple):
    """One setting.

    Attributes:
        name: Its name in files and as an argument.
        default: What holds when nobody says otherwise; None: as the store has it, or nothing.
        check: Returns a given value, checked; raises InvalidValue.
        from_text: Turns the text of an environment variable into what ``check`` takes.
        about: One line for people, with unit and range.
    """

    name: str
    default: Any  # Any: each setting has its own type
    check: Check
    from_text: Callable[[str], object]
    about: str

    @property
    def variable(self) -> str:
        """Its name in the environment."""
        return PREFIX + self.name.upper()


class Value(NamedTuple):
    """A setting's value and where it came from: ``default``, ``argument``, a file's name, or a variable's name."""

    value: Any  # Any: each setting has its own type
    source: str

    @property
    def is_set(self) -> bool:
        """Whether somebody gave it, be it equal to the default."""
        return self.source != "default"


def _one_of(*words: str) -> Check:
    def check(name: str, value: object) -> str:
        if value not in words:
            raise InvalidValue(f"{name} {value!r} is not one of {', '.join(words)}")
        return str(value)

    return check


def _policy(name: str, value: object) -> str | Policy:
    return value if isinstance(value, Policy) else str(_one_of("fair", "strict", "fifo")(name, value))


def _count(least: int, most: int) -> Check:
    return lambda name, value: whole(name, value, least=least, most=most)


def _seconds(least: float, most: float = MAX_SPAN_S, *, above: bool = False) -> Check:
    return lambda name, value: number(name, value, least=least, most=most, above=above)


def _url(name: str, value: object) -> str:
    return text(name, value, max_bytes=4096)


def _addresses(name: str, value: object) -> tuple[str, ...]:
    """Check the addresses that alerts go to; an error names the place and never the address, which is a secret."""
    items = list(cast("list[object]", value)) if isinstance(value, list | tuple) else [value]
    for place, item in enumerate(items, 1):
        if not isinstance(item, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*://\S+", item):
            raise InvalidValue(f"{name}: address {place} is no Apprise URL, which looks like slack://…, json://host/…")
        if len(item) > MAX_ADDRESS:
            raise InvalidValue(f"{name}: address {place} has {len(item)} characters; the maximum is {MAX_ADDRESS}")
    return tuple(cast("list[str]", items))


def _number_of(given: str) -> object:
    """Return text as a number; what is none is left for the check to refuse."""
    for kind in (int, float):
        try:
            return kind(given)
        except ValueError:
            continue
    return given


def _flag_of(given: str) -> object:
    """Return what the text of a variable says; what is neither yes nor no is left for the check to refuse."""
    told = given.lower()
    return told in YES if told in YES or told in NO else given


SETTINGS: Final = (
    Setting(
        "url",
        DEFAULT_URL,
        _url,
        str,
        "the store: sqlite:///relative.db, sqlite:////absolute.db, sqlite:// (memory), postgresql://user@host/database",
    ),
    Setting(
        "durability",
        "full",
        _one_of("full", "normal"),
        str,
        "full flushes each commit to the disk; normal does not; of SQLite, a PostgreSQL server has its own settings",
    ),
    Setting("policy", None, _policy, str, "who runs next; unset: as the store has it, else fair"),
    Setting(
        "ageing_step", None, _seconds(0, 1e10, above=True), _number_of, "wait that raises a job by one tier, s, above 0"
    ),
    Setting(
        "express_capacity",
        None,
        _count(1, 10**6),
        _number_of,
        "express jobs that may wait, 1 or more; unset: the store's",
    ),
    Setting("express_per_tenant", None, _count(1, 10**6), _number_of, "the same of one named tenant, 1 or more"),
    Setting("concurrency", 8, _count(1, 10_000), _number_of, "jobs that a worker runs at once, 1 to 10,000"),
    Setting(
        "lease", 30.0, _seconds(0.1, DAY_S), _number_of, "how long a claim lasts unless it is renewed, s, 0.1 to a day"
    ),
    Setting("grace", 25.0, _seconds(0, DAY_S), _number_of, "how long a shutdown waits for running jobs, s, 0 to a day"),
    Setting("keep_completed", DAY_S, _seconds(0), _number_of, "how long completed jobs are kept, s"),
    Setting("keep_completed_jobs", 100_000, _count(0, 10**9), _number_of, "most completed jobs kept a queue"),
    Setting("keep_cancelled", 7 * DAY_S, _seconds(0), _number_of, "how long cancelled jobs are kept, s"),
    Setting("keep_dead", 30 * DAY_S, _seconds(0), _number_of, "how long dead jobs are kept, s"),
    Setting(
        "alert_dead",
        "timeouts",
        _one_of("timeouts", "all"),
        str,
        "which dead jobs are told: timeouts (those whose checks are used up), or all",
    ),
    Setting(
        "alerts", (), _addresses, str.split, "where alerts go, Apprise URLs; in the environment with spaces between"
    ),
    Setting("telemetry", False, flag, _flag_of, "whether OpenTelemetry spans and metrics are made (extra otel)"),
)
"""Every setting there is."""
BY_NAME: Final = {setting.name: setting for setting in SETTINGS}


@dataclass(frozen=True, slots=True)
class Settings:
    """Checked settings.

    Attributes:
        values: By name, each with its source.
        unknown_variables: Variables named ``FAIRLANE_…`` that are no setting: other parts use some, others are slips.
    """

    values: Mapping[str, Value]
    unknown_variables: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Any:  # Any: each setting has its own type
        return self.values[name].value

    def is_set(self, name: str) -> bool:
        """Return whether somebody gave the setting."""
        return self.values[name].is_set

    def source(self, name: str) -> str:
        """Return where the setting's value came from."""
        return self.values[name].source

    @property
    def url(self) -> str:
        """The store's address."""
        return str(self["url"])

    def policy(self) -> Policy | None:
        """Return the policy that was asked for, or None: as the store has it.

        Raises:
            ConfigError: ``ageing_step`` is given and the policy does not age.
        """
        step = self["ageing_step"]
        if isinstance(self["policy"], Policy):  # only an argument can be one, and it is complete
            return self["policy"]
        if not self.is_set("policy") and step is None:
            return None
        name = str(self["policy"] or "fair")
        if step is None:
            return Policy.named(name)
        if name == "fifo":
            raise ConfigError(f"ageing_step ({self.source('ageing_step')}) makes no sense with policy fifo")
        return Policy.named(name, ageing_step=step)

    def capacities(self) -> Capacities | None:
        """Return the capacities that were asked for, or None: as the store has them."""
        if not (self.is_set("express_capacity") or self.is_set("express_per_tenant")):
            return None
        defaults = Capacities()
        return Capacities(
            express_capacity=self["express_capacity"] or defaults.express_capacity,
            express_per_tenant=self["express_per_tenant"] or defaults.express_per_tenant,
        )

    def report(self) -> list[tuple[str, object, str]]:
        """Return (name, value, source) of every setting, for ``doctor``, without the secrets in URLs."""
        shown = {"url": without_password, "alerts": _schemes}
        return [
            (name, shown[name](held.value) if name in shown else held.value, held.source)
            for name, held in self.values.items()
        ]

    @staticmethod
    def load(
        arguments: Mapping[str, object] | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> Settings:
        """Return the settings that hold.

        Args:
            arguments: Settings by name; None stands for "not given".
            environment: Variables; None: the process's own.
            folder: Where the file is looked for; None: the working directory.

        Raises:
            ConfigError: A value is wrong, a file cannot be read or names an unknown setting; the message says where.
        """
        environment = os.environ if environment is None else environment
        values = {setting.name: Value(setting.default, "default") for setting in SETTINGS}
        file, table = _table(Path.cwd() if folder is None else folder)
        for name, given in table.items():
            if name not in BY_NAME:
                raise ConfigError(f"{file}: there is no setting {name!r}; {_meant(name)}")
            values[name] = _checked(BY_NAME[name], given, file)
        for setting in SETTINGS:
            told = environment.get(setting.variable, "")
            if told:  # an empty variable stands for an unset one, as in most programs
                values[setting.name] = _checked(setting, setting.from_text(told), setting.variable)
        for name, given in (arguments or {}).items():
            if given is not None:
                values[name] = _checked(BY_NAME[name], given, "argument")
        known = {setting.variable for setting in SETTINGS}
        unknown = tuple(sorted(name for name in environment if name.startswith(PREFIX) and name not in known))
        return Settings(values, unknown)


def _meant(name: str) -> str:
    """Return which setting somebody may have meant; all of them when none is near."""
    import difflib  # noqa: PLC0415  only where something is wrong

    near = difflib.get_close_matches(name.lower().replace("-", "_"), BY_NAME, 1)
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(BY_NAME)}"


def _checked(setting: Setting, given: object, source: str) -> Value:
    try:
        return Value(setting.check(setting.name, given), source)
    except InvalidValue as error:
        raise ConfigError(f"{source}: {error}") from None


def _table(folder: Path) -> tuple[str, Mapping[str, object]]:
    """Return the file that settings come from and what it says; nothing when there is no file."""
    for name, keys in (("fairlane.toml", ()), ("pyproject.toml", ("tool", "fairlane"))):
        path = folder / name
        try:
            body = path.read_bytes()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error}") from None
        import tomllib  # noqa: PLC0415  it takes 10 ms to load, and most folders have no file

        try:
            table: object = tomllib.loads(body.decode())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path} is not TOML: {error}") from None
        for key in keys:
            table = cast("dict[str, object]", table).get(key, {}) if isinstance(table, dict) else {}
        if not isinstance(table, dict):
            raise ConfigError(f"{path}: {'.'.join(keys)} is not a table")
        if table or not keys:
            return (f"{name} [tool.fairlane]" if keys else name), cast("dict[str, object]", table)
    return "", {}


def _schemes(urls: object) -> list[str]:
    """Return what may be shown of addresses: the kind of service."""
    return [url.partition("://")[0] + "://***" for url in cast("tuple[str, ...]", urls)]


_LOGIN: Final = re.compile(r"^([^:/?#@]*:(?://)?[^/?#@:]*:).*(@)", re.DOTALL)
_OPTION: Final = re.compile(r"([?&])([^=&]+)(=)([^&]*)")
_WORD: Final = re.compile(r"(^|\s)(\w+)(\s*=\s*)('(?:[^'\\]|\\.)*'?|\S*)")
_SECRET: Final = ("password", "secret", "token")


def without_password(url: object) -> str:
    """Return a URL with the passwords in it replaced by ``***``; what may be a part of one goes too.

    Example:
        >>> without_password("postgresql://me:se@cr/et@db/jobs?sslpassword=x&schema=a")
        'postgresql://me:***@db/jobs?sslpassword=***&schema=a'
    """

    def hidden(found: re.Match[str]) -> str:
        before, name, equals, _ = found.groups()
        named = unquote(name).lower()
        return f"{before}{name}{equals}***" if any(word in named for word in _SECRET) else found.group()

    told = str(url)
    if "://" not in told:  # libpq's other form, which is no URL: told by people who try it
        told = _WORD.sub(hidden, told)
    return _OPTION.sub(hidden, _LOGIN.sub(r"\1***\2", told))
