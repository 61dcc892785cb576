"""Django's Tasks on fairlane: a backend for ``TASKS``, and the commands ``fairlane_worker`` and ``fairlane``.

Django has a Tasks framework of its own from 6.0 on; before, the package ``django-tasks`` brings the same. Name the
backend in ``TASKS``, and add this package to ``INSTALLED_APPS`` for the commands; see the page on Django.

    flavour.py     which of the two frameworks there is
    stores.py      which application, and so which store, a backend's options name
    tasks.py       tasks with fairlane's options; priorities as tiers
    results.py     a job as a ``TaskResult``
    running.py     what runs a task in a worker, and sends the signals
    backend.py     the backend
"""

from fairlane.integrations.django.backend import FairlaneBackend
from fairlane.integrations.django.running import FairlaneContext
from fairlane.integrations.django.stores import app_for
from fairlane.integrations.django.tasks import FairlaneTask

__all__ = ["FairlaneBackend", "FairlaneContext", "FairlaneTask", "app_for"]
