"""Writes the last section of the guides in ``docs/moving-over``: what the shims refuse, and what to use instead.

Run it after a change of ``fairlane.compat._words``. A test holds the pages equal to what this gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fairlane.compat import _words

PAGES: Final = Path(__file__).parent / "moving-over"
MARK: Final = "<!-- Written by docs/gen_moving_over.py from fairlane.compat._words; change that, then run it. -->\n"
KINDS: Final[Mapping[str, tuple[tuple[str, Mapping[str, str]], ...]]] = {
    "celery": (
        ("options of `Celery(…)`", _words.CELERY_APP),
        ("attributes of an app", _words.CELERY_APP_GETS),
        ("settings of `app.conf`", _words.CELERY_CONF),
        ("options of a task", _words.CELERY_TASK),
        ("options of a call, and of `self.retry`", _words.CELERY_CALL),
        ("attributes of a task", _words.CELERY_TASK_GETS),
        ("attributes of a result", _words.CELERY_RESULT_GETS),
        ("names to import", _words.CELERY_NAMES),
    ),
    "rq": (
        ("options of `Queue(…)`", _words.RQ_QUEUE),
        ("attributes of a queue", _words.RQ_QUEUE_GETS),
        ("options of a call", _words.RQ_ENQUEUE),
        ("options of `Worker(…)` and `work(…)`", _words.RQ_WORKER),
        ("attributes of a job", _words.RQ_JOB_GETS),
        ("names to import", _words.RQ_NAMES),
    ),
    "dramatiq": (
        ("options of an actor", _words.DRAMATIQ_ACTOR),
        ("options of a message", _words.DRAMATIQ_SEND),
        ("attributes of a broker", _words.DRAMATIQ_BROKER_GETS),
        ("names of the module", _words.DRAMATIQ_NAMES),
    ),
    "procrastinate": (
        ("options of `App(…)`", _words.PROCRASTINATE_APP),
        ("options of a task", _words.PROCRASTINATE_TASK),
        ("options of `run_worker`", _words.PROCRASTINATE_WORKER),
        ("attributes of an app or a task", _words.PROCRASTINATE_GETS),
        ("names to import", _words.PROCRASTINATE_NAMES),
    ),
}


def section(system: str) -> str:
    """Return the section of a system's guide."""
    lines = [MARK, "## What is refused", "", "The errors say this too.", ""]
    for kind, table in KINDS[system]:
        alike: dict[str, list[str]] = {}
        for name, instead in table.items():
            alike.setdefault(instead, []).append(f"`{name}`")
        lines += [f"| {kind} | instead |", "|---|---|"]
        lines += [f"| {', '.join(names)} | {instead} |" for instead, names in alike.items()]
        lines.append("")
    return "\n".join(lines[:-1]) + "\n"


def render(system: str) -> str:
    """Return a guide with its section as it should be."""
    text = (PAGES / f"{system}.md").read_text(encoding="utf-8")
    return text.partition(MARK)[0].rstrip() + "\n\n" + section(system)


if __name__ == "__main__":
    for name in KINDS:
        page = PAGES / f"{name}.md"
        page.write_text(render(name), encoding="utf-8")
