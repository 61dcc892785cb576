"""Settings: which source wins, what is refused, what is told of where a value came from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fairlane as fl
from fairlane.settings import SETTINGS, Settings, without_password
from fairlane.stores.named import pinned


def load(folder: Path, /, environment: dict[str, str] | None = None, **arguments: Any) -> Settings:
    return Settings.load(arguments, environment=environment or {}, folder=folder)


def test_defaults_hold_when_nobody_says_otherwise(tmp_path: Path) -> None:
    settings = load(tmp_path)
    assert (settings.url, settings["durability"], settings["concurrency"]) == ("sqlite:///fairlane.db", "full", 8)
    assert {source for _, _, source in settings.report()} == {"default"}
    assert settings.policy() is None
    assert settings.capacities() is None


def test_later_sources_win(tmp_path: Path) -> None:
    (tmp_path / "fairlane.toml").write_text('url = "sqlite:///file.db"\nconcurrency = 3\nlease = 10\ngrace = 5\n')
    settings = load(tmp_path, {"FAIRLANE_CONCURRENCY": "4", "FAIRLANE_LEASE": "20.5", "FAIRLANE_GRACE": ""}, lease=30)
    assert [
        (name, settings[name], settings.source(name)) for name in ("url", "concurrency", "lease", "grace", "durability")
    ] == [
        ("url", "sqlite:///file.db", "fairlane.toml"),
        ("concurrency", 4, "FAIRLANE_CONCURRENCY"),
        ("lease", 30.0, "argument"),
        ("grace", 5.0, "fairlane.toml"),
        ("durability", "full", "default"),
    ]


def test_a_value_equal_to_the_default_is_set_all_the_same(tmp_path: Path) -> None:
    settings = load(tmp_path, durability="full", policy=None)
    assert settings.is_set("durability")
    assert not settings.is_set("policy")


def test_pyproject_is_read_where_there_is_no_file_of_our_own(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\n[tool.fairlane]\nconcurrency = 2\n')
    assert load(tmp_path).values["concurrency"] == (2, "pyproject.toml [tool.fairlane]")
    (tmp_path / "fairlane.toml").write_text("grace = 1\n")
    assert load(tmp_path)["concurrency"] == 8


def test_a_pyproject_of_others_is_no_matter(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\n')
    assert load(tmp_path)["concurrency"] == 8


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("concurency = 3", "fairlane.toml: there is no setting 'concurency'; did you mean 'concurrency'?"),
        ("keep-dead = 3", "there is no setting 'keep-dead'; did you mean 'keep_dead'?"),
        ("colour = 3", "there is no setting 'colour'; there are url, durability"),
        ("[fairlane]\nurl = 'sqlite://'", "there is no setting 'fairlane'; there are url"),
        ("concurrency = 0", "fairlane.toml: concurrency is 0"),
        ("concurrency = true", "concurrency must be a whole number"),
        ('lease = "long"', "lease must be a number, not 'long'"),
        ("url = ", "is not TOML"),
        ("lease = nan", "lease is nan"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, body: str, says: str) -> None:
    (tmp_path / "fairlane.toml").write_text(body)
    with pytest.raises(fl.ConfigError) as refused:
        load(tmp_path)
    assert says in str(refused.value)


def test_a_wrong_pyproject_says_where(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.fairlane]\ngrase = 3\n")
    with pytest.raises(fl.ConfigError) as refused:
        load(tmp_path)
    assert str(refused.value) == "pyproject.toml [tool.fairlane]: there is no setting 'grase'; did you mean 'grace'?"


def test_every_place_in_its_turn(tmp_path: Path) -> None:
    """Argument, variable, fairlane.toml, pyproject.toml where there is no fairlane.toml, default."""
    (tmp_path / "pyproject.toml").write_text("[tool.fairlane]\ngrace = 1\n")
    assert (load(tmp_path)["grace"], load(tmp_path).source("grace")) == (1.0, "pyproject.toml [tool.fairlane]")
    (tmp_path / "fairlane.toml").write_text("grace = 2\n")
    assert load(tmp_path)["grace"] == 2.0
    assert load(tmp_path, {"FAIRLANE_GRACE": "3"})["grace"] == 3.0
    assert load(tmp_path, {"FAIRLANE_GRACE": "3"}, grace=4)["grace"] == 4.0
    assert load(tmp_path / "elsewhere")["grace"] == 25.0


def test_a_table_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool]\nfairlane = 3\n")
    with pytest.raises(fl.ConfigError, match=r"tool\.fairlane is not a table"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("FAIRLANE_POLICY", "fairest"),
        ("FAIRLANE_DURABILITY", "none"),
        ("FAIRLANE_CONCURRENCY", "many"),
        ("FAIRLANE_CONCURRENCY", "1.5"),
        ("FAIRLANE_AGEING_STEP", "0"),
        ("FAIRLANE_EXPRESS_CAPACITY", "0"),
        ("FAIRLANE_LEASE", "inf"),
    ],
)
def test_a_wrong_variable_is_named(tmp_path: Path, name: str, value: str) -> None:
    with pytest.raises(fl.ConfigError, match=f"^{name}: "):
        load(tmp_path, {name: value})


def test_variables_of_others_are_told_and_not_refused(tmp_path: Path) -> None:
    assert load(tmp_path, {"FAIRLANE_TOKEN": "x", "OTHER": "y"}).unknown_variables == ("FAIRLANE_TOKEN",)


def test_policies_are_made_of_what_was_set(tmp_path: Path) -> None:
    assert load(tmp_path, policy="strict").policy() == fl.Policy.strict()
    assert load(tmp_path, ageing_step=10.0).policy() == fl.Policy.fair(ageing_step=10)
    assert load(tmp_path, policy=fl.Policy.fifo()).policy() == fl.Policy.fifo()
    with pytest.raises(fl.ConfigError, match="ageing_step"):
        load(tmp_path, policy="fifo", ageing_step=10.0).policy()


def test_capacities_keep_the_default_of_what_is_not_set(tmp_path: Path) -> None:
    assert load(tmp_path, express_capacity=7).capacities() == fl.Capacities(express_capacity=7, express_per_tenant=5)


def test_reports_hide_passwords(tmp_path: Path) -> None:
    settings = load(tmp_path, url="postgresql://me:secret@db/jobs")
    assert ("url", "postgresql://me:***@db/jobs", "argument") in settings.report()
    assert without_password("sqlite:////a/b@c.db") == "sqlite:////a/b@c.db"


def test_every_setting_tells_what_it_is() -> None:
    for setting in SETTINGS:
        assert setting.about
        if setting.default is not None:
            assert setting.check(setting.name, setting.default) == setting.default


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("postgresql://u:pw@h:x/db", r"u:\*\*\*@h.*cannot be read"),
        ("mysql://h/db", "is no store"),
        ("jobs.db", "is no store"),
        ("sqlite:jobs.db", "is no store"),
        ("sqlite://jobs.db", "names no file"),
        ("sqlite:///", "names no file"),
        ("sqlite:///jobs.db?mode=ro", "names no file"),
    ],
)
def test_an_address_that_is_no_store_is_refused(url: str, says: str) -> None:
    with pytest.raises(fl.ConfigError, match=says):
        pinned(url)


def test_a_relative_file_is_pinned_to_the_folder_of_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FAIRLANE_URL", raising=False)
    assert fl.Fairlane().url == f"sqlite:///{tmp_path}/fairlane.db"
    monkeypatch.setenv("FAIRLANE_URL", "sqlite:///sub/x.db")
    app = fl.Fairlane()
    assert app.url == f"sqlite:///{tmp_path}/sub/x.db"
    app.use("sqlite://")
    assert app.url == "sqlite://"
    assert not app.opened
    app.depth()
    with pytest.raises(fl.ConfigError, match="is open"):
        app.use("sqlite:///other.db")
    app.close()


def test_a_wrong_argument_is_refused_before_anything_is_opened() -> None:
    for wrong in ({"durability": "half"}, {"policy": "best"}, {"express_capacity": 0}, {"url": ""}, {"url": 5}):
        with pytest.raises(fl.ConfigError):
            fl.Fairlane(**wrong)  # type: ignore[arg-type]
