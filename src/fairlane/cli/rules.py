"""`fairlane tenants|queues|tasks|tiers|limits`: what is set for each, and changing it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, cast, get_args

import click

from fairlane.app import Fairlane
from fairlane.cli.groups import Shared, example, store_options
from fairlane.cli.output import print_facts, print_json, print_table, span
from fairlane.cli.pauses import end_of, pause_options
from fairlane.cli.stores import keeping, who
from fairlane.domain.policy import LimitRule, QueueRule, TaskRule, TenantRule
from fairlane.domain.tiers import TIERS, Tier
from fairlane.domain.waits import OnBreach
from fairlane.rules import Handle, Handles, Limit, Queue, TaskHandle, Tenant, describe
from fairlane.views import By

F = TypeVar("F", bound=Callable[..., Any])  # Any: a command's own arguments
AnyHandle = Queue | TaskHandle | Tenant | Limit

KINDS: Final[Mapping[str, tuple[str, Any]]] = {  # Any: one of four types of rules
    "tenant": ("tenants", TenantRule()),
    "queue": ("queues", QueueRule()),
    "task": ("tasks", TaskRule()),
    "limit": ("limits", LimitRule()),
}
LIVE: Final = ("scheduled", "available", "running")


class OrNone(click.ParamType[Any]):
    """A number, or ``none`` for no limit."""

    def __init__(self, kind: type[int] | type[float]) -> None:
        self.name = "number|none"
        self._kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number, or the word."""
        if value == "none":
            return value
        try:
            return self._kind(value)
        except ValueError:
            what = "a whole number" if self._kind is int else "a number"
            self.fail(f"{value!r} is neither {what} nor none", param, ctx)


COUNT: Final = OrNone(int)


def _handles(app: Fairlane, kind: str) -> Handles[Any]:  # Any: each kind has its own rule
    return cast("Handles[Any]", getattr(app, KINDS[kind][0]))


# ---------------------------------------------------------------- what all four can do


def _list(kind: str, url: str | None, as_json: bool) -> None:
    """Show what is set, and, but for limits, how many live jobs there are."""
    plural, default = KINDS[kind]
    with keeping(url) as app:
        shown: dict[str, dict[str, Any]] = _handles(app, kind).shown()
        if kind != "limit":
            for row in app.depth(cast("By", kind)):
                told = shown.setdefault(str(getattr(row, kind)), describe(default))
                told.update({state: getattr(row, state) for state in LIVE})
            for told in shown.values():
                for state in LIVE:
                    told.setdefault(state, 0)
        if as_json:
            print_json({plural: {name: shown[name] for name in sorted(shown)}})
            return
        columns = [name for name in describe(default) if name != "pause"]
        columns += [] if kind == "limit" else LIVE
        rows = [[name, *(told[column] for column in columns), _paused(told["pause"])] for name, told in shown.items()]
        heads = [kind, *(("" if name in {"pool", "limits"} else ">") + name for name in columns), "paused"]
        print_table(heads, sorted(rows, key=str), nothing=f"nothing is set for {plural}, and none has live jobs")


def _paused(pause: Mapping[str, Any] | None) -> str:
    if pause is None:
        return ""
    words = ("yes", f"by {pause['by']}" if pause["by"] else "", f"until {pause['until']}" if pause["until"] else "")
    told = " ".join(word for word in words if word)
    return f"{told}: {pause['reason']}" if pause["reason"] else told


def _told(handle: Handle[Any], as_json: bool) -> None:
    """Show what is set now."""
    rule = describe(handle.get())
    if as_json:
        print_json({"kind": handle.kind, "name": handle.name} | rule)
    else:
        print_facts([(handle.kind, handle.name), *((name, value) for name, value in rule.items() if name != "pause")])
        print_facts([("paused", _paused(rule["pause"]) or "no")])


