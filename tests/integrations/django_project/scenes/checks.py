"""What `manage.py check` says of wrong options."""

import pytest
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.test import override_settings

from fairlane.errors import ConfigError
from fairlane.integrations.django import app_for

WRONG = [
    ({"databse": "default"}, "there is no option 'databse'; did you mean 'database'\\?"),
    ({"colour": 1}, "there is no option 'colour'; there are app, database, url"),
    ({"url": "sqlite://", "database": "default"}, "'database' and 'url' each name a store"),
    ({"database": "other"}, "there is no database 'other'"),
    ({"url": "mysql://x"}, "is no store"),
    ({"app": "shop.tasks.ran"}, "is no fairlane.Fairlane"),
    ({"app": "nowhere.app"}, "there is no application at 'nowhere.app'"),
    ({"app": "nowhere"}, "there is no application at 'nowhere'"),
]


def tasks(backend="fairlane.integrations.django.FairlaneBackend", **more):
    return override_settings(TASKS={"default": {"BACKEND": backend, "QUEUES": [], **more}})


def play(immediate):
    call_command("check")
    for options, says in WRONG:
        with tasks(OPTIONS=options), pytest.raises(SystemCheckError, match=says) as refused:
            call_command("check")
        assert "fairlane.E001" in str(refused.value)
    with tasks(OPTIONS={"app": "shop.own.app"}):
        call_command("check")
        assert app_for().url == "sqlite://"
        assert app_for().registry.get("ours") is not None
    with tasks(immediate), pytest.raises(ConfigError, match="is ImmediateBackend, not fairlane's"):
        app_for()
