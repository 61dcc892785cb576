"""Which application, and so which store, a backend's options name; one application for each backend of a process."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

from fairlane.app import Fairlane
from fairlane.errors import ConfigError
from fairlane.integrations.django.flavour import db, tasks
from fairlane.stores.named import MEMORY, on_server

OPTIONS: Final = ("app", "database", "url")
"""What ``OPTIONS`` of a backend may say: at most one of them."""
LIBPQ: Final = frozenset(
    ("channel_binding", "connect_timeout", "gssencmode", "keepalives", "keepalives_count", "keepalives_idle",
     "keepalives_interval", "passfile", "service", "sslcert", "sslcrl", "sslkey", "sslmode", "sslpassword",
     "sslrootcert", "target_session_attrs", "tcp_user_timeout")
)  # fmt: skip
"""Options of Django's connections to PostgreSQL that the store's own take too."""


class Where(NamedTuple):
    """Where the jobs of a backend are.

    Attributes:
        app: The place of an application in the program's code, ``module.name``; None: one is made.
        url: The store of the one that is made; None: as settings say.
        database: Name of the database in ``DATABASES`` that the store is in; None: it is in none of them.
    """

    app: str | None = None
    url: str | None = None
    database: str | None = None


_lock: Final = threading.Lock()
_apps: Final[dict[str, tuple[Mapping[str, Any], Where, Fairlane]]] = {}


def app_for(backend: str = "default") -> Fairlane:
    """Return the application of a backend in ``TASKS``; its tasks are known once their modules are imported.

    Args:
        backend: The backend's name.

    Raises:
        ConfigError: The backend is not fairlane's, or its options are wrong.
    """
    found: Any = tasks.task_backends[backend]
    app: object = getattr(found, "app", None)
    if not isinstance(app, Fairlane):
        raise ConfigError(f"the backend {backend!r} in TASKS is {type(found).__qualname__}, not fairlane's")
    return app


def opened(alias: str, options: Mapping[str, Any]) -> tuple[Fairlane, bool]:
    """Return the application that a backend's options name now, and whether it is new here.

    The options may change, as they do in tests: then the old application is closed, unless it is the program's own.

    Args:
        alias: The backend's name.
        options: Its ``OPTIONS``.

    Raises:
        ConfigError: The options are wrong.
    """
    where = where_of(options)
    with _lock:
        held = _apps.get(alias)
        if held is not None and held[:2] == (options, where):
            return held[2], False
        if held is not None and held[1].app is None:
            held[2].close()
        app = Fairlane(where.url) if where.app is None else _imported(where.app)
        _apps[alias] = dict(options), where, app
        return app, True


def forget(alias: str) -> None:
    """Take note that somebody has closed the application of a backend: the next use makes another."""
    with _lock:
        _apps.pop(alias, None)


def where_of(options: Mapping[str, Any]) -> Where:
    """Return where the jobs of a backend are.

    Raises:
        ConfigError: There is no such option, two of them disagree, or a value is wrong.
    """
    for name in options:
        if name not in OPTIONS:
            near = get_close_matches(name, OPTIONS, 1)
            meant = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(OPTIONS)}"
            raise ConfigError(f"TASKS: there is no option {name!r}; {meant}")
    if len(options) > 1:
        raise ConfigError(f"TASKS: {' and '.join(map(repr, sorted(options)))} each name a store; give one of them")
    if "database" in options:
        url = url_of(str(options["database"]))
        return Where(url=url, database=None if url == MEMORY else str(options["database"]))
    return Where(app=options.get("app"), url=options.get("url"))


def url_of(database: str) -> str:
    """Return the store that is in one of Django's databases.

    Args:
        database: Its name in ``DATABASES``.

    Returns:
        The store's URL. For a database in memory, which Django's tests use, a store in memory beside it.

    Raises:
        ConfigError: There is no such database, or it is of a kind that stores are not.
    """
    try:
        connection = db.connections[database]
    except db.utils.ConnectionDoesNotExist:
        raise ConfigError(f"TASKS: there is no database {database!r} in DATABASES") from None
    told: Mapping[str, Any] = connection.settings_dict
    if connection.vendor == "sqlite":
        return MEMORY if connection.is_in_memory_db() else f"sqlite:///{Path(told['NAME']).absolute()}"
    if connection.vendor != "postgresql":
        raise ConfigError(f"TASKS: the database {database!r} is {connection.vendor}; stores are SQLite or PostgreSQL")
    given = {name.lower(): told.get(name) for name in ("HOST", "PORT")}
    given |= {name: value for name, value in told.get("OPTIONS", {}).items() if name in LIBPQ}
    more = urlencode({name: str(value) for name, value in given.items() if value}, quote_via=quote)
    login = ":".join(quote(str(told[name]), safe="") for name in ("USER", "PASSWORD") if told.get(name))
    return f"postgresql://{login}@/{quote(str(told['NAME']), safe='')}" + (f"?{more}" if more else "")


def make_stores(database: str) -> None:
    """Make the stores that backends have in one of Django's databases, where there are none yet.

    On SQLite the store must be there before the project's own tables, for a file with tables and without a store is
    taken for another program's. A store that is there is left alone, whatever its version.

    Args:
        database: The database's name in ``DATABASES``.

    Raises:
        StoreError: It cannot be made there.
    """
    for alias in tasks.task_backends.settings:
        options = getattr(tasks.task_backends[alias], "options", {})
        where = where_of(options) if options.get("database") == database else Where()
        if where.url is None or where.database is None:
            continue
        with Fairlane(where.url) as app:
            if on_server(app.url):
                _make_schema(app)
            else:
                app.owner.read(lambda store, _: store.settings())


def _make_schema(app: Fairlane) -> None:
    from fairlane.stores.postgres.schema import migrate, schema_of  # noqa: PLC0415  an extra

    if not schema_of(app.url, app.clock).done:
        migrate(app.url, app.clock)


def _imported(path: str) -> Fairlane:
    module, _, name = str(path).replace(":", ".").rpartition(".")
    try:
        found: object = getattr(import_module(module), name, None)
    except (ModuleNotFoundError, ValueError) as error:
        raise ConfigError(f"TASKS: there is no application at {path!r}: {error}") from None
    if not isinstance(found, Fairlane):
        raise ConfigError(f"TASKS: {path!r} is no fairlane.Fairlane")
    return found