def _changed(kind: str, name: str, url: str | None, as_json: bool, **options: Any) -> None:
    """Set the options that were given."""
    named = {key: None if value == "none" else value for key, value in options.items() if value is not None}
    if not named:
        words = ", ".join(f"--{key.replace('_', '-')}" for key in options)
        raise click.UsageError(f"nothing to set: give at least one of {words}")
    with keeping(url) as app:
        handle = _handles(app, kind)[name]
        handle.set(**named, by=who())
        _told(handle, as_json)


def _group(kind: str, help_text: str, first: str) -> Shared:
    """Return a group with the commands that all four have."""
    plural = KINDS[kind][0]
    group = Shared(plural, help=help_text, epilog=example(first))

    @group.command("list", epilog=example(f"fairlane {plural} list"))
    @store_options
    def list_command(*, url: str | None, as_json: bool) -> None:
        _list(kind, url, as_json)

    @group.command("pause", epilog=example(f"fairlane {plural} pause NAME --reason 'provider is down' --for 600"))
    @click.argument("name")
    @pause_options
    @store_options
    def pause_command(*, name: str, url: str | None, as_json: bool, reason: str, seconds: float | None) -> None:
        with keeping(url) as app:
            handle = _handles(app, kind)[name]
            handle.pause(reason, by=who(), until=end_of(app, seconds))
            _told(handle, as_json)

    @group.command("resume", epilog=example(f"fairlane {plural} resume NAME"))
    @click.argument("name")
    @store_options
    def resume_command(*, name: str, url: str | None, as_json: bool) -> None:
        with keeping(url) as app:
            handle = _handles(app, kind)[name]
            handle.resume(by=who())
            _told(handle, as_json)

    also = "" if kind == "limit" else f", and those with live jobs, with how many there are; equal to `stats` by {kind}"
    list_command.help = f"List the {plural} for which something is set{also}."
    pause_command.help = f"Start nothing of a {kind} until it is resumed; what runs goes on."
    resume_command.help = f"End the pause of a {kind}; nothing happens when there is none."
    return group


def _rate_options(command: F) -> F:
    command = click.option("--burst", type=COUNT, help="Starts at once; none: a tenth of the rate.")(command)
    command = click.option("--per", type=float, metavar="SECONDS", help="The period of --rate. [default: 1]")(command)
    return click.option("--rate", type=COUNT, help="Starts in a period; none: no limit.")(command)


# ---------------------------------------------------------------- tenants

tenants_group: Final = _group(
    "tenant", "Weights, caps, rates and pauses of tenants.", "fairlane tenants set acme --weight 2 --max-running 10"
)


@tenants_group.command("set", epilog=example("fairlane tenants set acme --weight 2 --max-running 10"))
@click.argument("name")
@click.option("--weight", type=float, help="Share of worker time next to others.")
@click.option("--max-running", type=COUNT, help="Most of its jobs that run; none: no limit.")
@click.option("--max-waiting", type=COUNT, help="Waiting jobs beyond which an enqueue is refused; none: no limit.")
@_rate_options
@store_options
def set_tenant(*, name: str, url: str | None, as_json: bool, **options: Any) -> None:
    """Change what is named and leave the rest; it acts on the backlog at once."""
    _changed("tenant", name, url, as_json, **options)


# ---------------------------------------------------------------- queues

queues_group: Final = _group("queue", "Pools, caps and pauses of queues.", "fairlane queues set mail --max-running 5")


@queues_group.command("set", epilog=example("fairlane queues set mail --max-running 5 --tenant-max-running none"))
@click.argument("name")
@click.option("--pool", help="The pool whose workers serve it.")
@click.option("--max-running", type=COUNT, help="Most of its jobs that run, over all workers; none: no limit.")
@click.option("--tenant-max-running", type=COUNT, help="Most of its jobs that run for one tenant; none: no limit.")
@click.option("--max-waiting", type=COUNT, help="Waiting jobs beyond which an enqueue is refused; none: no limit.")
@store_options
def set_queue(*, name: str, url: str | None, as_json: bool, **options: Any) -> None:
    """Change what is named and leave the rest; it acts on the backlog at once."""
    _changed("queue", name, url, as_json, **options)


# ---------------------------------------------------------------- tasks and limits

