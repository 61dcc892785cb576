"""The dashboard in a real browser, from a real server process on a real store: live, by keyboard, without barriers."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # "importlib" mode finds no neighbours by itself

from dash_rig import PAGES, fill

import fairlane as fl
from fairlane.clock import SystemClock
from fairlane.testing import ManualClock

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: no browser test is run")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text()
ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SEEN = (*PAGES, "/jobs/{dead}", "/jobs/{waiting}", "/dead/group?id={group}", "/bulk/{bulk}", "/jobs?q=tier:hihg")

sync_api.expect.set_options(timeout=30_000)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(180),  # a browser on a busy machine
    pytest.mark.skipif(CHROMIUM is None, reason="NO BROWSER: install chromium, or none of these tests is run"),
]


class Site:
    """A server process, and an app on its store."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder / 'jobs.db'}"
        clock = ManualClock(SystemClock().now_ms() - 300_000)
        with fl.Fairlane(self.url, clock=clock, durability="normal") as app:
            fill(app, clock)
            self.ids = {
                "dead": str(app.jobs(state="dead")[0].id),
                "waiting": str(app.jobs(state="available", tenant="initech")[0].id),
                "group": app.dead.groups()[0].fingerprint,
                "bulk": str(app.operations()[0].id),
            }
        env = {name: value for name, value in os.environ.items() if not name.startswith("FAIRLANE_")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fairlane", "server", "--url", self.url, "--port", "0"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env, cwd=folder,
        )  # fmt: skip
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        found = re.search(r"http://\S+", said)
        assert found is not None, said
        self.address = found[0].rstrip("/")
        self.app = fl.Fairlane(self.url)

    def __call__(self, path: str) -> str:
        return self.address + path.format(**self.ids)

    def stop(self) -> None:
        self.app.close()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(15)
        finally:
            assert self.process.stdout is not None
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("site"))
    yield made
    made.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        yield running
        running.close()


