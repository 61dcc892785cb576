"""BullMQ: a producer and a worker in Node, ``node/bullmq.mjs``, which speak as ``agent.py`` does."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from bench.compare.adapters.base import Adapter

PROGRAM = Path(__file__).parents[1] / "node" / "bullmq.mjs"


class Bullmq(Adapter):
    """Priorities are a sorted set of their own, used where tiers matter."""

    name = "bullmq"
    packages = ("bullmq", "ioredis")
    store = "redis"
    durability = "Redis AOF, flushed every second"
    settings = "Node; removeOnComplete, 100 at once for speed"
    slots = 100
    drain_jobs = 20_000
    bulk = True
    tuned_crash = "lockDuration 5 s, stalledInterval 1 s"

    @classmethod
    def command(cls, root: Path, role: str, scenario: str, slots: int) -> list[str]:
        """Start Node where its packages are."""
        return ["node", str(root / "node" / "bullmq.mjs"), role, scenario, str(slots)]

    @classmethod
    def missing(cls, root: Path) -> str:
        """Look for Node and the packages; lay the programs beside those."""
        if shutil.which("node") is None:
            return "there is no node on PATH"
        if not (root / "node" / "node_modules" / "bullmq").is_dir():
            return "npm could not install bullmq"
        for source in PROGRAM.parent.glob("*.mjs"):
            shutil.copy(source, root / "node")  # Node looks for packages above the program's own folder
        return ""

    @classmethod
    def versions(cls, root: Path) -> dict[str, str]:
        """Read them from the packages."""
        folder = root / "node" / "node_modules"
        found = {name: json.loads((folder / name / "package.json").read_text()) for name in cls.packages}
        return {name: str(package["version"]) for name, package in found.items()}


PEERS: dict[str, type[Adapter]] = {"bullmq": Bullmq}
