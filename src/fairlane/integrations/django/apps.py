"""Fairlane as one of ``INSTALLED_APPS``: it brings management commands, and no models."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from fairlane.errors import FairlaneError
from fairlane.integrations.django.stores import make_stores

_apps: Final[Any] = import_module("django.apps")  # Any: Django does not say its types
_signals: Final[Any] = import_module("django.db.models.signals")
_management: Final[Any] = import_module("django.core.management.base")


class FairlaneConfig(_apps.AppConfig):  # type: ignore[misc]  # as above
    """The app: ``fairlane.integrations.django`` in ``INSTALLED_APPS``."""

    name = "fairlane.integrations.django"
    label = "fairlane"
    verbose_name = "fairlane"

    def ready(self) -> None:
        """Let ``manage.py migrate``, and tests that make a database, make the store that belongs there too."""
        _signals.pre_migrate.connect(_before_migrating, sender=self)  # told since there is a module models


def _before_migrating(*, using: str, **kwargs: Any) -> None:  # Any: as Django has it
    del kwargs
    try:
        make_stores(using)
    except FairlaneError as error:
        raise _management.CommandError(
            f"no store for jobs can be made in the database {using!r}: {error}. Where a database has tables already, "
            'give jobs a file of their own: "OPTIONS": {"url": "sqlite:///jobs.db"} in TASKS'
        ) from error
