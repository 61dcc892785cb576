"""Django's own Tasks from 6.0 on, before it the package with the same names."""

import django

if django.VERSION >= (6, 0):
    from django.tasks import TaskResultStatus, default_task_backend, exceptions, signals, task, task_backends
else:
    from django_tasks import TaskResultStatus, default_task_backend, exceptions, signals, task, task_backends

InvalidTask = getattr(exceptions, "InvalidTask", None) or exceptions.InvalidTaskError

__all__ = ["InvalidTask", "TaskResultStatus", "default_task_backend", "exceptions", "signals", "task", "task_backends"]
