"""What is on the disk for certain: a trace of a program's system calls, replayed up to any moment.

``strace`` writes down every write and flush of one process. :class:`Disk` replays them: what was written before a
file's last flush is there after a power cut; of what came later, any part may be there or not, sector by sector.
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

from images import Image

SECTOR: Final = 512
CALLS: Final = "pwrite64,write,fdatasync,fsync,ftruncate"
_LINE: Final = re.compile(r'^(?:\d+ +)?(\w+)\((\d+)<([^>]*)>(?:, (?:"((?:\\x[0-9a-f]{2})*)")?(.*))?\) += (-?\d+)')


class Call(NamedTuple):
    """One system call: its name, the file, what was written and where."""

    name: str
    path: str
    body: bytes
    at: int


def can_trace(folder: Path) -> bool:
    """Return whether this machine has strace and lets it trace."""
    if shutil.which("strace") is None:
        return False
    probe = ["strace", "-o", str(folder / "probe"), "true"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


def trace(folder: Path, program: Path, *args: str, **env: Any) -> list[Call]:
    """Run a program in one thread and return what it wrote and flushed, in order."""
    out = folder / "trace"
    command = ["strace", "-y", "-xx", "-s", "70000", "-e", f"trace={CALLS}", "-o", str(out)]
    subprocess.run([*command, sys.executable, str(program), *args], check=True, cwd=folder, **env)
    calls: list[Call] = []
    with out.open() as lines:
        for line in lines:
            match = _LINE.match(line)
            if match is None or int(match[6]) < 0:
                continue
            name, _, path, text, rest, _ = match.groups()
            body = _decoded(text or "")
            numbers = [int(one) for one in re.findall(r"\d+", rest or "")]
            at = numbers[-1] if name in {"pwrite64", "ftruncate"} else -1
            calls.append(Call(name, _decoded(path).decode(), body, at))
    return calls


def _decoded(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


class Disk:
    """The files of a folder after a number of calls, with what is certain and what is not."""

    def __init__(self) -> None:
        self.certain: dict[str, bytearray] = {}
        self.open: dict[str, list[Call]] = {}

    def do(self, call: Call) -> None:
        """Replay one call."""
        if call.name in {"fsync", "fdatasync"}:
            for one in self.open.pop(call.path, []):
                _apply(self.certain.setdefault(call.path, bytearray()), one)
        elif call.at >= 0:
            self.open.setdefault(call.path, []).append(call)

    def after_power_cut(self, path: str, rng: random.Random) -> bytes:
        """Return a file as the next start may find it."""
        body = bytearray(self.certain.get(path, b""))
        share = rng.choice((0.0, 0.5, 0.95, 1.0))
        for call in self.open.get(path, []):
            if call.name == "ftruncate":
                if rng.random() < share:
                    _apply(body, call)
                continue
            for start in range(0, len(call.body), SECTOR):
                if rng.random() < share:
                    _apply(body, Call("pwrite64", path, call.body[start : start + SECTOR], call.at + start))
        return bytes(body)

    def image(self, path: Path, rng: random.Random) -> Image:
        """Return a database and its WAL likewise."""
        return Image(self.after_power_cut(str(path), rng), self.after_power_cut(f"{path}-wal", rng))


def _apply(body: bytearray, call: Call) -> None:
    if call.name == "ftruncate":
        del body[call.at :]
        body.extend(bytes(call.at - len(body)))
        return
    body.extend(bytes(max(0, call.at - len(body))))
    body[call.at : call.at + len(call.body)] = call.body
