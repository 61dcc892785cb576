"""What the processes of the PostgreSQL crash tests run beside the roles of ``program.py``."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import program

import fairlane as fl


def insists(task: str, count: int, args: dict[str, Any], tenants: list[str], pause_ms: float = 0.0) -> None:
    """Enqueue so many jobs; when a call fails, once more."""
    done = 0
    while done < count:
        try:
            job = program.app.enqueue(task, args, tenant=tenants[done % len(tenants)])
        except fl.StoreError:
            continue
        program.accepted(job)
        done += 1
        time.sleep(pause_ms / 1000)


if __name__ == "__main__":
    globals()[sys.argv[1]](**json.loads(sys.argv[2]))
