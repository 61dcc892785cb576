"""The dashboard beside a demo, in a process of its own: ``python -m fairlane.show.site FOLDER``, store in FAIRLANE_URL.

It needs the extra ``server``; without it a demo goes on without a dashboard. Like the workers it stops when it is told
to, and when its parent is gone: then it takes the folder away, for nobody else will.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Final

STOP_S: Final = 3.0
NEEDED: Final = ("fastapi", "jinja2", "uvicorn")
HINT: Final = "The dashboard needs more libraries: pip install 'fairlane[server]'"


def installed() -> bool:
    """Return whether what the dashboard needs is here."""
    return all(find_spec(name) is not None for name in NEEDED)


class Site:
    """A server process. :meth:`stop` is safe to call twice.

    Args:
        url: The store.
        folder: Where the store is.
    """

    def __init__(self, url: str, folder: Path) -> None:
        self._address: str | None = None
        self._said = threading.Event()
        # Its settings come from here alone, not from the caller's environment or folder.
        env = {name: value for name, value in os.environ.items() if not name.startswith("FAIRLANE_")}
        self._process = subprocess.Popen(  # noqa: S603  this python, and a module of our own
            [sys.executable, "-m", "fairlane.show.site", str(folder)],
            stdin=subprocess.PIPE,  # its end tells the server that we are gone
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=env | {"PYTHONSAFEPATH": "1", "FAIRLANE_URL": url},  # others can read a command line
            cwd=folder,
            start_new_session=True,  # Ctrl-C is ours to handle
        )
        self._listener = threading.Thread(target=self._listen, name="site", daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        self._address = stdout.readline().decode().strip() or None
        self._said.set()

    def address(self, wait_s: float) -> str | None:
        """Return where the dashboard is; None when it did not start within ``wait_s`` seconds."""
        self._said.wait(wait_s)
        return self._address

    def stop(self) -> None:
        """End it."""
        process = self._process
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._listener.join()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def _follow_parent(orphaned: threading.Event) -> None:
    """End this process when the parent is gone: then nobody holds the other end of standard input."""
    while os.read(0, 1024):
        pass
    orphaned.set()
    os.kill(os.getpid(), signal.SIGTERM)


def main(folder: str) -> None:
    """Serve until told to stop."""
    from fairlane.app import Fairlane  # noqa: PLC0415  whoever starts this process needs none of it
    from fairlane.http.app import create_app  # noqa: PLC0415
    from fairlane.http.options import HttpOptions  # noqa: PLC0415
    from fairlane.http.serving import address_of, listening, serve  # noqa: PLC0415

    orphaned = threading.Event()
    with Fairlane() as app:
        web = create_app(app, options=HttpOptions(open_on_loopback=True, maintenance=False))
        with listening("127.0.0.1", 0) as sock:
            sys.stdout.write(address_of(sock) + "\n")
            sys.stdout.flush()
            threading.Thread(target=_follow_parent, args=(orphaned,), daemon=True).start()
            serve(web, sock, log_level="critical")
    if orphaned.is_set():
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
