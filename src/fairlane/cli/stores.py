"""Getting at a store from the command line: which one, whether it is there, and an app of the user's."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Final

from fairlane.app import Fairlane
from fairlane.errors import ConfigError, StoreError
from fairlane.settings import without_password
from fairlane.stores.named import MEMORY, on_server
from fairlane.stores.sqlite.connection import missing, path_of

OURS: Final = str(Path(__file__).parents[1]) + os.sep
"""Where fairlane's own code is: what it refuses is wrong where it was called."""


class Keeper(Fairlane):
    """An app that takes a store as it is, whatever policy and capacities the settings here ask for.

    Who looks after a store must get in also, and above all, when the two disagree.

    Args:
        url: The store; None as for :class:`~fairlane.app.Fairlane`.
    """

    def __init__(self, url: str | None = None) -> None:
        super().__init__(url)
        self._policy = None
        self._capacities = None


def file_of(app: Fairlane) -> Path | None:
    """Return the file of an app's store; None: it is a database of a server.

    Raises:
        ConfigError: The store is a private one in memory: another program's jobs are not in it.
    """
    if on_server(app.url):
        return None
    path = path_of(app.url)
    if path is None:
        raise ConfigError(
            f"{MEMORY} is a store in the memory of one program, and ends with it; name a file: sqlite:///fairlane.db"
        )
    return path


def must_exist(app: Fairlane) -> Path | None:
    """Return the file of an app's store; None: it is a database of a server, and whoever opens it finds out.

    Raises:
        StoreError: There is none.
    """
    path = file_of(app)
    state = None if path is None else missing(path)
    if state is not None:
        raise StoreError(
            f"there is no store at {without_password(app.url)}: the file {state}. `enqueue`, `worker` and `demo` "
            f"make one; --url or FAIRLANE_URL names another (here it comes from: {app.settings.source('url')})"
        )
    return path


@contextmanager
def keeping(url: str | None) -> Generator[Keeper, None, None]:
    """Open a store that exists, as it is.

    Raises:
        ConfigError: The URL or a setting is wrong.
        StoreError: There is no store, or it cannot be opened.
    """
    app = Keeper(url)
    must_exist(app)
    with app:
        yield app


def load_app(where: str, url: str | None = None) -> Fairlane:
    """Import an app.

    Args:
        where: ``module:name``, from the working directory or what is installed; ``:app`` may be left out.
        url: The store to take instead of the app's own.

    Raises:
        ConfigError: There is no such module or name, it is no app, or its import failed; the message says where.
    """
    module_name, _, name = where.partition(":")
    if not module_name or module_name.endswith(".py") or "/" in module_name:
        raise ConfigError(f"{where!r} names no app: give MODULE:app, as in myproject.jobs:app")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        found: object = import_module(module_name)
    except Exception as error:
        missing = isinstance(error, ModuleNotFoundError) and module_name.split(".")[0] == error.name
        if missing:
            raise ConfigError(f"there is no module {module_name!r} in {here} or among what is installed") from None
        frames = traceback.extract_tb(error.__traceback__)
        frame = next((one for one in reversed(frames) if not one.filename.startswith(OURS)), frames[-1])
        raise ConfigError(
            f"importing {module_name!r} failed: {type(error).__name__}: {error} ({frame.filename}:{frame.lineno})"
        ) from error
    for part in (name or "app").split("."):
        found = getattr(found, part, None)
    if not isinstance(found, Fairlane):
        what = "has no" if found is None else f"has a {type(found).__name__}, not a Fairlane, as"
        behind = isinstance(getattr(found, "fairlane", None), Fairlane)  # what a shim makes
        instead = f"{module_name}:{name or 'app'}.fairlane" if behind else "MODULE:NAME of a fairlane.Fairlane"
        raise ConfigError(f"module {module_name!r} {what} {name or 'app'!r}; give {instead}")
    if url is not None:
        found.use(url)
    return found


def who() -> str:
    """Return who types, for the record of changes."""
    return f"cli:{os.environ.get('USER') or os.environ.get('LOGNAME') or os.getuid()}"[:255]
