"""`fairlane token`: who may use the HTTP API and the dashboard."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import click

from fairlane.cli.groups import Shared, example, store_options
from fairlane.cli.output import note, print_facts, print_json, print_table
from fairlane.cli.shapes import instant
from fairlane.cli.stores import Keeper, file_of, keeping, who
from fairlane.domain.access import ROLES, Role, TokenRecord
from fairlane.instants import aware

COLUMNS: Final = ("id", "name", "role", "tenant", "created", "by", "expires", "last used", "state")

token_group: Final = Shared(
    "token",
    help="Access tokens of the HTTP API and the dashboard.",
    epilog=example("fairlane token create deploys --role operator"),
)


def shape(token: TokenRecord) -> dict[str, object]:
    """Return a token as JSON has it, without its digest."""
    return {
        "id": token.id,
        "name": token.name,
        "role": token.role,
        "tenant": token.tenant,
        "created_at": instant(aware(token.created_at_ms)),
        "created_by": token.created_by,
        "expires_at": instant(aware(token.expires_at_ms)),
        "used_at": instant(aware(token.used_at_ms)),
        "revoked_at": instant(aware(token.revoked_at_ms)),
    }


@contextmanager
def _making(url: str | None) -> Generator[Keeper]:
    """Open a store, making it when it is not there: the first token may come before the first job."""
    app = Keeper(url)
    file_of(app)
    with app:
        yield app


@token_group.command(
    "create", epilog=example("fairlane token create support --tenant acme", "fairlane token create ops --role admin")
)
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice(ROLES),
    default="viewer",
    show_default=True,
    help="viewer looks; operator steers and runs jobs too; admin changes what is set too.",
)
@click.option("--tenant", help="The only tenant whose jobs it sees and touches. [default: all]")
@click.option(
    "--expires-in", type=click.FloatRange(0, min_open=True), metavar="SECONDS", help="When it ends. [default: never]"
)
@store_options
def create_command(
    *, url: str | None, as_json: bool, name: str, role: Role, tenant: str | None, expires_in: float | None
) -> None:
    """Make an access token and print it, this once: the store keeps only a digest of it."""
    with _making(url) as app:
        made = app.tokens.create(name, role=role, tenant=tenant, expires_in=expires_in, by=who())
        if as_json:
            print_json({"token": made.token} | shape(made.record))
            return
        click.echo(made.token)
        note("Keep it: it cannot be shown again.")


@token_group.command("list", epilog=example("fairlane token list"))
@store_options
def list_command(*, url: str | None, as_json: bool) -> None:
    """List the access tokens, also those that were revoked or are over."""
    with keeping(url) as app:
        tokens, now_ms = app.tokens.list(), app.clock.now_ms()
        if as_json:
            print_json({"tokens": [shape(token) for token in tokens]})
            return
        rows = [
            (
                token.id, token.name, token.role, token.tenant or "all", instant(aware(token.created_at_ms)),
                token.created_by, instant(aware(token.expires_at_ms)) or "never",
                instant(aware(token.used_at_ms)) or "never", _state(token, now_ms),
            )
            for token in tokens
        ]  # fmt: skip
        print_table(COLUMNS, rows, nothing="there is no access token")


def _state(token: TokenRecord, now_ms: int) -> str:
    if token.valid(now_ms):
        return "in force"
    return "over" if token.revoked_at_ms is None else "revoked"


@token_group.command("revoke", epilog=example("fairlane token revoke k3m9x7p2qa"))
@click.argument("token_id", metavar="ID")
@store_options
def revoke_command(*, url: str | None, as_json: bool, token_id: str) -> None:
    """Revoke an access token, by its id or by itself, at once and everywhere; revoking it again changes nothing."""
    with keeping(url) as app:
        token = app.tokens.revoke(token_id, by=who())
        if as_json:
            print_json(shape(token))
        else:
            print_facts([("id", token.id), ("name", token.name), ("revoked", instant(aware(token.revoked_at_ms)))])
