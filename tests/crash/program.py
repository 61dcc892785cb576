"""What the processes of the crash tests run: ``python program.py ROLE [JSON options]``.

Handlers append to the oracle log, one line each time, with O_APPEND: job, attempt, fence, process, what, when, tenant.
Producers append the id of every job whose enqueue has returned to the list of accepted jobs.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import random
import resource
import signal
import sqlite3
import sys
import threading
import time
from pathlib import Path
from typing import Any

import fairlane as fl
from fairlane.store import Store

sys.path.insert(0, str(Path(__file__).parent))

from set_clock import SetClock

APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT

app = fl.Fairlane(
    os.environ["URL"],
    durability=os.environ.get("DURABILITY", "normal"),  # type: ignore[arg-type]
    clock=SetClock(os.environ["CLOCK"]) if "CLOCK" in os.environ else None,
)
log_fd = os.open(os.environ["LOG"], APPEND)
accepted_fd = os.open(os.environ["ACCEPTED"], APPEND)
MANY = fl.Retry(base=0.0, max_crashes=1_000)


def note(ctx: fl.Context, what: str) -> None:
    fence = ctx._holder.claim.fence  # type: ignore[union-attr]  # only these tests judge by it
    write(str(ctx.job_id), ctx.attempt, fence, what, ctx.tenant)


def note_all(ctx: fl.Context, what: str) -> None:
    """The same with everything that a limit may be set on."""
    fence = ctx._holder.claim.fence  # type: ignore[union-attr]  # as above
    write(str(ctx.job_id), ctx.attempt, fence, what, f"{ctx.tenant}/{ctx.queue}/{ctx.task}")


def write(job: str, attempt: int, fence: int, what: str, tenant: str) -> None:
    os.write(log_fd, f"{job} {attempt} {fence} {os.getpid()} {what} {time.monotonic_ns()} {tenant}\n".encode())


def accepted(job: Any) -> None:
    os.write(accepted_fd, f"{job.id}\n".encode())


# ---------------------------------------------------------------- tasks


@app.task(retry=MANY)
async def nap(ctx: fl.Context, ms: int = 0) -> str:
    note(ctx, "start")
    await asyncio.sleep(ms / 1000)
    note(ctx, "end")
    return "done"


@app.task(retry=MANY, limits=["shared"])
def limited(ctx: fl.Context, ms: int = 0) -> None:
    note(ctx, "start")
    time.sleep(ms / 1000)
    note(ctx, "end")


@app.task(retry=MANY)
def hold(ctx: fl.Context, ms: int = 0) -> str:
    note(ctx, "start")
    time.sleep(ms / 1000)
    note(ctx, "end")
    return "done"


@app.task(retry=MANY)
async def block(ctx: fl.Context, ms: int) -> None:
    note(ctx, "start")
    time.sleep(ms / 1000)  # noqa: ASYNC251  that is the point of it
    note(ctx, "end")


@app.task(retry=MANY)
def spin(ctx: fl.Context, ms: int) -> None:
    note(ctx, "start")
    until = time.monotonic() + ms / 1000
    while time.monotonic() < until:
        sum(range(100))
    note(ctx, "end")


@app.task(retry=MANY)
async def spin_in_loop(ctx: fl.Context, ms: int) -> None:
    note(ctx, "start")
    until = time.monotonic() + ms / 1000
    while time.monotonic() < until:
        sum(range(100))
    note(ctx, "end")


@app.task(retry=MANY)
def wait_for(ctx: fl.Context, path: str, first: bool = False, again: str = "") -> str:
    """Run until a file exists; with ``first`` only on the first attempt. Tells when it is asked to stop.

    Later attempts wait for the file ``again``, if there is one.
    """
    note(ctx, "start")
    told = False
    path = again if again and ctx.attempt > 1 else path
    while not (os.path.exists(path) or (first and ctx.attempt > 1)):
        if ctx.should_stop and not told:
            told = True
            note(ctx, "told")
        time.sleep(0.005)
    if ctx.should_stop and not told:
        note(ctx, "told")
    note(ctx, "end")
    return f"attempt {ctx.attempt}"


@app.task
def poison(ctx: fl.Context) -> None:
    note(ctx, "start")
    note(ctx, "dies")
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(retry=MANY)
def deaf(ctx: fl.Context) -> None:
    note(ctx, "start")
    while True:
        time.sleep(0.01)


@app.task(retry=MANY)
def forks(ctx: fl.Context, path: str) -> None:
    """Leave a child behind that lives until a file exists, then go on writing."""
    if os.fork() == 0:
        while not os.path.exists(path):
            time.sleep(0.05)
        os._exit(0)
    note(ctx, "start")
    while True:
        ctx.checkpoint({"at": time.monotonic_ns()})


@app.task(retry=MANY, preemptible=True, tier="background")
async def bulk(ctx: fl.Context, path: str) -> int:
    """Run for a minute, or until a file exists, and count from where the last run stopped."""
    note(ctx, "start" if ctx.saved is None else "resume")
    at = ctx.saved or 0
    until = time.monotonic() + 60
    while time.monotonic() < until and not os.path.exists(path):  # noqa: ASYNC240  it does not block
        at += 1
        ctx.checkpoint(at)
        await asyncio.sleep(0.02)
    note(ctx, "end")
    return at


@app.task(retry=MANY, preemptible=True, tier="background")
def sync_bulk(ctx: fl.Context, path: str) -> int:
    """The same in a thread: it looks whether it should stop."""
    note(ctx, "start" if ctx.saved is None else "resume")
    at = ctx.saved or 0
    until = time.monotonic() + 60
    while time.monotonic() < until and not os.path.exists(path):
        at += 1
        ctx.checkpoint(at)
        ctx.raise_if_stopping()
        time.sleep(0.02)
    note(ctx, "end")
    return at


@app.task(retry=MANY, preemptible=True, tier="background")
def deaf_bulk(ctx: fl.Context, path: str) -> None:
    """The same, and it never looks."""
    note(ctx, "start")
    while not os.path.exists(path):
        time.sleep(0.02)
    note(ctx, "end")


@app.task(retry=MANY)
async def prove(ctx: fl.Context, checks: int, ms: int = 0) -> dict[str, Any]:
    """Hand work over; it is done at the check of this number."""
    note(ctx, "start")
    await asyncio.sleep(ms / 1000)
    note(ctx, "end")
    return {"job": str(ctx.job_id), "attempt": ctx.attempt}


@prove.verify(every=0.02)
def check_proof(reference: dict[str, Any], ctx: fl.Context, checks: int) -> fl.Verified[Any] | fl.Pending:
    note(ctx, f"check-{ctx.check}-of-{reference['attempt']}")
    return fl.Verified(reference) if ctx.check >= checks else fl.Pending()


@app.task(retry=MANY)
def climb(ctx: fl.Context, steps: int) -> int:
    """Go on from the step where the last run stopped; each is noted, then saved."""
    note(ctx, "start")
    for step in range(ctx.saved or 0, steps):
        note(ctx, f"step-{step}")
        ctx.checkpoint(step + 1)
        time.sleep(0.01)
    note(ctx, "end")
    return steps


@app.task(retry=MANY)
async def aclimb(ctx: fl.Context, steps: int) -> int:
    """The same in the event loop."""
    note(ctx, "start")
    for step in range(ctx.saved or 0, steps):
        note(ctx, f"step-{step}")
        await ctx.acheckpoint(step + 1)
        await asyncio.sleep(0.01)
    note(ctx, "end")
    return steps


@app.task(retry=MANY)
def valued(ctx: fl.Context, value: str) -> str:
    """Write the value beside the oracle log's line: which arguments ran."""
    note(ctx, "start")
    write(value, ctx.attempt, 0, "value", ctx.tenant)
    note(ctx, "end")
    return value


