"""Which Tasks framework there is: Django's own, or before Django 6 the package ``django-tasks``.

Neither Django's own nor Django itself says its types, so all of it is ``Any`` here.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from fairlane.errors import ConfigError


def _found() -> str:
    if find_spec("django") is not None:
        for name in ("django.tasks", "django_tasks"):
            if find_spec(name) is not None:
                return name
    raise ConfigError("there is no Tasks framework: install Django 6 or newer, or an older one with django-tasks")


NAME: Final = _found()
tasks: Final[Any] = import_module(NAME)
base: Final[Any] = import_module(f"{NAME}.base")
backends: Final[Any] = import_module(f"{NAME}.backends.base")
exceptions: Final[Any] = import_module(f"{NAME}.exceptions")
signals: Final[Any] = import_module(f"{NAME}.signals")
normalize_json: Final[Any] = import_module(
    "django.utils.json" if NAME == "django.tasks" else f"{NAME}.utils"
).normalize_json
conf: Final[Any] = import_module("django.conf")
db: Final[Any] = import_module("django.db")
timezone: Final[Any] = import_module("django.utils.timezone")
InvalidTask: Final[Any] = getattr(exceptions, "InvalidTask", None) or exceptions.InvalidTaskError
InvalidTaskBackend: Final[Any] = getattr(exceptions, "InvalidTaskBackend", None) or exceptions.InvalidTaskBackendError
