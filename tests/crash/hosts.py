"""Hosts of a test's own: network namespaces, each on a cable to this machine, and a server that they reach."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.pg import Server, pg_ctl, server

NET = "198.18"
"""Addresses that belong to nobody (RFC 2544: for tests between networks)."""


class Host:
    """A namespace with one cable to this machine.

    Args:
        number: Which of this process's, 0 to 63: each has a network of four addresses.
    """

    def __init__(self, number: int) -> None:
        pid = os.getpid()
        self.name = f"fairlane-{pid}-{number}"
        self.cable = f"fl{pid}-{number}"
        here, there = (f"{NET}.{pid % 256}.{4 * number + end}" for end in (1, 2))
        self.server_address, self.address = here, there
        ip("netns", "add", self.name)
        try:
            ip("link", "add", self.cable, "type", "veth", "peer", "name", "eth0", "netns", self.name)
            ip("address", "add", f"{here}/30", "dev", self.cable)
            ip("link", "set", self.cable, "up")
            ip("-n", self.name, "address", "add", f"{there}/30", "dev", "eth0")
            for device in ("lo", "eth0"):
                ip("-n", self.name, "link", "set", device, "up")
        except BaseException:
            self.close()
            raise

    @property
    def inside(self) -> Sequence[str]:
        """What runs a command there; the process stays the same."""
        return ("ip", "netns", "exec", self.name)

    def cut(self) -> None:
        """Take the cable out. What is sent there and back is lost in silence."""
        ip("link", "set", self.cable, "down")

    def mend(self) -> None:
        """Put the cable in again."""
        ip("link", "set", self.cable, "up")

    def close(self) -> None:
        """Remove everything; its processes must be gone."""
        for command in (("link", "delete", self.cable), ("netns", "delete", self.name)):
            with contextlib.suppress(subprocess.CalledProcessError):
                ip(*command)


def ip(*args: str) -> None:
    """Run ``ip``."""
    subprocess.run(["ip", *args], check=True, capture_output=True, text=True)


def why_not() -> str:
    """Return why there can be no hosts here; empty when there can."""
    if shutil.which("ip") is None:
        return "there is no program ip (iproute2)"
    try:
        Host(63).close()
    except subprocess.CalledProcessError as error:
        return f"{' '.join(error.cmd)} is not permitted here: {error.stderr.strip()}"
    return ""


@contextmanager
def listening(addresses: Sequence[str], **settings: str) -> Iterator[tuple[Server, int]]:
    """Start a server that listens on addresses of this machine; give it, and its port.

    Args:
        addresses: Where; only hosts of tests may connect.
        settings: More of ``postgresql.conf``.
    """
    with socket.create_server((addresses[0], 0)) as free:
        port: int = free.getsockname()[1]
    with server(**settings) as quiet:
        ((data, sockets),) = quiet.run(
            "SELECT current_setting('data_directory'), current_setting('unix_socket_directories')"
        )
        with Path(data, "pg_hba.conf").open("a") as rules:
            rules.write(f"host all all {NET}.0.0/16 trust\n")
        pg_ctl(Path(data), "-m", "fast", "stop")
        where = f"-h {','.join(addresses)} -p {port} -k {sockets}"
        pg_ctl(Path(data), "-o", where, "-l", str(Path(data, "log")), "start")
        try:
            loud = Server(f"postgresql://postgres@/postgres?host={sockets}&port={port}")
            try:
                yield loud, port
            finally:
                loud.close()
        finally:
            pg_ctl(Path(data), "-m", "immediate", "stop")