@app.task(retry=fl.Retry(base=0.0, max_crashes=1_000, max_attempts=2))
def ends(ctx: fl.Context, path: str, how: str) -> str:
    """Run until a file exists, and end in a way; the second attempt completes."""
    note(ctx, "start")
    while not os.path.exists(path):
        time.sleep(0.005)
    if ctx.attempt > 1 or how == "success":
        note(ctx, "end")
        return f"attempt {ctx.attempt}"
    note(ctx, "fail")
    if how == "snooze":
        raise fl.Snooze(0.1)
    raise {"fail": ValueError("late"), "dead": fl.Dead("late"), "cancel": fl.Cancel("late")}[how]


@app.task(retry=fl.Retry(base=0.3, jitter=0.0, max_attempts=3))
def fails_once(ctx: fl.Context) -> None:
    note(ctx, "start")
    if ctx.attempt == 1:
        note(ctx, "fail")
        raise ValueError("once")
    note(ctx, "end")


@app.task(retry=fl.Retry(base=0.05, max_crashes=1_000, max_attempts=6), limits=["shared"])
def mixed(ctx: fl.Context, seed: int) -> int:
    """Do one of many things, drawn anew for each attempt."""
    note_all(ctx, "start")
    rng = random.Random(seed * 100 + ctx.attempt)
    draw = rng.random()
    time.sleep(rng.uniform(0, 0.03) if draw < 0.97 else 1.5)  # longer than a lease
    if draw < 0.1 and ctx.attempt < 4:
        note_all(ctx, "fail")
        raise ValueError(seed)
    if draw < 0.15 and ctx.saved is None:
        ctx.checkpoint({"snoozed": True})
        note_all(ctx, "snooze")
        raise fl.Snooze(rng.uniform(0, 0.3))
    note_all(ctx, "end")
    return seed


