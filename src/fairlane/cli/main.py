"""`fairlane`: the names of all commands. A command's module is imported when it is used: `--help` needs none."""

from __future__ import annotations

from typing import Final

import click

from fairlane.cli.groups import CONTEXT, Entry, Root, example


def _here(module: str, attribute: str, short_help: str) -> Entry:
    return Entry(f"fairlane.cli.{module}", attribute, short_help)


COMMANDS: Final = {
    "demo": _here("demo", "demo_command", "See urgent jobs jump the line, in one command."),
    "init": _here("init", "init_command", "Write a starter: a settings file, and a module with one task."),
    "worker": _here("worker", "worker_command", "Run the jobs of an app, in one process or several."),
    "server": _here("server", "server_command", "Serve the HTTP API and the dashboard."),
    "dev": _here("dev", "dev_command", "Run a server and a worker, and start both again when code changes."),
    "enqueue": _here("enqueue", "enqueue_command", "Store a job."),
    "jobs": _here("jobs", "jobs_group", "Look at jobs and steer them."),
    "dead": _here("dead", "dead_group", "Look at dead jobs and bring them back."),
    "operations": _here("operations", "operations_group", "What is being done to many jobs, and how far it is."),
    "tenants": _here("rules", "tenants_group", "Weights, caps, rates and pauses of tenants."),
    "queues": _here("rules", "queues_group", "Pools, caps and pauses of queues."),
    "tasks": _here("rules", "tasks_group", "Pauses of tasks."),
    "tiers": _here("rules", "tiers_group", "How long jobs of a tier may wait, and what is done then."),
    "limits": _here("rules", "limits_group", "Caps, rates and pauses of named limits."),
    "schedules": _here("schedules", "schedules_group", "When jobs come again and again; run now, pause."),
    "stats": _here("stats", "stats_command", "Show how many jobs wait and run, where, and for how long."),
    "monitor": _here("monitor", "monitor_command", "Watch over waits: raise, tell and resolve incidents."),
    "alerts": _here("alerts", "alerts_group", "Where alerts go, and whether they get there."),
    "configure": _here("configure", "configure_command", "Show or change a store's policy and capacities."),
    "health": _here("health", "health_command", "Tell whether waiting jobs are being run; exit code 3 if not."),
    "doctor": _here(
        "doctor", "doctor_command", "Check settings, store and machine; exit code 3 if something is wrong."
    ),
    "migrate": _here("migrate", "migrate_command", "Bring a store to the schema of this version."),
    "backup": _here("backup", "backup_command", "Copy a store to a file while it is in use."),
    "restore": _here("backup", "restore_command", "Make a store what a backup says it was."),
    "simulate": _here("simulate", "simulate_command", "Run a trace through the scheduler on virtual time."),
    "replay": _here("replay", "replay_command", "Run a trace through real workers."),
    "sample-trace": _here("simulate", "sample_trace_command", "Write a made-up trace."),
    "bench": _here("bench", "bench_command", "Measure this machine: enqueue, claim, run, latency."),
    "token": _here("token", "token_group", "Access tokens of the HTTP API and the dashboard."),
    "export-openapi": _here("server", "export_openapi_command", "Print the OpenAPI document of the HTTP API."),
    "version": _here("version", "version_command", "Show the versions of fairlane, Python and SQLite."),
}
"""Every command: where it is and what it does, in the order of `fairlane --help`."""


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        import fairlane

        click.echo(f"fairlane {fairlane.__version__}")
        ctx.exit()


cli: Final = Root(
    "fairlane",
    entries=COMMANDS,
    context_settings=CONTEXT,
    no_args_is_help=True,
    help="A background job queue for many tenants: urgent work jumps the line, and no tenant starves another.\n\n"
    "--url and --json may stand before the command or after it. Exit codes: 0 done, 1 failed, 2 the command line is "
    "wrong, 3 unhealthy.",
    epilog=example("fairlane worker myapp:app -c 8", "fairlane --url sqlite:////var/jobs.db stats --json"),
    params=[
        click.Option(
            ["--version"],
            is_flag=True,
            expose_value=False,
            is_eager=True,
            callback=_print_version,
            help="Show the version and exit.",
        )
    ],
)


def main() -> None:
    """Run the command line of this process."""
    cli.main()
