"""Where the time goes, as a flame graph: a worker that empties a queue, and a caller that stores jobs one by one.

    pip install -r bench/requirements.txt    py-spy; the kernel may allow it to root alone
    python bench/flame.py                     both, on a new file each, into build/flame-drain.svg and flame-enqueue.svg
    python bench/flame.py drain --jobs 50000 --out docs/img
    python bench/flame.py enqueue --url postgresql://…    a migrated database of yours without jobs

py-spy looks at all threads of a process again and again, into what is not Python too; a box is as wide as the share of
its samples. Threads that wait for each other or for something to do are left out, those that wait for the disk are not.
The process's start and end are left out as well. Opened by itself, the picture tells each box's file and share.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Final

import fairlane as fl

RATE: Final = 200
"""Looks a second."""
JOBS: Final = {"drain": 30_000, "enqueue": 5_000}
ABOUT: Final = {
    "drain": "a worker runs jobs that do nothing, 100 at once",
    "enqueue": "one caller stores jobs one by one",
}
WAITS: Final = re.compile(
    r"acquire_lock|^(epoll_wait|poll|select|sem_\w+|pthread_cond_\w+|futex\w*|clock_nanosleep|nanosleep)\b"
    r"|^(select_(epoll_)?poll|take_gil|EpollSelector\.select|Event\.wait|Condition\.wait)"
)
"""Frames of threads that have nothing to do; looking for events is taken for waiting."""
WATCHED: Final = re.compile(r"^((drain|enqueue) \(.*flame\.py|Thread\.run )")
LEFT_OUT: Final = re.compile(r"^_find_and_load ")
BORING: Final = re.compile(r"^(0x|thread_run |Thread\.|_start |__libc|main |Py_|pymain|_Py|run_mod|run_eval)")
"""Frames of every stack that say nothing."""
FLUSH: Final = re.compile(r"^(fdatasync|fsync)\b")
ROW: Final = 16
WIDTH: Final = 1_200
LEAST: Final = 2.0
"""Width of the narrowest box that is drawn, in points."""
LETTER: Final = 6.2
COLOURS: Final = {
    "thread": ("#d9d9e3", "thread"),
    "fairlane": ("#f6b26b", "fairlane"),
    "python": ("#ffe599", "Python and its library"),
    "native": ("#9fc5e8", "C: SQLite, libpq, …"),
    "flush": ("#e06666", "flushing the disk"),
}


# ---------------------------------------------------------------- what is looked at


def drain(url: str) -> None:
    """Empty the queue."""
    with fl.Fairlane(url) as app:

        @app.task(name="nothing")
        async def nothing() -> None: ...

        app.run_worker(until_idle=True, signals=False, concurrency=100)


def enqueue(url: str, jobs: int) -> None:
    """Store jobs, each in a call of its own."""
    with fl.Fairlane(url) as app:
        for number in range(jobs):
            app.enqueue("nothing", tenant=f"t{number % 100}")


def fill(url: str, jobs: int) -> None:
    """Store jobs for a drain."""
    with fl.Fairlane(url) as app:
        app.enqueue_many(app.new("nothing", tenant=f"t{number % 100}") for number in range(jobs))


# ---------------------------------------------------------------- the graph


@dataclass
class Box:
    """A frame in the samples of its callers.

    Attributes:
        samples: How many samples it is in.
        callees: What it called, by frame.
    """

    samples: int = 0
    callees: dict[str, Box] = field(default_factory=dict)


def grown(lines: Iterator[str]) -> Box:
    """Return the tree of all samples in py-spy's raw lines, ``frame;frame;frame count``."""
    root = Box()
    for line in lines:
        stack, _, count = line.strip().rpartition(" ")
        frames = stack.split(";")
        if not any(map(WATCHED.search, frames)) or any(WAITS.search(one) or LEFT_OUT.search(one) for one in frames):
            continue
        box = root
        box.samples += int(count)
        for frame in frames:
            if not BORING.search(frame):
                box = box.callees.setdefault(named(frame), Box())
                box.samples += int(count)
    return root


def named(frame: str) -> str:
    """Return a frame without numbers of threads and lines, and with no more of its path than the file in its package.

    Example:
        >>> named("thread (0x7F1): fairlane-owner"), named("Owner.call (/usr/lib/python3/fairlane/owner.py:188)")
        ('thread fairlane-owner', 'Owner.call (fairlane/owner.py)')
    """
    if thread := re.match(r"thread \(\w+\):? ?(.*)", frame):
        return f"thread {thread[1] or 'main'}"
    function, _, path = frame.removesuffix(")").rpartition(" (")
    within = re.search(r"(?:^|/)(fairlane/[^:]*)", path)
    short = within[1] if within else path.rpartition("/")[2]
    return f"{function} ({short.partition(':')[0]})" if function else frame