@app.task(retry=fl.Retry(base=0.05, max_crashes=1_000, max_attempts=6), preemptible=True)
async def mixed_async(ctx: fl.Context, seed: int) -> int:
    """The same in the event loop, which it sometimes blocks; it may be told to give way."""
    note_all(ctx, "start")
    rng = random.Random(seed * 100 + ctx.attempt)
    draw = rng.random()
    try:
        await asyncio.sleep(rng.uniform(0, 0.03) if draw < 0.95 else 1.5)
    except asyncio.CancelledError:
        note_all(ctx, "yield")
        raise
    if draw < 0.02:
        time.sleep(0.7)  # noqa: ASYNC251  that is the point of it
    if draw < 0.1 and ctx.attempt < 4:
        note_all(ctx, "fail")
        raise ValueError(seed)
    note_all(ctx, "end")
    return seed


@app.task
def leaves(ctx: fl.Context) -> None:
    """End the process like a C library that gives up."""
    note(ctx, "start")
    note(ctx, "dies")
    os._exit(3)


@app.task
def hungry(ctx: fl.Context) -> None:
    """Ask for more memory than there is."""
    note(ctx, "start")
    limit = 2**30
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
    try:
        bytearray(4 * limit)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@app.task(retry=MANY)
def splits(ctx: fl.Context, how: str) -> str:
    """Fork, and go on in both processes; the child ends by itself, or returns as if it were the handler."""
    note(ctx, "start")
    child = os.fork()
    if child == 0 and how == "exits":
        os._exit(0)
    if child:
        os.waitpid(child, 0)
        note(ctx, "end")
    return "child" if child == 0 else "parent"


@app.task(retry=MANY)
def litters(ctx: fl.Context) -> None:
    """Leave threads behind that never end."""
    note(ctx, "start")
    for _ in range(3):
        threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
    note(ctx, "end")


@app.task(retry=MANY)
async def stubborn(ctx: fl.Context) -> None:
    """Swallow every cancellation."""
    note(ctx, "start")
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)


@app.task(retry=MANY)
def keeps_the_lock(ctx: fl.Context, ms: int) -> None:
    """Keep the interpreter's lock, as C code does that never lets go of it."""
    note(ctx, "start")
    ctypes.PyDLL(None).usleep(ms * 1000)
    note(ctx, "end")


# ---------------------------------------------------------------- roles


def worker(until_idle: bool = False, **options: Any) -> None:
    made = app.worker(**{"concurrency": 4, "lease": 5.0, "grace": 5.0} | options)
    made.run(until_idle=until_idle)
    if made.abandoned:
        os._exit(0)
    app.close()


