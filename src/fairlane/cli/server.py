"""`fairlane server`: the HTTP API and the dashboard. `fairlane export-openapi`: its description."""

from __future__ import annotations

import logging
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, cast

import click

from fairlane.app import Fairlane
from fairlane.cli.groups import example, log_level_option, url_option
from fairlane.cli.output import print_json
from fairlane.cli.stores import Keeper, file_of, load_app
from fairlane.cli.worker import start_logging
from fairlane.errors import ConfigError

PORT: Final = 8440
NEEDED: Final = "the server needs more libraries: pip install 'fairlane[server]'"


def need_server() -> None:
    """See that the extra is installed.

    Raises:
        ConfigError: It is not.
    """
    for name in ("fastapi", "jinja2", "prometheus_client", "uvicorn"):
        if find_spec(name) is None:
            raise ConfigError(f"{NEEDED} (there is no {name})")


@click.command(
    "server",
    epilog=example(
        "fairlane server", "fairlane server myapp:app --host 0.0.0.0 --allow-host jobs.example.com",
        "fairlane server --root-path /tools/fairlane --read-only",
    ),
)  # fmt: skip
@click.argument("where", metavar="[MODULE:app]", required=False)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="0: any that is free.")
@click.option("--read-only", is_flag=True, help="Let everybody only look, whatever their token says.")
@click.option("--root-path", default="", metavar="PATH", help="The prefix under which a proxy serves it.")
@click.option(
    "--allow-host", "hosts", multiple=True, metavar="NAME",
    help="Answer to this name too, beside localhost and addresses; may be given again.",
)  # fmt: skip
@click.option(
    "--allow-origin", "origins", multiple=True, metavar="ORIGIN",
    help="Let pages of this origin (https://…) send changes; may be given again.",
)  # fmt: skip
@click.option(
    "--redact", multiple=True, metavar="PATH",
    help="Put what is at this path of keys in arguments and results out of sight, as in '*.password'; may be given "
    "again.",
)  # fmt: skip
@click.option("--secure-cookie", is_flag=True, help="Send the session's cookie over TLS alone: behind a TLS proxy.")
@click.option(
    "--orchestrator-routes", is_flag=False, flag_value="post", default="off",
    type=click.Choice(("off", "post", "legacy")),
    help="Also answer as the orchestrator did, /jobs/ID/process and so on; legacy: GET makes changes too.",
)  # fmt: skip
@click.option("--orchestrator-admin", is_flag=True, help="Its admin routes too, for admins with a token.")
@click.option(
    "--metrics-tenants", type=click.IntRange(0, 1_000), default=0, show_default=True, metavar="N",
    help="Tell the N tenants with most jobs apart in /metrics.",
)  # fmt: skip
@click.option("--no-dashboard", is_flag=True, help="Only the API.")
@click.option(
    "--no-maintenance", is_flag=True,
    help="Change nothing by itself: rescue, watching over waits, schedules and pruning are left to workers. For a "
    "server that looks at a standby.",
)  # fmt: skip
@log_level_option
@url_option
def server_command(
    *,
    where: str | None,
    url: str | None,
    host: str,
    port: int,
    root_path: str,
    log_level: str,
    no_dashboard: bool,
    no_maintenance: bool,
    orchestrator_routes: str,
    secure_cookie: bool,
    redact: tuple[str, ...],
    **rest: Any,  # Any: options of the same name
) -> None:
    """Serve the HTTP API and the dashboard until SIGTERM or Ctrl-C, and do what workers do beside running jobs.

    With --no-maintenance it does only the first, and can look at a PostgreSQL standby.

    It is closed to whoever has no access token (`fairlane token create`). Only while the store has and had none,
    whoever is at this machine may do everything, and it refuses to listen to any other. With MODULE:app, arguments of
    its tasks are checked when jobs are stored.
    """
    need_server()
    from fairlane.http.app import create_app
    from fairlane.http.options import HttpOptions, Orchestrator, is_loopback
    from fairlane.http.serving import address_of, check_host, listening, serve
    from fairlane.service import Redaction

    start_logging(log_level)
    app: Fairlane = Keeper(url) if where is None else load_app(where, url)
    file_of(app)
    if root_path and not root_path.startswith("/"):
        raise click.UsageError("--root-path begins with a stroke: /tools/fairlane")
    options = HttpOptions(
        open_on_loopback=is_loopback(host),
        orchestrator=cast("Orchestrator", orchestrator_routes),
        redaction=Redaction(redact),
        secure_cookie=True if secure_cookie else None,
        maintenance=not no_maintenance,
        **rest,
    )
    with app:
        check_host(app, host)
        web = create_app(app, options=options, root_path=root_path, dashboard=not no_dashboard)
        with listening(host, port) as sock:
            click.echo(f"fairlane server: {address_of(sock, root_path)}")
            if not app.tokens.exist():
                click.echo("There is no access token: whoever is at this machine may do everything.", err=True)
            logging.getLogger("fairlane.http").info("server_started address=%s", address_of(sock, root_path))
            serve(web, sock, log_level="warning" if log_level == "info" else log_level)


@click.command("export-openapi", epilog=example("fairlane export-openapi > openapi.json"))
@click.option(
    "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write it to a file. [default: print it]"
)
def export_openapi_command(*, output: Path | None) -> None:
    """Print the OpenAPI 3.1 document of the HTTP API."""
    need_server()
    from fairlane.http.openapi import exported

    body = exported()
    if output is None:
        click.echo(body, nl=False)
        return
    output.write_text(body, "utf-8")
    print_json({"written": str(output)}, one_line=True)
