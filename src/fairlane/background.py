"""Threads that work beside the program's own and do not keep it from ending."""

from __future__ import annotations

import threading
from collections.abc import Callable


def started(target: Callable[..., object], name: str, *args: object) -> threading.Thread:
    """Start a thread and return it: who keeps it has none as long as there is none, and may try again.

    Args:
        target: What it runs.
        name: What logs and debuggers call it.
        args: What ``target`` is given.

    Raises:
        RuntimeError: The system gives no more threads, or the interpreter ends.
    """
    thread = threading.Thread(target=target, args=args, name=name, daemon=True)
    thread.start()
    return thread
