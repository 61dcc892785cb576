"""A project's own tests: Django puts its database in memory, and the store goes there too."""

from datetime import datetime

from django.db import transaction
from django.test import TestCase, TransactionTestCase, override_settings
from shop import tasks

from fairlane.integrations.django import app_for
from fairlane.testing import drain


class InATransaction(TestCase):
    def test_jobs_come_with_the_commit(self):
        with self.captureOnCommitCallbacks(execute=True):
            result = tasks.add.enqueue(1)
            assert app_for().peek() == []
        drain(app_for())
        result.refresh()
        assert result.return_value == 2


class Committing(TransactionTestCase):
    def test_at_once(self):
        result = tasks.order.enqueue(1)
        assert app_for().url == "sqlite://"
        assert result.enqueued_at.tzinfo is None
        at = datetime(2100, 1, 1)  # noqa: DTZ001  so it is without USE_TZ
        later = tasks.add.using(run_after=at).enqueue(1)
        assert app_for().get(later.id).scheduled_at.isoformat() == "2099-12-31T23:00:00+00:00"

    @override_settings(
        TASKS={
            "default": {
                "BACKEND": "fairlane.integrations.django.FairlaneBackend",
                "QUEUES": [],
                "ENQUEUE_ON_COMMIT": False,
                "OPTIONS": {"url": "sqlite://"},
            }
        }
    )
    def test_not_on_commit(self):
        with transaction.atomic():
            tasks.add.enqueue(1)
            assert len(app_for().peek()) == 1