@pytest.fixture
def context(browser: Any) -> Iterator[Any]:
    made = browser.new_context(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
    made.set_default_timeout(30_000)
    yield made
    made.close()


@pytest.fixture
def page(context: Any) -> Iterator[Any]:
    """A page whose console must stay empty: what the policy refuses would be told there."""
    made = context.new_page()
    said: list[str] = []
    made.on("console", lambda message: said.append(message.text) if message.type in {"error", "warning"} else None)
    made.on("pageerror", lambda error: said.append(str(error)))
    yield made
    assert said == []


# ---------------------------------------------------------------- barriers


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser: Any, site: Site, scheme: str):
    """axe-core finds no violation of WCAG 2.2 AA on any page, in either scheme."""
    context = browser.new_context(color_scheme=scheme, viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    found: list[str] = []
    for path in SEEN:
        page.goto(site(path))
        page.evaluate(AXE)
        tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
        told = page.evaluate("tags => axe.run(document, {runOnly: {type: 'tag', values: tags}})", tags)
        for one in told["violations"]:
            nodes = [node["html"][:160] for node in one["nodes"][:3]]
            found.append(f"{path} {scheme} {one['impact']} {one['id']}: {one['help']} {nodes}")
    context.close()
    assert found == []


@pytest.mark.parametrize("width", [360, 1280])
def test_no_page_scrolls_sideways(context: Any, site: Site, width: int):
    """Wide tables scroll in their own frame; the page never does."""
    page = context.new_page()
    page.set_viewport_size({"width": width, "height": 800})
    wide = []
    for path in SEEN:
        page.goto(site(path))
        if page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
            wide.append(path)
    assert wide == []


def test_every_page_keeps_its_console_empty(page: Any, site: Site):
    """No error of a script, nothing that the security policy refuses, no file that is missing."""
    for path in SEEN:
        page.goto(site(path))
        page.wait_for_function("!document.querySelector('.chart[data-chart]') || document.querySelector('.uplot')")


def test_nothing_moves_for_who_asks_for_less_motion(page: Any, site: Site):
    page.goto(site("/"))
    assert page.evaluate("document.getAnimations().length") == 0


def test_every_page_works_without_scripts(browser: Any, site: Site):
    """Figures, searches and forms are plain HTML."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    for path in SEEN:
        assert page.goto(site(path)).status == 200
    page.goto(site("/queue?name=render"))
    page.fill("#p-reason", "no script")
    page.get_by_role("button", name="Pause this queue").click()
    sync_api.expect(page.locator(".notice")).to_contain_text("Queue render is paused")
    page.get_by_role("button", name="Resume").click()
    sync_api.expect(page.locator(".notice")).to_contain_text("goes on")
    context.close()


# ---------------------------------------------------------------- keyboard


def test_keys_lead_everywhere(page: Any, site: Site):
    """/ ? g-something t j k x, and Escape."""
    page.goto(site("/"))
    page.keyboard.press("?")
    sync_api.expect(page.locator("#help")).to_be_visible()
    page.keyboard.press("Escape")
    sync_api.expect(page.locator("#help")).to_be_hidden()
    for key, path in (("t", "/tenants"), ("q", "/queues"), ("d", "/dead"), ("j", "/jobs")):
        page.keyboard.press("g")
        page.keyboard.press(key)
        page.wait_for_url(f"**{path}")
    page.keyboard.press("/")
    sync_api.expect(page.locator("#q")).to_be_focused()
    page.keyboard.type("state:completed")
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs?q=state*")
    page.keyboard.press("j")
    page.keyboard.press("j")
    second = page.locator("#live a[data-main]").nth(1)
    sync_api.expect(second).to_be_focused()
    page.keyboard.press("x")
    sync_api.expect(page.locator("input[data-row]").nth(1)).to_be_checked()
    sync_api.expect(page.locator("#chosen")).to_have_text("1 chosen")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs/0*")


def test_tab_goes_through_a_page_in_order_and_shows_where_it_is(page: Any, site: Site):
    """The first stop skips to the content; every stop can be seen; none is a trap."""
    page.goto(site("/"))
    page.keyboard.press("p")  # nothing is to be swapped on the way
    page.evaluate("document.activeElement.blur(); window.scrollTo(0, 0)")
    places: list[tuple[float, str]] = []
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    for _ in range(60):
        page.keyboard.press("Tab")
        told = page.evaluate(
            """() => { const at = document.activeElement, box = at.getBoundingClientRect();
            return [at.tagName, box.width * box.height, getComputedStyle(at).outlineStyle,
                    !!at.closest('#live'), at.textContent.trim().slice(0, 30)]; }"""
        )
        if told[0] == "BODY":
            break
        assert told[1] > 0, told
        assert told[2] != "none" or told[0] in {"SELECT"}, told
        places.append((told[3], told[4]))
    inside = [place[0] for place in places]
    assert inside.index(True) > 10  # the menu and the tools come first
    assert len(set(places)) > 20
    page.keyboard.press("p")


def test_the_skip_link_leads_to_the_content(page: Any, site: Site):
    page.goto(site("/jobs"))
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "live"


def test_colours_can_be_chosen_and_are_kept(page: Any, site: Site):
    """The switch goes against the system's choice, before the first paint of every later page."""
    page.goto(site("/"))
    dark = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(dark)
    page.keyboard.press("t")
    after = page.evaluate(dark)
    assert before != after
    sync_api.expect(page.locator("#theme")).to_have_attribute("aria-pressed", "true")
    page.goto(site("/queues"))
    assert page.evaluate(dark) == after
    page.click("#theme")
    assert page.evaluate(dark) == before


# ---------------------------------------------------------------- live


def available(page: Any) -> int:
    return int(page.locator("dl.tiles dd").first.inner_text().replace(",", ""))


def test_figures_move_by_themselves(page: Any, site: Site):
    """What is enqueued shows without a reload, and the tick says when that was."""
    page.goto(site("/"))
    before = available(page)
    page.evaluate("window.same = true")
    site.app.enqueue_many(site.app.new("live", queue="live", tenant="acme") for _ in range(7))
    sync_api.expect(page.locator("dl.tiles dd").first).to_have_text(f"{before + 7}")
    assert page.evaluate("window.same") is True
    sync_api.expect(page.locator("#state")).to_have_text("live")


def test_what_somebody_is_doing_survives_an_update(page: Any, site: Site):
    """Focus, ticked rows, a chosen action, typed text and open details stay when new figures come."""
    task = f"steady-{uuid4().hex[:8]}"
    site.app.enqueue_many(site.app.new(task, queue="live", tenant="acme") for _ in range(3))
    page.goto(site(f"/jobs?q=task%3A{task}"))
    page.locator("input[data-row]").nth(1).check()
    chosen = page.locator("input[data-row]:checked").get_attribute("value")
    page.select_option("#b-action", "boost")
    page.locator("details.card summary").click()
    page.fill("#q", "state:dead tier:")
    page.evaluate("document.querySelector('#q').setSelectionRange(3, 5); window.same = true")
    site.app.enqueue(task, queue="live", tenant="acme")
    sync_api.expect(page.locator("input[data-row]")).to_have_count(4)
    assert page.locator("input[data-row]:checked").get_attribute("value") == chosen
    assert page.input_value("#b-action") == "boost"
    assert page.input_value("#q") == "state:dead tier:"
    assert page.evaluate("[document.activeElement.id, document.activeElement.selectionStart]") == ["q", 3]
    assert page.locator("details.card").evaluate("box => box.open")
    assert page.evaluate("window.same") is True


def test_a_form_under_way_is_left_alone(page: Any, site: Site):
    """A weight that is being typed is not overwritten by what holds now."""
    page.goto(site("/tenant?name=globex"))
    page.fill("#f-weight", "3.25")
    site.app.enqueue("live", queue="live", tenant="globex")
    count = page.locator("dl.tiles dd").first
    before = count.inner_text()
    site.app.enqueue("live", queue="live", tenant="globex")
    sync_api.expect(count).not_to_have_text(before)
    assert page.input_value("#f-weight") == "3.25"


def test_updates_can_be_paused(page: Any, site: Site):
    """Paused, nothing moves and nothing is asked; it goes on where it is then; the choice is kept."""
    page.goto(site("/"))
    sync_api.expect(page.locator("#state")).to_have_text("live")
    page.click("#pause")
    sync_api.expect(page.locator("#state")).to_have_text("paused")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    before = available(page)
    site.app.enqueue("live", queue="live", tenant="acme")
    page.reload()
    sync_api.expect(page.locator("#state")).to_have_text("paused")

    site.app.enqueue("live", queue="live", tenant="acme")
    page.click("#pause")
    sync_api.expect(page.locator("dl.tiles dd").first).to_have_text(f"{before + 2}")
    assert [url for url in asked if "/events" in url]


def test_a_page_that_hears_nothing_says_so(context: Any, site: Site):
    """Half-working pages without a word are worse than none: after 12 s of silence there is a banner."""
    page = context.new_page()
    page.clock.install()
    page.goto(site("/"))
    page.route("**/*", lambda route: route.abort())
    page.evaluate("window.dispatchEvent(new Event('pagehide'))")  # the stream is cut
    page.clock.fast_forward(15_000)
    sync_api.expect(page.locator("#stale")).to_be_visible()
    sync_api.expect(page.locator("#state")).to_have_text("stale")
    sync_api.expect(page.locator("#stale-for")).to_contain_text("s")
    page.unroute("**/*")
    page.evaluate("window.dispatchEvent(new PageTransitionEvent('pageshow', {persisted: true}))")
    page.clock.run_for(3_000)
    sync_api.expect(page.locator("#stale")).to_be_hidden()


def test_a_browser_without_a_stream_asks_every_two_seconds(context: Any, site: Site):
    """A proxy that does not let streams through: polling takes over."""
    page = context.new_page()
    page.route("**/events", lambda route: route.abort())
    page.goto(site("/"))
    before = available(page)
    site.app.enqueue("live", queue="live", tenant="acme")
    sync_api.expect(page.locator("dl.tiles dd").first).to_have_text(f"{before + 1}")


# ---------------------------------------------------------------- doing things


def test_charts_are_drawn_and_have_a_table(page: Any, site: Site):
    page.goto(site("/"))
    sync_api.expect(page.locator(".chart canvas")).to_have_count(2)
    page.locator("details.body summary").first.click()
    rows = page.locator("details.body").first.locator("tbody tr")
    sync_api.expect(rows).to_have_count(13)


def test_many_jobs_are_cancelled_by_what_was_searched_for(page: Any, site: Site):
    """From the search through the question to the operation's page, which counts up by itself."""
    task = f"doomed-{uuid4().hex[:8]}"
    site.app.enqueue_many(site.app.new(task, queue="live", tenant="acme") for _ in range(130))
    page.goto(site(f"/jobs?q=task%3A{task}"))
    page.get_by_role("button", name="All that match").click()
    sync_api.expect(page.locator("h1")).to_have_text("Cancel 130 jobs?")
    page.fill("#f-reason", "not needed")
    page.fill("#f-typed", "12")
    sync_api.expect(page.locator("#f-go")).to_be_disabled()
    page.fill("#f-typed", "130")
    sync_api.expect(page.locator("#f-go")).to_be_enabled()
    page.click("#f-go")
    page.wait_for_url("**/bulk/*")
    sync_api.expect(page.locator(".sub .tag")).to_have_text("done", timeout=60_000)
    assert len(site.app.jobs(task=task, state="cancelled", limit=200)) == 130


def test_a_job_is_expedited_with_a_reason(page: Any, site: Site):
    job = site.app.enqueue("plain", queue="live", tenant="globex")
    page.goto(site(f"/jobs/{job.id}"))
    page.select_option("#f-action", "expedite")
    page.fill("#f-reason", "they called")
    page.get_by_role("button", name="Do it").click()
    sync_api.expect(page.locator(".notice.ok")).to_contain_text("express lane")
    assert site.app.get(job).express


def test_one_logs_in_and_out(browser: Any, tmp_path: Path):
    """With a token there is a session of its own; the cookie is out of scripts' reach; out means out."""
    site = Site(tmp_path)
    try:
        token = site.app.tokens.create("me", role="operator").token
        context = browser.new_context()
        page = context.new_page()
        page.goto(site("/jobs?q=state%3Adead"))
        assert "/login" in page.url
        page.fill("#token", token)
        page.keyboard.press("Enter")
        page.wait_for_url("**/jobs?q=state*")
        cookie = context.cookies()[0]
        assert cookie["httpOnly"]
        assert cookie["sameSite"] == "Strict"
        page.goto(site("/settings"))
        page.get_by_role("button", name="Log out").click()
        page.wait_for_url("**/login*")
        page.goto(site("/"))
        assert "/login" in page.url
        assert json.dumps(context.cookies()) == "[]"
        context.close()
    finally:
        site.stop()