def scheduled(every: float = 1.0, **options: Any) -> None:
    """A worker whose code has a schedule."""
    app.every(every, name="tick", misfire="run_all")(nap)
    worker(**options)


def producer(task: str, count: int, args: dict[str, Any], tenants: list[str], pause_ms: float = 0.0) -> None:
    for n in range(count):
        accepted(app.enqueue(task, args, tenant=tenants[n % len(tenants)]))
        time.sleep(pause_ms / 1000)


def mixer(seed: int) -> None:
    """Enqueue with all options, for ever; what was refused is not written down."""
    rng = random.Random(seed)
    tasks = {"mixed": 55, "mixed_async": 35, "prove": 9, "poison": 0.3, "leaves": 0.3}
    last: list[Any] = []
    while True:
        (task,) = rng.choices(list(tasks), list(tasks.values()))
        args: dict[str, Any] = {"seed": rng.randrange(10**6)} if task.startswith("mixed") else {}
        if task == "prove":
            args = {"checks": rng.randint(1, 3), "ms": 5}
        options: dict[str, Any] = {
            "tenant": rng.choice("abcdef"),
            "tier": rng.choice(["critical", "high", "normal", "low", "background"]),
            "queue": rng.choice(["default", "narrow"]),
            "delay": rng.choice([0, 0, 0, rng.uniform(0, 1.5)]),
            "expedite": rng.random() < 0.03,
        }
        if rng.random() < 0.2:
            options["dedup_key"] = f"key {rng.randrange(40)}"
            options["on_conflict"] = rng.choice(["return", "replace", "successor"])
        elif last and rng.random() < 0.1:
            options["after"] = [last[-1]]
            options["on_failure"] = rng.choice(["run", "cancel"])
        with contextlib.suppress(fl.FairlaneError):
            if rng.random() < 0.9:
                last = [app.enqueue(task, args, **options)]
            else:
                last = list(app.enqueue_many([app.new(task, args, **options) for _ in range(5)]))
            for job in last:
                accepted(job)
        time.sleep(rng.uniform(0, 0.04))


def burst(coroutines: int) -> None:
    """Enqueue from many coroutines at once, for ever."""

    async def one() -> None:
        while True:
            accepted(await app.aenqueue("nap", {}))

    async def every() -> None:
        await asyncio.gather(*(one() for _ in range(coroutines)))

    asyncio.run(every())


def racer(claims: int) -> None:
    """Claim the one job, give it back, and again, until it was claimed ``claims`` times by anybody."""
    while True:
        claim = app.claim(lease=30)
        if claim is None:
            continue
        if claim.fence > claims:
            claim.ack()
            return
        write(str(claim.id), claim.attempt, claim.fence, "start", "default")
        write(str(claim.id), claim.attempt, claim.fence, "end", "default")
        claim.release()
        if claim.fence == claims:
            return


def puller(lease: float) -> None:
    """Claim one job, and never say what became of it."""
    claim = app.claim(lease=lease, wait=10)
    assert claim is not None
    write(str(claim.id), claim.attempt, claim.fence, "start", "default")
    signal.pause()


def writer(count: int) -> None:
    """Enqueue, and count what was refused."""
    for _ in range(count):
        accepted(app.enqueue("nap", {}))
        time.sleep(0.1)


def holder(seconds: float) -> None:
    """A program that knows nothing of us: it holds the write lock of the file."""
    db = sqlite3.connect(os.environ["URL"].removeprefix("sqlite:///"), isolation_level=None)
    db.execute("BEGIN IMMEDIATE")
    os.write(1, b"held\n")
    time.sleep(seconds)
    db.execute("ROLLBACK")


def holds_the_gate() -> None:
    """Begin a transaction and stand still in it, until it is over; then say what came of it."""

    def hold(store: Store, now_ms: int) -> None:
        os.write(1, b"held\n")
        os.read(0, 1)
        store.counts()

    try:
        app.owner.call(hold)
    except fl.StoreError:
        os.write(1, b"lost\n")
    else:
        os.write(1, b"kept\n")


