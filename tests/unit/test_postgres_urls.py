"""PostgreSQL addresses: what is taken, what is refused, and that no message holds a password. No server is needed."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict

import fairlane as fl
from fairlane.settings import Settings, without_password
from fairlane.stores.named import pinned
from fairlane.stores.postgres.connection import address_of, watched
from fairlane.stores.postgres.urls import checked


@pytest.mark.parametrize(
    ("url", "means"),
    [
        ("postgresql://me@db.example:5433/jobs", {"user": "me", "host": "db.example", "port": "5433"}),
        ("postgres://me:se%2Fcret@db/jobs", {"user": "me", "password": "se/cret", "host": "db"}),
        ("postgresql://me:s?e#c[r]et@db/jobs", {"user": "me", "password": "s?e#c[r]et", "host": "db"}),
        ("postgresql://me:a:b+c@db/jobs", {"user": "me", "password": "a:b+c", "host": "db"}),
        ("postgresql:///jobs?host=/run/postgresql", {"host": "/run/postgresql"}),
        ("postgresql:///jobs", {}),
        ("postgresql://%2Frun%2Fpostgresql/jobs", {"host": "/run/postgresql"}),
        ("postgresql://a:1,b:2/jobs?target_session_attrs=read-write", {"host": "a,b", "port": "1,2"}),
        ("postgresql://[::1]:5432/jobs", {"host": "::1", "port": "5432"}),
        ("postgresql://db/jobs?password=a+b&schema=x&pooled=yes", {"password": "a+b", "host": "db"}),
        ("postgresql://db/jobs?sslmode=verify-full&sslrootcert=/a/b.crt", {"sslrootcert": "/a/b.crt"}),
    ],
)
def test_addresses_mean_what_libpq_says(url: str, means: dict[str, str]) -> None:
    told = conninfo_to_dict(address_of(pinned(url)).url)
    assert told["dbname"] == "jobs"
    assert means.items() <= told.items()
    assert pinned(pinned(url)) == pinned(url)


def test_schema_and_pooled_are_ours() -> None:
    address = address_of(pinned("postgresql://db/jobs?schema=a_1&pooled=yes"))
    assert (address.schema, address.pooled) == ("a_1", True)
    assert address_of(pinned("postgresql://db/jobs")).schema == "fairlane"


SECRET = "s3same"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("postgresql://me:{}%zz@db/jobs", "is written %XX"),
        ("postgresql://me:{}@more@db/jobs", "@ is written %40"),
        ("postgresql://me:a/{}@db/jobs", "/ is %2F"),
        ("postgresql://me:1/{}@db/jobs", "/ is %2F"),
        ("postgresql://me:{}@db:port/jobs", "cannot be read"),
        ("postgresql://me:{}@[db/jobs", "cannot be read"),
        ("postgresql://me:{}@db/jobs/more", "cannot be read"),
        ("postgresql://me:{}@db/jobs?nosuch=1", "libpq has no option 'nosuch'"),
        ("postgresql://db/jobs?password={}&nosuch=1", "libpq has no option 'nosuch'"),
        ("postgresql://me:{}@db/jobs?schema=Jobs", "schema 'Jobs' is not a name"),
        ("postgresql://me:{}@db/jobs?schema=jobs\n", r"schema 'jobs\\n' is not a name"),
        ("postgresql://me:{}@db/jobs?schema=pg_x", "schema 'pg_x' is not a name"),
        ("postgresql://me:{}@db/jobs?pooled=maybe", "pooled='maybe' is not one of yes, no"),
        ("mysql://me:{}@db/jobs", "is no store: sqlite:///relative.db, .*postgresql://user@host/database"),
        ("host=db password={}", "is no store"),
        ("postgresql:me:{}@db", "is no store"),
    ],
)
def test_what_is_wrong_is_said_without_the_password(url: str, says: str) -> None:
    with pytest.raises(fl.ConfigError, match=says) as refused:
        fl.Fairlane(url.format(SECRET))
    assert SECRET not in str(refused.value)
    assert refused.value.__cause__ is None  # psycopg's own message may hold it
    with pytest.raises(fl.ConfigError) as refused:
        fl.Fairlane("sqlite://").use(url.format(SECRET))
    assert SECRET not in str(refused.value)


def test_options_of_the_environment_count_where_the_url_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGOPTIONS", "-c synchronous_commit=remote_apply")
    usual, own = (
        watched(address_of(f"postgresql://db/jobs{more}"), lock_timeout=1) for more in ("", "?options=-cx%3D1")
    )
    assert usual["options"].endswith(" -c lock_timeout=1 -c synchronous_commit=remote_apply")
    assert own["options"].endswith(" -c lock_timeout=1 -cx=1")


@given(st.text("@:/?#[]=+;,' \"\\%é漢7", min_size=6, max_size=12))
def test_no_password_is_ever_shown(secret: str) -> None:
    """Whatever it holds, and however wrong it is written; a part of it would be too much as well."""
    for url in (f"postgresql://me:{secret}@db/jobs", f"postgresql://db/jobs?sslpassword={secret}"):
        try:
            app = fl.Fairlane(url)
        except fl.ConfigError as error:
            shown = str(error)
        else:
            shown = repr(app) + str(app.settings.report()[0])
            assert app.settings.url == url
        for place in range(len(secret) - 5):
            assert secret[place : place + 6] not in shown, url


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:{}@db/jobs", "postgresql://me:***@db/jobs"),
        ("postgresql://:{}@db", "postgresql://:***@db"),
        ("postgresql://me:a@b/{}@db/jobs", "postgresql://me:***@db/jobs"),
        ("postgresql://me:{}?x=y@db/jobs", "postgresql://me:***@db/jobs"),
        ("postgresql://db:5432/jobs?password={}&schema=a", "postgresql://db:5432/jobs?password=***&schema=a"),
        ("postgresql:///jobs?p%61ssword={}", "postgresql:///jobs?p%61ssword=***"),
        ("postgresql:///jobs?oauth_client_secret={}", "postgresql:///jobs?oauth_client_secret=***"),
        ("host=db password = '{} a b' user=me", "host=db password = *** user=me"),
        ("postgresql://me@db:5432/jobs", "postgresql://me@db:5432/jobs"),
        ("sqlite:////a/b:c@d.db", "sqlite:////a/b:c@d.db"),
    ],
)
def test_passwords_are_hidden_in_addresses(url: str, shown: str) -> None:
    assert without_password(url.format(SECRET)) == shown


def test_settings_are_reported_without_the_password() -> None:
    report = str(Settings.load({"url": f"postgresql://me:{SECRET}@db/jobs?password={SECRET}"}).report())
    assert SECRET not in report
    assert "postgresql://me:***@db/jobs?password=***" in report


def test_an_app_shows_no_password() -> None:
    app = fl.Fairlane(f"postgresql://me:{SECRET}@db/jobs?schema=a")
    assert repr(app) == "<Fairlane postgresql://me:***@db/jobs?schema=a>"
    for call in (lambda: app.backup("x.db"), lambda: app.restore("x.db")):
        with pytest.raises(fl.ConfigError, match="pg_dump") as refused:
            call()
        assert SECRET not in str(refused.value)


HIDDEN = """
import sys
{hide}
import fairlane as fl
fl.Fairlane("sqlite://").depth()
try:
    fl.Fairlane("postgresql://me:s3same@db/jobs")
except fl.ConfigError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("hide", "environment"),
    [
        ("sys.modules['psycopg'] = None", {}),  # as Python does with what it cannot find
        ("", {"PSYCOPG_IMPL": "nosuch"}),  # psycopg is here, and finds no library
    ],
)
def test_without_psycopg_it_is_said_what_to_install(hide: str, environment: dict[str, str], tmp_path: Any) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HIDDEN.format(hide=hide)], capture_output=True, text=True, env=environment, cwd=tmp_path,
        check=True,
    )  # fmt: skip
    assert "pip install 'fairlane[postgres]'" in done.stdout
    assert "'postgresql://me:***@db/jobs'" in done.stdout


def test_sqlite_needs_no_psycopg() -> None:
    code = (
        "import sys, fairlane, fairlane.cli.main as m;"
        "fairlane.Fairlane('sqlite://').depth(); print('psycopg' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_checked_leaves_the_rest_alone() -> None:
    url = "postgresql://me:pw@h1:1,h2:2/db?schema=a&pooled=yes&connect_timeout=3"
    assert checked(url) == url