def kind(frame: str) -> str:
    """Return which colour a frame has."""
    if frame.startswith("thread "):
        return "thread"
    if FLUSH.search(frame):
        return "flush"
    if "(fairlane/" in frame:
        return "fairlane"
    return "python" if frame.endswith(".py)") else "native"


def drawn(root: Box, title: str) -> str:
    """Return the picture: callers below, what they call above them, the widest to the left."""
    scale = WIDTH / max(1, root.samples)

    def boxes(box: Box, left: float, level: int) -> Iterator[tuple[float, int, str, int]]:
        for frame, callee in sorted(box.callees.items(), key=lambda one: -one[1].samples):
            if callee.samples * scale >= LEAST:
                yield left, level, frame, callee.samples
                yield from boxes(callee, left, level + 1)
            left += callee.samples * scale

    found = list(boxes(root, 0.0, 0))
    bottom = 3 * ROW + ROW * max((level + 1 for _, level, _, _ in found), default=1)
    rules = "".join(f".{name}{{fill:{colour}}}" for name, (colour, _) in COLOURS.items())
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 4}" font-family="sans-serif"'
        f' font-size="11"><style>rect{{stroke:#fff;stroke-width:.6}}{rules}</style>',
        f'<path fill="#fff" d="M0 0h{WIDTH}v{bottom + 4}H0z"/>',
        f'<text x="4" y="13" font-weight="bold">{escape(title)}</text>',
    ]
    for number, (name, (_, about)) in enumerate(COLOURS.items()):
        at = 4 + number * 160
        lines.append(
            f'<rect class="{name}" x="{at}" y="20" width="11" height="11"/><text x="{at + 15}" y="29">{about}</text>'
        )
    for left, level, frame, samples in found:
        top, width = bottom - ROW * (level + 1), samples * scale
        letters = int((width - 4) / LETTER)
        shown = frame if len(frame) <= letters else frame.partition(" (")[0][:letters]
        text = f'<text x="{left + 2:.1f}" y="{top + 12}">{escape(shown)}</text>' if letters > 2 else ""
        lines.append(
            f"<g><title>{escape(frame)}: {100 * samples / root.samples:.1f} %</title>"
            f'<rect class="{kind(frame)}" x="{left:.1f}" y="{top}" width="{width:.1f}" height="{ROW}"/>{text}</g>'
        )
    return "\n".join([*lines, "</svg>", ""])


def watched(what: str, url: str, jobs: int, raw: Path) -> None:
    """Run one thing under py-spy."""
    program = shutil.which("py-spy") or str(Path(sys.executable).parent / "py-spy")
    looks = ["--rate", str(RATE), "--native", "--threads", "--function", "--format", "raw", "--output", str(raw)]
    again = [sys.executable, __file__, what, "--url", url, "--jobs", str(jobs), "--watched"]
    subprocess.run([program, "record", *looks, "--", *again], check=True, stdout=sys.stderr)


def main() -> None:
    """Watch and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", help="drain, enqueue; default: both")
    parser.add_argument("--jobs", type=int, help="how many")
    parser.add_argument("--url", help="a store without jobs; default: a new file")
    parser.add_argument("--out", type=Path, default=Path("build"), help="the folder of the pictures")
    parser.add_argument("--watched", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.watched:
        drain(options.url) if options.what == ["drain"] else enqueue(options.url, options.jobs)
        return
    if not (shutil.which("py-spy") or (Path(sys.executable).parent / "py-spy").exists()):
        print("LEFT OUT: py-spy is not there; pip install -r bench/requirements.txt")
        return
    options.out.mkdir(parents=True, exist_ok=True)
    for what in options.what or JOBS:
        jobs = options.jobs or JOBS[what]
        with tempfile.TemporaryDirectory(dir=options.out) as folder:  # a disk, and not a folder in memory
            url, raw = options.url or f"sqlite:///{Path(folder).absolute()}/jobs.db", Path(folder) / "raw.txt"
            fill(url, jobs if what == "drain" else 1)  # also makes the store, which is no part of either
            watched(what, url, jobs, raw)
            root = grown(iter(raw.read_text().splitlines()))
        store = "PostgreSQL" if url.startswith("postgres") else "SQLite"
        picture = drawn(root, f"{ABOUT[what]} ({store}, {root.samples:,} samples)")
        path = options.out / f"flame-{what}.svg"
        path.write_text(picture)
        print(f"{path}: {len(picture) / 1024:.0f} KiB, {root.samples} samples")


if __name__ == "__main__":
    main()