def stops_inside() -> None:
    """Stop in the middle of a transaction."""
    app.enqueue("nap", {"ms": 0})
    app.owner.call(lambda store, now_ms: signal.pthread_kill(threading.get_ident(), signal.SIGSTOP))


def _reap(alive: list[int]) -> None:
    """Wait for children, and take those that ended well from the list; some may hang."""
    until = time.monotonic() + 12
    while alive and time.monotonic() < until:
        for child in list(alive):
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                alive.remove(child)
                assert status == 0, f"a child ended with {status}"
        time.sleep(0.01)


def forker(children: int, busy: bool) -> None:
    """Fork children that enqueue and end in both ways, while our own threads write."""
    accepted(app.enqueue("nap", {}))
    ending = threading.Event()

    def write_on() -> None:
        while not ending.is_set():
            accepted(app.enqueue("nap", {}))

    threads = [threading.Thread(target=write_on, daemon=True) for _ in range(2 if busy else 0)]
    for thread in threads:
        thread.start()
    alive: list[int] = []
    for number in range(children):
        child = os.fork()
        if child == 0:
            accepted(app.enqueue("nap", {}))
            if number % 2:
                os._exit(0)
            sys.exit(0)
        alive.append(child)
        if busy:
            time.sleep(0.01)
    _reap(alive)
    ending.set()
    for child in alive:
        os.kill(child, signal.SIGKILL)
    assert not alive, f"{len(alive)} children hang"
    accepted(app.enqueue("nap", {}))
    app.close()


def outlived() -> None:
    """A parent that closes its store while a forked child goes on."""
    accepted(app.enqueue("nap", {}))
    closed, close = os.pipe()
    began, begin = os.pipe()
    if os.fork() == 0:
        os.close(close)
        accepted(app.enqueue("nap", {}))
        os.write(begin, b"!")
        os.read(closed, 1)  # the end of the file: the parent has closed
        for _ in range(20):
            accepted(app.enqueue("nap", {}))
        os._exit(0)
    os.read(began, 1)
    app.close()
    os.close(close)
    assert os.wait()[1] == 0


def child_closes() -> None:
    """A forked child closes what it never used; the parent must still hear news of others."""
    heard = threading.Event()
    app.owner.listen(lambda news: heard.set())
    child = os.fork()
    if child == 0:
        app.close()
        os._exit(0)
    os.waitpid(child, 0)
    os.write(1, b"listening\n")
    os.write(1, b"heard\n" if heard.wait(5) else b"deaf\n")


def keyed(mode: str, keys: int, times: int, folder: str, name: str, ttl: float | None = None) -> None:
    """Enqueue jobs with the same keys as other producers, from one instant on; write down what was answered."""
    app.owner  # noqa: B018  opened before the race
    Path(folder, f"{name}.ready").touch()
    while not os.path.exists(f"{folder}/go"):
        time.sleep(0.001)
    told: list[str] = []
    for number in range(times):
        for key in range(keys):
            value = f"{name}.{number}.{key}"
            asked_ns = time.monotonic_ns()
            try:
                job = app.enqueue(
                    "valued",
                    {"value": value},
                    dedup_key=f"k{key}",
                    on_conflict=mode,  # type: ignore[arg-type]
                    dedup_ttl=ttl,
                )
            except fl.DedupConflict as error:
                told.append(f"conflict {error.job_id} {key} {value} {asked_ns}")
                continue
            accepted(job)
            told.append(f"{'created' if job.created else 'held'} {job.id} {key} {value} {asked_ns}")
    Path(folder, f"{name}.told").write_text("\n".join(told))


def herd(count: int, **options: Any) -> None:
    """So many of these, as forked children: starting them takes no time."""
    children: list[int] = []
    for number in range(count):
        child = os.fork()
        if child == 0:
            keyed(name=f"p{number}", **options)
            os._exit(0)
        children.append(child)
    assert all(os.waitpid(child, 0)[1] == 0 for child in children)


if __name__ == "__main__":
    globals()[sys.argv[1]](**json.loads(sys.argv[2] if len(sys.argv) > 2 else "{}"))
    Path(os.environ["LOG"]).touch()
