"""What the processes of ``test_transactional`` run: ``python transactional_program.py ROLE FIRST LAST``.

``worker`` runs jobs that write a row and end in one commit; ``producer`` writes rows and stores jobs, each in
one commit.
Both print a line when they are ready, and work until they are done or killed.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from typing import Any

import psycopg

import fairlane as fl

URL = os.environ["URL"]
SQLITE = URL.startswith("sqlite")
PUT = f"INSERT INTO mine VALUES ({'?' if SQLITE else '%s'}, {'?' if SQLITE else '%s'})"

app = fl.Fairlane(URL, **({"durability": "normal"} if SQLITE else {}))


@app.task(limits=["few"], retry=fl.Retry(max_attempts=3, base=0, jitter=0, max_crashes=1_000))
def pay(ctx: fl.Context, n: int) -> None:
    with ctx.transaction(result=n) as conn:
        conn.execute(PUT, ("paid", n))
        app.enqueue("receipt", {"n": n}, conn=conn, queue="receipts")


@app.task(limits=["few"], retry=fl.Retry(max_attempts=3, base=0, jitter=0, max_crashes=1_000))
async def apay(ctx: fl.Context, n: int) -> None:
    async with ctx.transaction(result=n) as conn:
        if SQLITE:
            conn.execute(PUT, ("paid", n))
        else:
            await conn.execute(PUT, ("paid", n))
        await app.aenqueue("receipt", {"n": n}, conn=conn, queue="receipts")


def connect() -> Any:
    return sqlite3.connect(URL.removeprefix("sqlite:///"), timeout=30) if SQLITE else psycopg.connect(URL)


def produce(first: int, last: int) -> None:
    conn = connect()
    print("ready", flush=True)  # noqa: T201 - its caller waits for it
    for n in range(first, last):
        conn.execute(PUT, ("asked", n))
        app.enqueue("pay" if n % 2 else "apay", {"n": n}, conn=conn, tenant="abc"[n % 3])
        if n % 5 == 4:
            conn.rollback()
        else:
            conn.commit()


def main() -> None:
    role, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    if role == "producer":
        produce(first, last)
    else:
        worker = app.worker(concurrency=4, lease=1.0, queues=["default"])
        worker.start()
        print("ready", flush=True)  # noqa: T201 - likewise
        worker.join()


if __name__ == "__main__":
    main()
