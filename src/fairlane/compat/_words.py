"""What options of the other systems have no counterpart, and what to use instead. The guides say the same at length."""

from __future__ import annotations

from typing import Final

_IDS: Final = "ids are fairlane's own: keep the one you get; for one job a key use .fairlane.using(dedup_key=...)"
_HOOKS: Final = (
    "use hooks (app.fairlane.on_success, on_failure, on_dead), or a job after it: .fairlane.using(after=job)"
)
_AFTER: Final = "jobs after jobs are .fairlane.using(after=[...]).enqueue(...), groups app.fairlane.group([...])"
_KEPT: Final = "results are kept in the store as long as the setting keep_completed says"
_JSON: Final = "arguments and results travel as JSON"
_SOFT: Final = "take a ctx: fairlane.Context and ask ctx.should_stop, or set a longest run for the task"
_CONN: Final = "to store a job in your own transaction use .fairlane.using(conn=...)"
_STORE: Final = "jobs and results are both in the store"
_WORKER: Final = "say it to the worker: fairlane worker MODULE:app, or fairlane.toml"

CELERY_TASK: Final = {
    "base": "tasks are functions; share code by calling it",
    "ignore_result": f"{_KEPT}; return None if there is none",
    "soft_time_limit": _SOFT,
    "throws": "errors are logged alike; use dont_autoretry_for for those that are not worth another try",
    "shared": "use @shared_task",
    "pydantic": "annotate the arguments: Pydantic models arrive typed by themselves",
    "typing": "arguments are always checked against the function",
    "compression": _JSON,
    "acks_on_failure_or_timeout": "a job that failed for good is among the dead letters",
    "send_events": "the dashboard, /metrics and app.jobs(...) need no events",
    "store_errors_even_if_ignored": "errors are always kept",
    "backend": _STORE,
    "expires": "say it at the call: apply_async(expires=...)",
}
CELERY_CALL: Final = {
    "task_id": _IDS,
    "link": _AFTER,
    "link_error": _HOOKS,
    "chain": _AFTER,
    "chord": _AFTER,
    "group_id": _AFTER,
    "shadow": "tags=[...] of .fairlane.using name a job for people",
    "headers": "tags=[...] and the arguments go with a job",
    "time_limit": "say it on the task",
    "soft_time_limit": _SOFT,
    "ignore_result": _KEPT,
    "compression": _JSON,
    "routing_key": "say queue=",
    "exchange": "say queue=",
    "retry": "an enqueue that returned is stored; one that raises is not",
    "retry_policy": "an enqueue that returned is stored; one that raises is not",
    "connection": _CONN,
    "producer": _CONN,
    "max_retries": "say it on the task",
    "eta": "use countdown=",
}
CELERY_TASK_GETS: Final = {
    **dict.fromkeys(("s", "si", "signature", "subtask", "map", "starmap", "chunks"), _AFTER),
    "apply": "call the task itself: it runs here and now",
    "update_state": "use self.context.progress(0.5, 'half') and job.fairlane.progress",
    "replace": "enqueue the other one, and return its id",
}
CELERY_RESULT_GETS: Final = {
    **dict.fromkeys(("children", "parent", "collect", "then"), _AFTER),
    "forget": _KEPT,
    "traceback": "use .fairlane.errors: one for each failed run",
    "info": "use .result, or .fairlane.progress",
    "wait": "use .get(timeout)",
    **dict.fromkeys(("args", "kwargs", "name", "queue", "retries", "worker", "date_done"), "use .fairlane: its record"),
}
CELERY_APP: Final = {
    "backend": f"{_STORE}: leave it out",
    "include": "import the modules with tasks where the app is made",
    "task_cls": "tasks are functions",
    "config_source": "settings are in fairlane.toml or FAIRLANE_*",
}
CELERY_APP_GETS: Final = {
    "autodiscover_tasks": "import the modules with tasks where the app is made",
    **dict.fromkeys(("signature", "GroupResult", "ResultSet"), _AFTER),
    **dict.fromkeys(("Task", "register_task"), "use @app.task on a function"),
    **dict.fromkeys(("Worker", "Beat"), "use app.fairlane.worker(), or: fairlane worker MODULE:app.fairlane"),
    "tasks": "use app.fairlane.registry",
    "backend": _STORE,
    "current_task": "use bind=True, or take a ctx: fairlane.Context",
    "on_after_finalize": "set app.conf.beat_schedule, or use app.fairlane.schedule(...)",
    "add_periodic_task": "set app.conf.beat_schedule, or use app.fairlane.schedule(...)",
    "on_after_configure": "set app.conf.beat_schedule, or use app.fairlane.schedule(...)",
    "control": "use app.fairlane (pause, resume, cancel, limits), the dashboard or the command line",
    "worker_main": "use app.fairlane.run_worker(), or: fairlane worker MODULE:app.fairlane",
    "start": "use app.fairlane.run_worker(), or: fairlane worker MODULE:app.fairlane",
    "config_from_object": "set app.conf.beat_schedule and app.conf.timezone; the rest is in fairlane.toml",
}
CELERY_CONF: Final = {
    "broker_url": "give it to Celery(...)",
    "result_backend": _STORE,
    "result_expires": _KEPT,
    "task_serializer": _JSON,
    "result_serializer": _JSON,
    "accept_content": _JSON,
    "task_acks_late": "always so",
    "task_always_eager": "use the pytest plugin's fairlane_app, or Celery('x', broker='sqlite://') and run_worker",
    "task_routes": "give the task its queue=",
    "task_default_queue": "give the task its queue=",
    "worker_concurrency": _WORKER,
    "worker_prefetch_multiplier": "a worker claims only what it can start now",
    "task_time_limit": "say time_limit= on the task",
    "task_soft_time_limit": _SOFT,
    "enable_utc": "instants are UTC; timezone is that of the crontabs",
}
CELERY_NAMES: Final = {
    **dict.fromkeys(("group", "chain", "chord", "chunks", "signature", "subtask", "xmap", "xstarmap"), _AFTER),
    "Ignore": "raise fairlane.Cancel",
    "Reject": "raise fairlane.Dead, or fairlane.Snooze to come back later",
    "MaxRetriesExceededError": "a job that failed for good is dead with the task's own error",
    "SoftTimeLimitExceeded": _SOFT,
    "TimeoutError": "use fairlane.WaitTimeout, which is a TimeoutError",
    "solar": "use app.fairlane.schedule(...) with the times that you compute",
    "current_task": "use bind=True, or take a ctx: fairlane.Context",
    "current_app": "import your own app",
    "signals": _HOOKS,
    "uuid": "ids are fairlane's own",
    "Task": "use @app.task on a function",
}
RQ_ENQUEUE: Final = {
    "job_timeout": "a longest run belongs to the function: Queue(default_timeout=...) or @job(timeout=...)",
    "result_ttl": _KEPT,
    "failure_ttl": "dead jobs are kept as long as the setting keep_dead says",
    "job_id": "ids are fairlane's own: keep job.id; for one job a key use a task of your own with dedup_key=",
    "unique": "for one job a key use a task of your own with dedup_key=",
    "description": "find jobs by task, tenant and tags",
    "meta": "pass it as an argument; a run stores progress and checkpoints through its context",
    "repeat": "use app.every(seconds) or app.schedule(...)",
    "on_success": "use app.on_success, or a job after it",
    "on_failure": "use app.on_failure or app.on_dead, or a job after it",
    "on_stopped": "use app.on_finish",
    "rate_limit": "use a task of your own with limits=[...], and app.limits[...].set(rate=, per=)",
    "pipeline": "use app.enqueue_many, or conn= for your own transaction",
    "webhooks": "use app.on_finish, or the setting alerts",
}
RQ_QUEUE: Final = {
    "is_async": "call the function itself; for tests there is the pytest plugin's fairlane_app",
    "job_class": "jobs are fairlane.Job",
    "serializer": _JSON,
    "death_penalty_class": "a run that is too long is asked to stop, not killed",
}
RQ_WORKER: Final = {
    **dict.fromkeys(("job_class", "queue_class", "serializer", "worker_ttl", "default_worker_ttl"), _WORKER),
    **dict.fromkeys(("job_monitoring_interval", "maintenance_interval"), "leases and lost workers are looked after"),
    **dict.fromkeys(("date_format", "log_format", "log_job_description"), "use the standard logging module"),
    "disable_default_exception_handler": "a job that failed for good is among the dead letters",
    "prepare_for_work": "a worker prepares when it starts",
    "work_horse_killed_handler": "a job whose worker was killed runs again by itself",
    "exception_handlers": "use app.on_failure and app.on_dead",
    "default_result_ttl": _KEPT,
    "max_jobs": "stop the worker, or run it with burst=True",
    "max_idle_time": "run it with burst=True",
    "logging_level": "use the standard logging module",
    "dequeue_strategy": "tenants take turns; a queue's tier says which goes first",
}
RQ_QUEUE_GETS: Final = {
    **dict.fromkeys(("count", "is_empty"), "use queue.fairlane.depth(by='queue')"),
    **dict.fromkeys(("jobs", "job_ids", "get_jobs", "get_job_ids"), "use queue.fairlane.jobs(queue=..., state=...)"),
    **dict.fromkeys(("empty", "delete"), "use queue.fairlane.clear(queue=...)"),
    **dict.fromkeys(("failed_job_registry", "finished_job_registry"), "use queue.fairlane.jobs(state=...)"),
    **dict.fromkeys(("started_job_registry", "scheduled_job_registry"), "use queue.fairlane.jobs(state=...)"),
    **dict.fromkeys(("deferred_job_registry", "canceled_job_registry"), "use queue.fairlane.jobs(state=...)"),
    **dict.fromkeys(("enqueue_many", "prepare_data"), "use tasks of your own, and queue.fairlane.enqueue_many"),
    **dict.fromkeys(("enqueue_call", "create_job", "enqueue_job"), "use enqueue(f, args=..., kwargs=...)"),
    "fetch_job": "use Job.fetch(id, connection=...)",
    "remove": "use job.cancel()",
    "get_job_position": "use queue.fairlane.explain(job.id)",
}
RQ_NAMES: Final = {
    **dict.fromkeys(("SimpleWorker", "SpawnWorker"), "use Worker, or: fairlane worker MODULE:app"),
    "get_current_job": "use a task of your own that takes a ctx: fairlane.Context",
    "cancel_job": "use Job.fetch(id, connection=app).cancel()",
    "requeue_job": "use app.retry(id)",
    "Callback": RQ_ENQUEUE["on_success"],
    "Repeat": RQ_ENQUEUE["repeat"],
    "RateLimit": RQ_ENQUEUE["rate_limit"],
    "Webhook": RQ_ENQUEUE["webhooks"],
    "CronScheduler": "use @app.cron, or app.schedule(...)",
}
RQ_JOB_GETS: Final = {
    "meta": RQ_ENQUEUE["meta"],
    "delete": "jobs that ended are removed when their time is over; use cancel() for one that waits",
    "requeue": "use app.retry(job.id)",
    "save_meta": RQ_ENQUEUE["meta"],
    "description": RQ_ENQUEUE["description"],
    "result": "use return_value(), or job.fairlane.result(timeout=...)",
    **dict.fromkeys(("func_name", "args", "kwargs", "key"), "use job.fairlane: task, args, id"),
    **dict.fromkeys(("dependency", "dependent_ids", "dependency_ids"), "use job.fairlane.behind, and app.explain"),
    "fetch_many": "use app.jobs(...), or fetch each",
    "latest_result": "use return_value(), or job.fairlane.errors",
    "results": "there is one result; job.fairlane.errors has the failed runs",
}
DRAMATIQ_ACTOR: Final = {
    "retry_when": "use throws= for errors that are not worth another try, or raise fairlane.Dead",
    "on_success": "use broker.fairlane.on_success, or a job after it",
    "on_failure": "use broker.fairlane.on_failure, or a job after it",
    "on_retry_exhausted": "use broker.fairlane.on_dead",
    "result_ttl": _KEPT,
    "pipe_ignore": "use actor.fairlane.using(after=[...])",
    "pipe_target": "use actor.fairlane.using(after=[...])",
    "notify_shutdown": "take a ctx: fairlane.Context and ask ctx.should_stop",
    "actor_class": "actors are functions",
}
DRAMATIQ_SEND: Final = {
    **DRAMATIQ_ACTOR,
    **dict.fromkeys(("max_retries", "min_backoff", "max_backoff", "throws", "time_limit"), "say it on the actor"),
    "broker_priority": "say priority= on the actor, or use actor.fairlane.using(tier=...)",
}
DRAMATIQ_BROKER_GETS: Final = {
    "add_middleware": "use hooks: broker.fairlane.on_start, on_success, on_failure, on_dead, on_finish",
    "join": "use broker.fairlane.run_worker(until_idle=True), or job.fairlane.result(timeout=...)",
    **dict.fromkeys(("flush", "flush_all"), "use broker.fairlane.clear(queue=...)"),
    **dict.fromkeys(("get_actor", "get_declared_actors"), "use broker.fairlane.registry"),
    **dict.fromkeys(("declare_queue", "declare_actor"), "queues and actors need no declaration"),
    "get_declared_queues": "use broker.fairlane.depth(by='queue')",
    "enqueue": "use actor.send(...), or broker.fairlane.enqueue(name, {...})",
    "get_results_backend": _STORE,
}
DRAMATIQ_NAMES: Final = {
    **dict.fromkeys(("GenericActor", "Broker", "Encoder", "PickleEncoder"), "actors are functions, arguments JSON"),
    **dict.fromkeys(("get_encoder", "set_encoder", "JSONEncoder"), _JSON),
    "RateLimitExceeded": "use limits=[...] of a task, or raise fairlane.RateLimited",
    "group": "use broker.fairlane.group([actor.fairlane.new(...), ...])",
    "pipeline": "use actor.fairlane.using(after=[...])",
    "Worker": "use broker.fairlane.worker(...), or: fairlane worker MODULE:broker.fairlane",
    "Middleware": "use hooks: broker.fairlane.on_start, on_success, on_failure, on_dead, on_finish",
}
PROCRASTINATE_TASK: Final = {
    "aliases": "a task has one name; register the function twice",
    "task_middleware": "use a decorator below @app.task, or hooks",
}
PROCRASTINATE_APP: Final = {
    "import_paths": "import the modules with tasks where the app is made",
    "worker_defaults": _WORKER,
    "periodic_defaults": "misfire= and grace= of app.fairlane.cron(...)",
}
PROCRASTINATE_WORKER: Final = {
    "fetch_job_polling_interval": "workers are woken",
    "abort_job_polling_interval": "workers are woken",
    "listen_notify": "workers are woken",
    "delete_jobs": "settings keep_completed, keep_cancelled and keep_dead say how long jobs are kept",
    "additional_context": "use a module's own variables",
    "update_heartbeat_interval": "leases are renewed by themselves; lease= of app.fairlane.worker(...)",
    "stalled_worker_timeout": "jobs of lost workers come back by themselves",
    "task_middleware": PROCRASTINATE_TASK["task_middleware"],
    "worker_middleware": "use hooks",
    "install_signal_handlers": "use app.fairlane.run_worker(signals=...)",
}
PROCRASTINATE_NAMES: Final = {
    **dict.fromkeys(
        ("PsycopgConnector", "SyncPsycopgConnector", "BaseConnector"), "give App(connector=...) the URL of the store"
    ),
    **dict.fromkeys(("BaseRetryStrategy", "RetryDecision"), "use RetryStrategy, or natively fairlane.Retry"),
    "Blueprint": "import the modules with tasks where the app is made",
}
PROCRASTINATE_GETS: Final = {
    "batch_defer": "use app.fairlane.enqueue_many(task.fairlane.new(...) for ...)",
    "batch_defer_async": "use app.fairlane.aenqueue_many(task.fairlane.new(...) for ...)",
    "job_manager": "use app.fairlane: get, jobs, cancel, retry, depth",
    "schema_manager": "use: fairlane migrate",
    **dict.fromkeys(("from_path", "with_connector", "replace_connector"), "make an App(connector=...)"),
    **dict.fromkeys(("check_connection", "check_connection_async"), "use: fairlane doctor"),
    **dict.fromkeys(("close", "close_async"), "use app.fairlane.close()"),
    "add_task_alias": "a task has one name; register the function twice",
    "will_configure_task": "leave it out",
    "add_tasks_from": "import the modules with tasks where the app is made",
}
