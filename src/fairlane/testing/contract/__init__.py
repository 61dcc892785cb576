"""The suite that every store passes: behaviour, not method names.

Bind it to a store with a class whose ``database`` fixture returns a fresh :class:`~.bench.Database`::

    class TestMyStore(StoreContract, SharedContract):
        @pytest.fixture
        def database(self, tmp_path):
            return MyDatabase(tmp_path)

:class:`SharedContract` is for databases that outlive a store object and that several may have open; a private database
in memory passes :class:`StoreContract` alone. T-, B- and F-numbers in the tests' docstrings are those of
``requirements/sources.md`` and ``requirements/faults.md``.
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(__name__)  # before the parts are imported, so that failures show values

from fairlane.testing.contract.access import AccessContract  # noqa: E402  # see above
from fairlane.testing.contract.ageing import AgeingContract  # noqa: E402
from fairlane.testing.contract.bundles import BundlesContract  # noqa: E402
from fairlane.testing.contract.by_hand import ByHandContract  # noqa: E402
from fairlane.testing.contract.claims import ClaimsContract  # noqa: E402
from fairlane.testing.contract.dead import DeadContract  # noqa: E402
from fairlane.testing.contract.dedup import DedupContract  # noqa: E402
from fairlane.testing.contract.explaining import ExplainingContract  # noqa: E402
from fairlane.testing.contract.express import ExpressContract  # noqa: E402
from fairlane.testing.contract.faults import FaultsContract  # noqa: E402
from fairlane.testing.contract.fences import FencesContract  # noqa: E402
from fairlane.testing.contract.following import FollowingContract  # noqa: E402
from fairlane.testing.contract.isolation import IsolationContract  # noqa: E402
from fairlane.testing.contract.jobs import JobsContract  # noqa: E402
from fairlane.testing.contract.limits import LimitsContract  # noqa: E402
from fairlane.testing.contract.monitors import MonitorsContract  # noqa: E402
from fairlane.testing.contract.moves import MovesContract  # noqa: E402
from fairlane.testing.contract.operations import OperationsContract  # noqa: E402
from fairlane.testing.contract.oracle import OracleContract  # noqa: E402
from fairlane.testing.contract.order import OrderContract  # noqa: E402
from fairlane.testing.contract.payloads import PayloadsContract  # noqa: E402
from fairlane.testing.contract.preempting import PreemptingContract  # noqa: E402
from fairlane.testing.contract.reading import ReadingContract  # noqa: E402
from fairlane.testing.contract.rescue import RescueContract  # noqa: E402
from fairlane.testing.contract.schedules import SchedulesContract  # noqa: E402
from fairlane.testing.contract.shared import SharedContract  # noqa: E402
from fairlane.testing.contract.turns import TurnsContract  # noqa: E402
from fairlane.testing.contract.verify import VerifyContract  # noqa: E402
from fairlane.testing.contract.watching import WatchingContract  # noqa: E402

__all__ = ["SharedContract", "StoreContract"]


class StoreContract(
    JobsContract,
    DedupContract,
    FollowingContract,
    BundlesContract,
    PayloadsContract,
    ClaimsContract,
    FencesContract,
    FaultsContract,
    RescueContract,
    MovesContract,
    OrderContract,
    TurnsContract,
    AgeingContract,
    LimitsContract,
    IsolationContract,
    ExpressContract,
    ReadingContract,
    ExplainingContract,
    OracleContract,
    WatchingContract,
    MonitorsContract,
    PreemptingContract,
    DeadContract,
    OperationsContract,
    VerifyContract,
    ByHandContract,
    SchedulesContract,
    AccessContract,
):
    """What one store object on a database of its own promises."""
