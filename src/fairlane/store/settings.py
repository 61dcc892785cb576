"""What is set for everybody: the policy, rules, what the code says of tasks.

Transactions, errors and time: see the package.
"""

from __future__ import annotations

from typing import Protocol

from fairlane.domain.phases import Verification
from fairlane.domain.policy import Capacities, Policy
from fairlane.store.values import (
    AnyRule,
    RuleKind,
)


class Settings(Protocol):
    """Policy, capacities and rules."""

    def settings(self) -> tuple[Policy, Capacities]:
        """Return the policy and capacities of the store. Reads only."""
        ...

    def configure(self, policy: Policy, capacities: Capacities, *, by: str, now_ms: int) -> None:
        """Change them for everybody."""
        ...

    def rule(self, kind: RuleKind, name: str) -> AnyRule:
        """Return what is set for a queue, task, tenant or named limit, or its default. Reads only."""
        ...

    def rules(self, kind: RuleKind) -> dict[str, AnyRule]:
        """Return everything that is set for one kind. Reads only."""
        ...

    def set_rule(self, kind: RuleKind, name: str, rule: AnyRule, *, by: str, now_ms: int) -> None:
        """Set what holds for a queue, task, tenant or named limit, acting on the existing backlog at once."""
        ...

    def declare_task(
        self,
        name: str,
        *,
        limits: tuple[str, ...],
        max_attempts: int,
        max_crashes: int,
        now_ms: int,
        preemptible: bool = False,
        verify: Verification | None = None,
    ) -> None:
        """Record what the code says about a task, or about the verify phase of one; writes only what differs.

        Args:
            name: The task's name, or that of its verify phase.
            limits: Keys of the named limits that its jobs count against.
            max_attempts: Failures after which a job is dead.
            max_crashes: Crashes that a job survives.
            now_ms: The instant.
            preemptible: Whether a run may be asked to give way.
            verify: How the work of its process phase is checked; None: it has one phase.
        """
        ...

    def verification(self, task: str) -> Verification | None:
        """Return how a task's work is checked; None: it has one phase, or no code has declared it. Reads only."""
        ...
