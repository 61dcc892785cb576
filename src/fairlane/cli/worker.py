"""`fairlane worker`: run the jobs of an app, in this process or in several that a supervisor looks after."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from fairlane.app import Fairlane
from fairlane.cli.groups import example, log_level_option, store_options
from fairlane.cli.output import print_json
from fairlane.cli.stores import file_of, load_app
from fairlane.domain.policy import DEFAULT_POOL
from fairlane.domain.tiers import TIERS
from fairlane.settings import Settings
from fairlane.worker import JobFilter, Worker
from fairlane.worker.options import Options

if TYPE_CHECKING:
    from fairlane.cli.probes import Probes

LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(process)d %(name)s [%(job_id)s %(job_trace)s] %(message)s"


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker process is told; it travels as JSON."""

    app: str
    concurrency: int
    lease: float
    grace: float
    url: str | None = None
    queues: dict[str, int] | None = None
    pool: str | None = None
    reserve: dict[str, int] | None = None
    name: str | None = None
    burst: bool = False
    log_level: str = "info"


class Slots(click.ParamType[tuple[str, int | None]]):
    """``name`` or ``name=slots``."""

    def __init__(self, name: str, *, is_tier: bool = False) -> None:
        self.name = name
        self._is_tier = is_tier

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int | None]:
        """Return the name and the slots."""
        name, equals, figure = str(value).rpartition("=")
        if not equals:
            name, figure = figure, ""
        slots = int(figure) if figure.isascii() and figure.isdecimal() else None
        if not name or (equals and not slots) or (self._is_tier and slots is None):
            self.fail(f"{value!r} is not {self.name}, with a whole number of at least 1", param, ctx)
        if self._is_tier and name.lower() not in {tier.label for tier in TIERS}:
            self.fail(f"{name!r} is not one of {', '.join(tier.label for tier in TIERS)}", param, ctx)
        return name, slots


def start_logging(level: str) -> None:
    """Send this process's log to stderr, with the job's id in each line."""
    handler = logging.StreamHandler()
    handler.addFilter(JobFilter())
    handler.setFormatter(logging.Formatter(LOG_FORMAT))
    logging.basicConfig(level=level.upper(), handlers=[handler])


def make_worker(plan: Plan) -> tuple[Fairlane, Worker]:
    """Import the app and make the worker that a plan asks for; the store is opened, and made if need be.

    Raises:
        ConfigError: The app or an option is wrong.
        StoreError: The store cannot be opened.
    """
    app = load_app(plan.app, plan.url)
    file_of(app)
    worker = app.worker(
        concurrency=plan.concurrency,
        queues=plan.queues,
        pool=plan.pool,
        reserve=plan.reserve,
        lease=plan.lease,
        grace=plan.grace,
        name=plan.name,
    )
    return app, worker


def finish(app: Fairlane, worker: Worker) -> None:
    """Close the app; when handlers ignored every request to stop, end the process at once: they could hold it up."""
    app.close()
    if worker.abandoned:
        logging.getLogger("fairlane.cli").error("handlers_abandoned count=%d", worker.abandoned)
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)  # their jobs have been given back


@click.command(
    "worker",
    epilog=example(
        "fairlane worker myproject.jobs:app -c 8",
        "fairlane worker myproject.jobs:app -c 8 -p 2 -q mail=5 -q embed --reserve critical=1",
        "fairlane worker myproject.jobs:app --burst",
    ),
)
@click.argument("app", metavar="MODULE:APP")
@click.option("-c", "--concurrency", type=click.IntRange(1, 10_000), help="Jobs a process runs at once. [default: 8]")
@click.option(
    "-p", "--processes", type=click.IntRange(1, 256), default=1, show_default=True, help="How many processes."
)
@click.option(
    "-q",
    "--queue",
    "queues",
    multiple=True,
    type=Slots("NAME[=SLOTS]"),
    help="A queue to serve, with its slots in each process; may be given again. [default: all of the pool]",
)
@click.option("--pool", help="The pool. [default: that of the queues, or default]")
@click.option(
    "--reserve",
    multiple=True,
    type=Slots("TIER=SLOTS", is_tier=True),
    help="Slots of each process kept for this tier or better; may be given again.",
)
@click.option("--burst", is_flag=True, help="End when no job is left that could start now.")
@click.option(
    "--grace", type=click.FloatRange(0, 86_400), metavar="SECONDS", help="Wait for running jobs. [default: 25]"
)
@click.option("--lease", type=click.FloatRange(0.1, 86_400), metavar="SECONDS", help="Length of a lease. [default: 30]")
@click.option("--name", help="How worker ids begin, for people.")
@click.option(
    "--probe-port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Answer /healthz and /readyz there, for an orchestrator; 0: any that is free. Not with several processes.",
)
@log_level_option
@store_options
def worker_command(
    *,
    app: str,
    processes: int,
    probe_port: int | None,
    queues: tuple[tuple[str, int | None], ...],
    reserve: tuple[tuple[str, int | None], ...],
    url: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Run the jobs of the app at MODULE:APP, until SIGTERM or Ctrl-C.

    The first signal stops claiming and waits for running jobs up to the grace; a second one gives them back at once.
    With several processes a supervisor passes signals on and starts a process again that was killed.
    """
    if probe_port is not None and processes > 1:
        raise click.UsageError("--probe-port asks one process; let the orchestrator start several of one process each")
    settings = Settings.load({name: options.pop(name) for name in ("concurrency", "lease", "grace")})
    concurrency: int = settings["concurrency"]
    plan = Plan(
        app=app,
        url=url,
        concurrency=concurrency,
        lease=settings["lease"],
        grace=settings["grace"],
        queues={name: concurrency if slots is None else slots for name, slots in queues} or None,
        reserve={name: slots or 0 for name, slots in reserve} or None,
        **options,
    )
    _check(plan)
    start_logging(plan.log_level)
    if processes == 1:
        _run_here(plan, probe_port)
        restarts = 0
    else:
        from fairlane.cli.supervisor import Supervisor

        supervisor = Supervisor(plan, processes)
        supervisor.run()
        restarts = supervisor.restarts
    if as_json:
        print_json({"processes": processes, "restarts": restarts})


def _run_here(plan: Plan, probe_port: int | None) -> None:
    app, worker = make_worker(plan)
    try:
        with nullcontext() if probe_port is None else _probes(worker, probe_port):
            worker.run(until_idle=plan.burst)
    finally:
        finish(app, worker)


def _probes(worker: Worker, port: int) -> Probes:
    from fairlane.cli.probes import Probes

    probes = Probes(worker, port)
    logging.getLogger("fairlane.cli").info("probes_listening port=%d", probes.port)
    return probes


def _check(plan: Plan) -> None:
    """Refuse what is wrong without looking at the app or the store.

    Raises:
        ConfigError: Options do not make sense together.
    """
    Options.checked(
        concurrency=plan.concurrency,
        queues=plan.queues,
        pool=plan.pool,
        reserve=plan.reserve,
        lease=plan.lease,
        grace=plan.grace,
        name=plan.name,
        pool_of=lambda _: plan.pool or DEFAULT_POOL,  # which pool a queue is in, the store knows
    )
