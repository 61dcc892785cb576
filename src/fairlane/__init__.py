"""A background job queue for many tenants: urgent work jumps the line, and no tenant starves another.

import fairlane as fl

app = fl.Fairlane("sqlite:///jobs.db")

@app.task(queue="mail", tier=fl.Tier.HIGH)
def send_email(to: str, template: str) -> str: ...

job = send_email.using(tenant="acme").enqueue("a@b.c", template="hi")
with app.worker(concurrency=8):
    print(job.result(timeout=60))
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from fairlane.alerts import Alert, Sink, SinkHealth
    from fairlane.app import Fairlane
    from fairlane.bulk import Operation, Preview, Refused
    from fairlane.bundles import Group, GroupProgress
    from fairlane.context import Context
    from fairlane.dead import DeadGroup
    from fairlane.domain.access import TokenRecord
    from fairlane.domain.explaining import Blocker, Explanation, Figure
    from fairlane.domain.inversions import AgePair, Inversion, Inversions
    from fairlane.domain.jobs import ErrorRecord, NewJob
    from fairlane.domain.policy import Capacities, Policy, Rate
    from fairlane.domain.retries import Retry
    from fairlane.domain.sightings import WaitRow
    from fairlane.domain.states import State
    from fairlane.domain.tiers import Tier
    from fairlane.domain.waits import Cause, Objective
    from fairlane.errors import (
        CapacityError,
        ConfigError,
        DedupConflict,
        ExpressFull,
        FairlaneError,
        Forbidden,
        GroupFailed,
        GroupNotFound,
        IllegalMove,
        InvalidJob,
        InvalidValue,
        JobCancelled,
        JobFailed,
        JobNotFound,
        KeyReused,
        LeaseLost,
        OperationNotFound,
        Outdated,
        QueueFull,
        ScheduleNotFound,
        StoreBusy,
        StoreError,
        StoreFull,
        StoreVersion,
        TokenNotFound,
        UnknownTask,
        WaitTimeout,
    )
    from fairlane.handles import Job, Progress
    from fairlane.hooks import Event
    from fairlane.insight import Waits
    from fairlane.options import EnqueueOptions, JobOptions
    from fairlane.outcomes import (
        Cancel,
        Dead,
        NotReady,
        Outcome,
        Pending,
        RateLimited,
        Rejected,
        Snooze,
        StopRequested,
        Verified,
    )
    from fairlane.pulled import PulledClaim
    from fairlane.schedules import Schedule, ScheduleInfo
    from fairlane.store import Backup, Boosted, Counted, Restored
    from fairlane.tasks import Task
    from fairlane.tokens import NewToken
    from fairlane.views import Depth, DepthGroup, JobFilters, JobPage
    from fairlane.watch import Incident, Watched
    from fairlane.worker import Worker

    __version__: str

__all__ = [
    "AgePair",
    "Alert",
    "Backup",
    "Blocker",
    "Boosted",
    "Cancel",
    "Capacities",
    "CapacityError",
    "Cause",
    "ConfigError",
    "Context",
    "Counted",
    "Dead",
    "DeadGroup",
    "DedupConflict",
    "Depth",
    "DepthGroup",
    "EnqueueOptions",
    "ErrorRecord",
    "Event",
    "Explanation",
    "ExpressFull",
    "Fairlane",
    "FairlaneError",
    "Figure",
    "Forbidden",
    "Group",
    "GroupFailed",
    "GroupNotFound",
    "GroupProgress",
    "IllegalMove",
    "Incident",
    "InvalidJob",
    "InvalidValue",
    "Inversion",
    "Inversions",
    "Job",
    "JobCancelled",
    "JobFailed",
    "JobFilters",
    "JobNotFound",
    "JobOptions",
    "JobPage",
    "KeyReused",
    "LeaseLost",
    "NewJob",
    "NewToken",
    "NotReady",
    "Objective",
    "Operation",
    "OperationNotFound",
    "Outcome",
    "Outdated",
    "Pending",
    "Policy",
    "Preview",
    "Progress",
    "PulledClaim",
    "QueueFull",
    "Rate",
    "RateLimited",
    "Refused",
    "Rejected",
    "Restored",
    "Retry",
    "Schedule",
    "ScheduleInfo",
    "ScheduleNotFound",
    "Sink",
    "SinkHealth",
    "Snooze",
    "State",
    "StopRequested",
    "StoreBusy",
    "StoreError",
    "StoreFull",
    "StoreVersion",
    "Task",
    "Tier",
    "TokenNotFound",
    "TokenRecord",
    "UnknownTask",
    "Verified",
    "WaitRow",
    "WaitTimeout",
    "Waits",
    "Watched",
    "Worker",
    "__version__",
]

# Loaded when first asked for: all of it takes 100 ms, and `fairlane --help` shall answer in 150 (python -X importtime).
_HOMES: Final = {
    name: module
    for module, names in {
        "fairlane.alerts": "Alert Sink SinkHealth",
        "fairlane.app": "Fairlane",
        "fairlane.bulk": "Operation Preview Refused",
        "fairlane.bundles": "Group GroupProgress",
        "fairlane.context": "Context",
        "fairlane.dead": "DeadGroup",
        "fairlane.domain.access": "TokenRecord",
        "fairlane.domain.explaining": "Blocker Explanation Figure",
        "fairlane.domain.inversions": "AgePair Inversion Inversions",
        "fairlane.domain.jobs": "ErrorRecord NewJob",
        "fairlane.domain.policy": "Capacities Policy Rate",
        "fairlane.domain.retries": "Retry",
        "fairlane.domain.sightings": "WaitRow",
        "fairlane.domain.states": "State",
        "fairlane.domain.tiers": "Tier",
        "fairlane.domain.waits": "Cause Objective",
        "fairlane.errors": "CapacityError ConfigError DedupConflict ExpressFull FairlaneError Forbidden GroupFailed "
        "GroupNotFound IllegalMove InvalidJob InvalidValue JobCancelled JobFailed JobNotFound KeyReused LeaseLost "
        "OperationNotFound Outdated QueueFull ScheduleNotFound StoreBusy StoreError StoreFull StoreVersion "
        "TokenNotFound UnknownTask WaitTimeout",
        "fairlane.handles": "Job Progress",
        "fairlane.hooks": "Event",
        "fairlane.insight": "Waits",
        "fairlane.options": "EnqueueOptions JobOptions",
        "fairlane.outcomes": "Cancel Dead NotReady Outcome Pending RateLimited Rejected Snooze StopRequested Verified",
        "fairlane.pulled": "PulledClaim",
        "fairlane.schedules": "Schedule ScheduleInfo",
        "fairlane.store": "Backup Boosted Counted Restored",
        "fairlane.tasks": "Task",
        "fairlane.tokens": "NewToken",
        "fairlane.views": "Depth DepthGroup JobFilters JobPage",
        "fairlane.watch": "Incident Watched",
        "fairlane.worker": "Worker",
    }.items()
    for name in names.split()
}


def __getattr__(name: str) -> Any:  # Any: each public name has its own type, which checkers see above
    """Return a public name of the package, loading the module where it is defined."""
    if name == "__version__":
        from importlib.metadata import version

        value: object = version("fairlane")
    elif name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, loaded or not."""
    return sorted({*globals(), *__all__})
