"""Makes the pictures of README.md: the demo in a terminal, and its dashboard, both taken from one real run.

    python docs/gen_pictures.py        writes docs/img/demo.svg and docs/img/dashboard-{light,dark}.png

Needs tmux, Debian's chromium, and the development environment. What the demo does differs a little from run to run, so
nothing compares the pictures with what is committed: make them again when the demo or the dashboard changes.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from playwright.sync_api import ViewportSize, sync_playwright
from rich.console import Console
from rich.text import Text

HERE: Final = Path(__file__).parent
WIDTH, HEIGHT = 110, 38
WAIT_S: Final = 40.0
SHOWN_AFTER_S: Final = 18.0
"""When most of the demo has happened: the flood, the worker that is killed, the express job."""
TMUX: Final = shutil.which("tmux") or "tmux"
CHROMIUM: Final = "/usr/bin/chromium"
SIZE: Final[ViewportSize] = {"width": 1280, "height": 1130}
FLAGS: Final = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
SVG: Final = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font: {char_height}px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; \
line-height: {line_height}px; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>\
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""
"""Rich's own frame asks another site for a font."""


def tmux(*args: str) -> str:
    """Run a command of a tmux server of our own."""
    command = [TMUX, "-L", "fairlane-pictures", *args]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603 - our own words


def screen(*, colours: bool = False) -> str:
    """Return what the terminal shows."""
    return tmux("capture-pane", "-p", *(["-e"] if colours else []), "-t", "demo")


def drawn(text: str) -> str:
    """Return a terminal's text, with its colours, as SVG."""
    lines = text.rstrip().splitlines()
    with Path("/dev/null").open("w") as nowhere:
        console = Console(record=True, width=WIDTH, height=len(lines), file=nowhere, force_terminal=True)
        console.print(Text.from_ansi("\n".join(lines)), no_wrap=True, overflow="crop")
        return console.export_svg(title="make demo", code_format=SVG, unique_id="demo")


def photographed(url: str) -> None:
    """Take the dashboard's first page in both schemes."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for scheme in ("light", "dark"):
            page = browser.new_page(viewport=SIZE, color_scheme=scheme)
            page.goto(url)
            page.wait_for_load_state("load")
            page.screenshot(path=HERE / "img" / f"dashboard-{scheme}.png")
            page.close()
        browser.close()


def main() -> None:
    """Run the demo and take its pictures."""
    (HERE / "img").mkdir(exist_ok=True)
    program = Path(sys.executable).with_name("fairlane")
    tmux("new-session", "-d", "-s", "demo", "-x", str(WIDTH), "-y", str(HEIGHT), f"{program} demo --keep")
    try:
        began = time.monotonic()
        while (found := re.search(r"http://127\.0\.0\.1:\d+\S*", screen())) is None:
            if time.monotonic() > began + WAIT_S:
                raise TimeoutError("the demo tells no address")
            time.sleep(0.2)
        time.sleep(max(0.0, began + SHOWN_AFTER_S - time.monotonic()))
        (HERE / "img" / "demo.svg").write_text(drawn(screen(colours=True)))
        photographed(found[0].rstrip(".,"))
    finally:
        tmux("send-keys", "-t", "demo", "C-c")
        time.sleep(3)
        with contextlib.suppress(subprocess.CalledProcessError):  # it has ended by itself
            tmux("kill-server")


if __name__ == "__main__":
    main()