tasks_group: Final = _group(
    "task", "Pauses of tasks. What else holds for a task is said in its code.", "fairlane tasks pause mail.send"
)
limits_group: Final = _group(
    "limit",
    "Caps, rates and pauses of named limits.",
    "fairlane limits set openai --max-running 20 --rate 100 --per 60",
)


@limits_group.command("set", epilog=example("fairlane limits set openai --max-running 20 --rate 100 --per 60"))
@click.argument("name")
@click.option("--max-running", type=COUNT, help="Most jobs that count against it and run; none: no limit.")
@_rate_options
@store_options
def set_limit(*, name: str, url: str | None, as_json: bool, **options: Any) -> None:
    """Change what is named and leave the rest; a key with {tenant} filled in is a limit of its own."""
    _changed("limit", name, url, as_json, **options)


# ---------------------------------------------------------------- tiers

TIER: Final = click.Choice([tier.label for tier in TIERS])

tiers_group: Final = Shared(
    "tiers",
    help="How long jobs of a tier may wait, and what is done when they wait longer.",
    epilog=example("fairlane tiers set high --objective 120 --on-breach boost"),
)


def _scope_options(command: F) -> F:
    command = click.option("--tenant", help="Only for jobs of this tenant; goes before the queue's own.")(command)
    return click.option("--queue", help="Only for jobs of this queue.")(command)


def _tier_told(app: Fairlane, name: str, as_json: bool) -> None:
    """Show what holds for a tier now."""
    told = app.tiers.shown()[name]
    if as_json:
        print_json({"kind": "tier", "name": name} | told)
    else:
        _tiers_told({name: told})


def _tiers_told(shown: Mapping[str, Mapping[str, Any]]) -> None:
    """Print what holds for tiers, and below each where it is set otherwise."""
    rows = [
        [name, one.get("queue") or "", one.get("tenant") or "", span(one["objective"]) or "none", one["on_breach"]]
        for name, told in shown.items()
        for one in (told, *told["overrides"])
    ]
    print_table(("tier", "queue", "tenant", ">objective", "on breach"), rows)


@tiers_group.command("list", epilog=example("fairlane tiers list"))
@store_options
def list_tiers(*, url: str | None, as_json: bool) -> None:
    """List the objectives of all tiers, with those of single queues and tenants; what is not set is the default."""
    with keeping(url) as app:
        shown = app.tiers.shown()
        if as_json:
            print_json({"tiers": shown})
        else:
            _tiers_told(shown)


@tiers_group.command("set", epilog=example("fairlane tiers set high --objective 60 --on-breach boost --queue mail"))
@click.argument("tier", type=TIER)
@click.option("--objective", type=OrNone(float), help="Longest wait in seconds; none: there is none.")
@click.option("--on-breach", type=click.Choice(get_args(OnBreach)), help="What is done then, beside the alert.")
@_scope_options
@store_options
def set_tier(
    *, tier: str, queue: str | None, tenant: str | None, url: str | None, as_json: bool, **options: Any
) -> None:
    """Change what is named; what is not holds as for the wider scope. It acts on jobs that wait already."""
    named: dict[str, Any] = {
        key: None if value == "none" else value for key, value in options.items() if value is not None
    }
    if not named:
        raise click.UsageError("nothing to set: give at least one of --objective, --on-breach")
    with keeping(url) as app:
        app.tiers[Tier.of(tier)].set(**named, queue=queue, tenant=tenant, by=who())
        _tier_told(app, tier, as_json)


@tiers_group.command("unset", epilog=example("fairlane tiers unset high --tenant acme"))
@click.argument("tier", type=TIER)
@_scope_options
@store_options
def unset_tier(*, tier: str, queue: str | None, tenant: str | None, url: str | None, as_json: bool) -> None:
    """Forget what is set for a tier, or for a queue or tenant in it: the wider scope or the default holds again."""
    with keeping(url) as app:
        app.tiers[Tier.of(tier)].unset(queue=queue, tenant=tenant, by=who())
        _tier_told(app, tier, as_json)
