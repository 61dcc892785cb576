"""`fairlane configure`: the policy and capacities of a store, for everybody who uses it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import click

from fairlane.cli.groups import example, store_options
from fairlane.cli.output import print_facts, print_json
from fairlane.cli.stores import keeping, who
from fairlane.domain.policy import SECOND_US, Capacities, Charge, Kind, Policy
from fairlane.errors import InvalidValue

FAIR_ONLY = ("risen_every", "urgent_share", "max_lag")


def shape(policy: Policy, capacities: Capacities) -> dict[str, Any]:  # Any: ready for JSON
    """Return both in the words and units of the options."""
    return {
        "policy": policy.kind,
        "ageing_step": policy.ageing_step_ms / 1000,
        "ageing_ceiling": policy.ageing_ceiling.label,
        "charge": policy.charge,
        "risen_every": policy.risen_every,
        "urgent_share": policy.urgent_share,
        "max_lag": policy.max_lag_us / SECOND_US,
        "express_capacity": capacities.express_capacity,
        "express_per_tenant": capacities.express_per_tenant,
    }


def changed(held: Policy, kind: str | None, **options: Any) -> Policy | None:
    """Return a policy with what was named changed, or None when nothing was.

    Raises:
        InvalidValue: A value is out of range, or says nothing under the policy that it is meant for.
    """
    named = {name: value for name, value in options.items() if value is not None}
    if kind is None and not named:
        return None
    policy = held if kind is None else Policy.named(kind)
    if policy.kind != "fair" and (idle := [name for name in FAIR_ONLY if name in named]):
        raise InvalidValue(f"{idle[0]} says nothing under policy {policy.kind}; it is for fair")
    if policy.kind == "fifo" and named:
        raise InvalidValue(f"{min(named)} says nothing under policy fifo, which knows neither tiers nor tenants")
    if "ageing_step" in named:
        named["ageing_step_ms"] = Policy.fair(ageing_step=named.pop("ageing_step")).ageing_step_ms
    if "max_lag" in named:
        named["max_lag_us"] = Policy.fair(max_lag=named.pop("max_lag")).max_lag_us
    return replace(policy, **named)


@click.command("configure", epilog=example("fairlane configure --policy fair --ageing-step 30", "fairlane configure"))
@click.option("--policy", "kind", type=click.Choice(get_args(Kind)), help="Who runs next; its options start anew.")
@click.option("--ageing-step", type=float, metavar="SECONDS", help="Wait that raises a job by one tier.")
@click.option("--charge", type=click.Choice(get_args(Charge)), help="What a start costs its tenant.")
@click.option("--risen-every", type=int, help="Every how many starts one belongs to jobs that waited long; 0: none.")
@click.option("--urgent-share", type=float, help="Share of the slots that one tenant's urgent jobs may fill first.")
@click.option("--max-lag", type=float, metavar="SECONDS", help="How far a tenant may fall behind and still catch up.")
@click.option("--express-capacity", type=int, help="Express jobs that may wait.")
@click.option("--express-per-tenant", type=int, help="Express jobs of one named tenant that may wait.")
@store_options
def configure_command(
    *,
    url: str | None,
    as_json: bool,
    kind: str | None,
    express_capacity: int | None,
    express_per_tenant: int | None,
    **options: Any,
) -> None:
    """Change a store's policy or capacities for everybody, and show what holds; without options only show it.

    Processes that use the store follow at once. One that is started with other values in its own settings is refused:
    change those too, or leave them out.
    """
    with keeping(url) as app:
        held, capacities = app.owner.read(lambda store, _: store.settings())
        policy = changed(held, kind, **options)
        if policy is not None or express_capacity is not None or express_per_tenant is not None:
            held, capacities = app.configure(
                policy=policy, express_capacity=express_capacity, express_per_tenant=express_per_tenant, by=who()
            )
        told = shape(held, capacities)
        if as_json:
            print_json(told)
        else:
            print_facts(told.items())
