"""A process of one queue: it makes the store, or produces what it is told, or works until it is killed.

    python -m bench.compare.agent NAME setup|produce|work SCENARIO SLOTS

A producer reads a request a line from standard input and answers each with a line, both JSON; ``node/bullmq.mjs``
speaks the same. Where data is, and the log, is told by variables (:data:`FOLDER`, …).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

from bench.compare.adapters import adapter
from bench.compare.adapters.base import Adapter, AsyncAdapter, Batch, Place, Task, Tier
from bench.compare.joblog import now

FOLDER: Final = "COMPARE_FOLDER"
REDIS: Final = "COMPARE_REDIS"
POSTGRES: Final = "COMPARE_POSTGRES"
SECOND: Final = 1_000_000_000
TOO_MANY: Final = 10_000_000
"""A batch from which a producer takes as many jobs as its time allows."""


class Producer:
    """Does what the driver asks, in one thread and with one event loop.

    Args:
        queue: Where jobs go.
    """

    def __init__(self, queue: Adapter) -> None:
        self.queue = queue
        self.loop = asyncio.new_event_loop()
        self.one: Callable[[Task], Awaitable[None]] | None = getattr(queue, "aenqueue", None)
        if isinstance(queue, AsyncAdapter):
            self._run(queue.aopen())
        else:
            queue.open()

    def _run(self, steps: Coroutine[Any, Any, None]) -> None:  # Any: nothing is sent to them
        self.loop.run_until_complete(steps)

    def answer(self, op: str, batch: Batch, asked: dict[str, Any]) -> dict[str, Any]:  # Any: JSON
        """Do one thing and return how many jobs were stored, and how long that took."""
        began = now()
        how: Callable[..., int] = getattr(self, f"do_{op}")
        count = how(batch, **asked)
        return {"jobs": count, "ns": now() - began}

    def do_one_by_one(self, batch: Batch, seconds: float = 1e6) -> int:
        """Store one job after the other, all of them or until the time is over."""
        end = now() + int(seconds * SECOND)
        done = 0
        if not isinstance(self.queue, AsyncAdapter):
            for done, task in enumerate(batch.tasks(), 1):  # noqa: B007  used after the loop
                self.queue.enqueue(task)
                if now() > end:
                    break
            return done

        async def run(queue: AsyncAdapter) -> None:
            nonlocal done
            for done, task in enumerate(batch.tasks(), 1):  # noqa: B007  as above
                await queue.aenqueue(task)
                if now() > end:
                    break

        self._run(run(self.queue))
        return done

    def do_together(self, batch: Batch, callers: int, seconds: float = 1e6) -> int:
        """Let many store jobs at once: coroutines where the queue has them, else threads."""
        end = now() + int(seconds * SECOND)
        left = batch.tasks()
        done = 0
        if self.one is None:
            return self._threads(left, callers, end)
        one = self.one

        async def caller() -> None:
            nonlocal done
            for task in left:
                await one(task)
                done += 1
                if now() > end:
                    break

        async def run() -> None:
            await asyncio.gather(*(caller() for _ in range(callers)))

        self._run(run())
        return done

    def _threads(self, left: Iterator[Task], callers: int, end: int) -> int:
        lock = threading.Lock()
        done: list[int] = []
        errors: list[Exception] = []

        def caller() -> None:
            count = 0
            try:
                while now() <= end:
                    with lock:
                        task = next(left, None)
                    if task is None:
                        break
                    self.queue.enqueue(task)
                    count += 1
            except Exception as error:  # noqa: BLE001  raised below, in the thread that is asked
                errors.append(error)
            done.append(count)

        threads = [threading.Thread(target=caller) for _ in range(callers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return sum(done)

    def do_many(self, batch: Batch, portion: int = 1_000) -> int:
        """Store all jobs in portions; without such a call in the queue, by a hundred callers."""
        if not self.queue.bulk:
            return self.do_together(batch, 100 if self.one is not None else 1)
        left = batch.tasks()
        while tasks := list(islice(left, portion)):
            if isinstance(self.queue, AsyncAdapter):
                self._run(self.queue.aenqueue_many(tasks))
            else:
                self.queue.enqueue_many(tasks)
        return batch.count

    def do_paced(self, batch: Batch, least_ms: float, most_ms: float) -> int:
        """Store a job at a time with an even draw of time between their starts; late ones are made up for."""
        draw = random.Random(batch.count)
        due = now()
        for number in range(batch.first, batch.first + batch.count):
            self.do_one_by_one(Batch(batch.kind, 1, number, batch.sleep_ms, batch.tier, batch.tenant))
            due += int(draw.uniform(least_ms, most_ms) * 1e6)
            if (left := due - now()) > 0:
                time.sleep(left / SECOND)
        return batch.count


def place() -> Place:
    """Return where this process's data is."""
    return Place(Path(os.environ[FOLDER]), os.environ[REDIS], os.environ[POSTGRES])


def produce(queue: Adapter) -> None:
    """Answer requests until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a library prints is no answer
    producer = Producer(queue)
    answers.write("{}\n")
    for line in sys.stdin:
        asked: dict[str, Any] = json.loads(line)
        told: dict[str, Any] = asked.pop("batch")
        told["tier"] = Tier(told["tier"])
        batch = Batch(**told)
        try:
            answer = producer.answer(asked.pop("op"), batch, asked)
        except Exception as error:  # noqa: BLE001  told to the driver, which gives up this measurement
            answer = {"error": f"{type(error).__name__}: {error}"[:300]}
        answers.write(json.dumps(answer) + "\n")
    with contextlib.suppress(Exception):
        queue.close()
    os._exit(0)  # some libraries leave threads behind


def main() -> None:
    """Run one process."""
    name, role, scenario, slots = sys.argv[1:]
    queue = adapter(name)(place(), scenario)
    if role == "setup":
        queue.setup()
    elif role == "produce":
        produce(queue)
    else:
        queue.work(int(slots))


if __name__ == "__main__":
    main()
