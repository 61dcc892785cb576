"""The soak (``make soak``) for some seconds: everything at once, and then the books and the log must agree."""

from __future__ import annotations

from pathlib import Path

import pytest
from soak import Soak

pytestmark = [pytest.mark.crash, pytest.mark.timeout(200)]

SECONDS = 20.0


def test_everything_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    soak = Soak(tmp_path, seconds=SECONDS, seed=7)
    code = soak.run()
    said = capsys.readouterr().out
    assert (code, soak.found) == (0, []), said
    assert soak.done["kill"] > 0, said
    assert soak.done["most at once of limit shared (5)"] > 1, said
