"""The soak of PostgreSQL (``make soak-postgres``) for some seconds: nothing is lost, done twice, or beyond a limit."""

from __future__ import annotations

import pytest
from soak_postgres import soak

pytestmark = [pytest.mark.postgres, pytest.mark.crash, pytest.mark.timeout(300)]

SECONDS = 8.0


def test_nothing_is_lost_while_workers_are_killed_and_the_server_is_restarted(capsys: pytest.CaptureFixture[str]):
    cells = soak(["killed workers", "restarts"], seconds=SECONDS, every_s=2.0)
    said = capsys.readouterr().out
    assert [cell.found for cell in cells] == [[], []], said
    assert [cell.done > 0 for cell in cells] == [True, True], said
