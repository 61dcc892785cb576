"""The example for Sentry: each failed run is one event, with tags and without what the job carries."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "sentry.py"

LOOK = """
import json, runpy, sys
names = runpy.run_path(sys.argv[1])
names["main"]()
print(json.dumps(names["sent"], default=str))
"""


def test_failed_runs_become_events_without_payloads(tmp_path: Path) -> None:
    import json

    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", LOOK, str(EXAMPLE)],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    *printed, body = done.stdout.splitlines()
    assert printed[-1] == "a card's number is in what was sent: False"
    events = json.loads(body)
    assert [event["tags"] for event in events] == [
        {"task": "charge", "tenant": "acme", "queue": "billing", "attempt": attempt} for attempt in (1, 2)
    ]
    assert [event["contexts"]["job"]["outcome"] for event in events] == ["retry", "dead"]
    for event in events:
        (raised,) = event["exception"]["values"]
        assert (raised["type"], raised["value"]) == ("CardRefused", "the bank said no")
        assert raised["stacktrace"]["frames"][-1]["function"] == "charge"
        assert "vars" not in raised["stacktrace"]["frames"][-1]
        assert event["fingerprint"] == ["fairlane", "charge", "CardRefused"]
    assert "4000-0000" not in body
