"""The pages: what they show, what they let nobody do, and that no stored text is anything but text."""

import gzip
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

sys.path.insert(0, str(Path(__file__).parent))  # "importlib" mode finds no neighbours by itself

from dash_rig import HERE, HOSTILE, PAGES, Page, World, crawl, fill, world

import fairlane as fl
from fairlane.dashboard import words
from fairlane.http.app import create_app
from fairlane.http.options import HttpOptions
from fairlane.service import Redaction
from fairlane.testing import ManualClock

MOST_BYTES = 60 * 1024


@pytest.fixture
def w() -> Iterator[World]:
    with world() as made:
        yield made


# ---------------------------------------------------------------- every page


@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_there(w: World, path: str):
    """Each has a title, one heading of the first rank, a language, and no figure of a template left over."""
    text = w.get(path)
    page = Page(text)
    assert page.all("html")[0]["lang"] == "en"
    assert len(page.all("h1")) == 1
    assert "{{" not in text
    assert "None" not in page.words
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert sorted(ids) == sorted(set(ids))


@pytest.mark.parametrize("path", PAGES)
def test_pages_keep_to_a_strict_policy(w: World, path: str):
    """No inline script, style or handler: the content security policy refuses them all."""
    answer = w.raw(path)
    policy = answer.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "script-src 'self'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    for tag, attrs in Page(answer.text).tags:
        assert tag not in {"style", "iframe", "object", "base"}
        assert "style" not in attrs
        assert not any(name.startswith("on") for name in attrs)
        if tag == "script":
            assert "/static/" in attrs["src"]
        for name in ("src", "href", "action"):
            assert not attrs.get(name, "").lower().startswith(("javascript:", "data:", "http"))


@pytest.mark.parametrize("path", PAGES)
def test_tables_and_fields_have_names(w: World, path: str):
    """Tables have a caption and headers with a scope; every field has a label; pictures are named or hidden."""
    page = Page(w.get(path))
    assert len(page.all("caption")) == len(page.all("table"))
    assert all("scope" in attrs for attrs in page.all("th"))
    labelled = {attrs.get("for") for attrs in page.all("label")}
    for tag in ("input", "select", "textarea"):
        for attrs in page.all(tag):
            if attrs.get("type") != "hidden":
                assert "aria-label" in attrs or attrs.get("id") in labelled, attrs
    for attrs in page.all("svg"):
        assert attrs.get("aria-hidden") == "true" or attrs.get("aria-label")


@pytest.mark.parametrize("path", PAGES)
def test_pages_are_small(w: World, path: str):
    """At most 60 KiB with all that they load, packed, for a browser that has nothing yet."""
    text = w.get(path)
    page = Page(text)
    total = len(gzip.compress(text.encode(), 6))
    files = {attrs["src"] for attrs in page.all("script")} | {attrs["href"] for attrs in page.all("link")}
    for address in files:
        answer = w.client.get(address, headers={"accept-encoding": "gzip"})
        assert answer.headers["content-encoding"] == "gzip"
        total += int(answer.headers["content-length"])
    assert total <= MOST_BYTES, (path, total)


def test_a_live_page_gives_the_part_that_changes(w: World):
    """htmx asks for the page's own address and gets its main alone, the same as in the whole page."""
    part = w.get("/tenants?by=most", hx_request="true")
    assert part.startswith("<main")
    assert "<nav" not in part
    assert words.clock(w.clock.now_ms()) in part  # the instant moves on with the figures
    main = Page(part).all("main")[0]
    assert main["hx-get"] == "/tenants?by=most"
    assert Page(w.get("/tenants?by=most")).all("main")[0] == main


def test_pages_that_ask_for_nothing_new_are_not_live(w: World):
    """A page with a form or of older jobs stays as it is."""
    for path in ("/settings", "/audit", "/bulk/new?action=retry&of=all&q=state:dead"):
        assert "hx-get" not in Page(w.get(path)).all("main")[0]


# ---------------------------------------------------------------- figures


def test_the_overview_shows_what_the_store_holds(w: World):
    """Counts are those of the rows at the instant that is shown with them."""
    w.clock.advance(seconds=130)
    page = Page(w.get("/"))
    depth = w.app.depth(())
    assert f"Available {depth.available} Scheduled {depth.scheduled} Running {depth.running}" in page.words
    assert words.clock(w.clock.now_ms()) in page.words
    assert "Express lane 1 of 20" in page.words
    assert "tenant initech" in page.words  # paused
    assert "No worker is on record" in page.words
    assert "1 job died in the last hour" in page.words
    late = [attrs for attrs in page.all("td") if "late" in attrs.get("class", "")]
    assert late == []  # only normal jobs wait, and they have no objective


def test_late_cells_have_a_frame_and_say_so(w: World):
    """Beyond the objective a cell is framed, and its name says it: never by colour alone."""
    w.app.enqueue("send", queue="mail", tenant="acme", tier=fl.Tier.HIGH)
    w.clock.advance(seconds=121)
    page = Page(w.get("/"))
    assert len([attrs for attrs in page.all("td") if "late" in attrs.get("class", "")]) == 1
    assert any(attrs.get("aria-label") == "1, late" for attrs in page.all("a"))
    assert "late" in page.words


def test_the_heat_map_is_cut_at_twenty_tenants(w: World):
    """The longest waits first; what is left out is told together."""
    for number in range(30):
        w.app.enqueue("send", queue="mail", tenant=f"t{number:02}")
    page = Page(w.get("/"))
    rows = [attrs["href"] for attrs in page.all("a") if attrs.get("href", "").startswith("/tenant?")]
    assert len(rows) == 20
    assert re.search(r"\d+ more", page.words)
    assert "t29" in Page(w.get("/tenants?find=T29")).words


def test_a_queue_may_be_chosen(w: World):
    """The heat map counts one queue's jobs, and its cells lead to them."""
    page = Page(w.get("/?queue=mail"))
    links = [attrs["href"] for attrs in page.all("a") if "state%3Aavailable" in attrs.get("href", "")]
    assert any("queue%3Amail" in link for link in links)


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("state:dead", 1), ("state:running", 1), ("state:cancelled", 1), ("tenant:globex state:waiting", 4),
        ("tenant:nobody", 0), ("tag:invoice", 1), ("key:order-1", 1), ("age:>1h", 0), ("queue:render", 1),
        ("tier:critical state:completed", 3), ("task:send state:scheduled", 1), ("error:Nothing", 0),
    ],
)  # fmt: skip
def test_jobs_are_found(w: World, query: str, count: int):
    """A search shows the jobs that it means."""
    page = Page(w.get(f"/jobs?q={query.replace(':', '%3A').replace('>', '%3E').replace(' ', '+')}"))
    assert len([attrs for attrs in page.all("a") if "data-main" in attrs]) == count


def test_a_search_that_is_wrong_says_so(w: World):
    """What is not understood is said, and no job is shown as if it were meant."""
    page = Page(w.get("/jobs?q=tier:hihg"))
    assert "tier 'hihg' is not one of" in page.words
    assert not [attrs for attrs in page.all("a") if "data-main" in attrs]


def test_an_id_leads_to_its_job(w: World):
    job = w.app.jobs(state="dead")[0]
    assert w.raw(f"/jobs?q={job.id}", code=303).headers["location"] == f"/jobs/{job.id}"


def test_jobs_come_a_page_at_a_time(w: World):
    """Keyset pages: none twice, none left out, and the search stays."""
    w.app.enqueue_many(w.app.new("many", tenant="acme") for _ in range(120))
    found: list[str] = []
    path: str | None = "/jobs?q=task%3Amany"
    while path is not None:
        page = Page(w.get(path))
        found += [attrs["href"] for attrs in page.all("a") if "data-main" in attrs]
        more = [attrs["href"] for attrs in page.all("a") if attrs.get("rel") == "next"]
        path = more[0] if more else None
        assert path is None or "q=task%3Amany" in path
    assert len(found) == len(set(found)) == 120


def test_big_integers_are_shown_as_they_are(w: World):
    """river #593: beyond 2^53 a number keeps its digits."""
    job = w.app.jobs(state="dead")[0]
    assert "9007199254740993" in w.get(f"/jobs/{job.id}")


def test_secrets_are_redacted():
    """What redaction hides is on no page."""
    with world(redaction=Redaction(["*.number"])) as w:
        job = w.app.jobs(state="dead")[0]
        page = w.get(f"/jobs/{job.id}")
        assert "[redacted]" in page
        assert all("9007199254740993" not in text for _, _, text in crawl(w))


def test_a_waiting_job_says_why(w: World):
    """The job's page tells what holds it back, and what may be done."""
    job = w.app.jobs(state="available", tenant="initech")[0]
    page = Page(w.get(f"/jobs/{job.id}"))
    assert "Why is it waiting?" in page.words
    assert "paused" in page.words
    assert "their database moves" in page.words


def test_unknown_things_are_pages_too(w: World):
    assert "no job has the id" in w.get("/jobs/0198f0de-0000-7000-8000-000000000001", code=404)
    assert "UUID" in w.get("/jobs/nonsense", code=422)
    w.get("/bulk/0198f0de-0000-7000-8000-000000000001", code=404)


def test_a_store_that_fails_is_told(w: World, monkeypatch: pytest.MonkeyPatch):
    """One that cannot be read: the page says so with its status, and works again afterwards."""

    def broken(*_: object, **__: object) -> Any:
        raise fl.StoreError("the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(w.app.owner, "read", broken)
        w.clock.advance(seconds=60)
        assert "the disk is gone" in w.get("/jobs", code=503, fresh=False)
    w.get("/jobs")


# ---------------------------------------------------------------- B45: stored text is text


def test_no_stored_text_is_anything_but_text():
    """B45: markup, escape sequences and marks that turn writing around are inert on every page."""
    names = dict.fromkeys(
        ("task", "queue", "tag", "key", "tenant", "arg", "error", "reason", "by", "limit", "schedule"), HOSTILE
    )
    with world(names=names) as w:
        w.app.tokens.create(HOSTILE, role="admin")
        admin = w.as_("admin")
        shown = 0
        for path, page, text in crawl(admin):
            for raw in ("\x1b", "\u202e"):
                assert raw not in text, path
            for tag, attrs in page.tags:
                assert tag != "img", path
                assert not any(name.startswith("on") for name in attrs), path
                assert tag != "script" or "/static/" in attrs.get("src", ""), path
            shown += "{{7*7}}" in page.words
            assert "49gnp" not in text
        assert shown >= 12


def test_hostile_searches_are_text(w: World):
    """What stands in the address comes back as text, wherever it is repeated."""
    from urllib.parse import quote

    for path in ("/jobs?q=", "/tenants?find=", "/tenant?name=", "/queue?name=", "/audit?target=", "/?queue=",
                 "/dead/group?id=", "/whatif?run=1&weights=", "/jobs?q=tenant:"):  # fmt: skip
        page = Page(w.get(path + quote(HOSTILE)))
        assert not page.all("img"), path
        assert not any(name.startswith("on") for _, attrs in page.tags for name in attrs), path


# ---------------------------------------------------------------- who may do what


FORMS = (
    ("/jobs/{dead}", {"action": "retry"}), ("/jobs/{waiting}", {"action": "cancel"}),
    ("/jobs/{waiting}", {"action": "expedite"}), ("/jobs/{waiting}", {"action": "boost", "tier": "high"}),
    ("/jobs/{waiting}", {"action": "set_tier", "tier": "low"}), ("/tenant?name=acme", {"action": "pause"}),
    ("/tenant?name=acme", {"action": "resume"}), ("/tenant?name=acme", {"action": "set", "weight": "3"}),
    ("/queue?name=mail", {"action": "pause"}), ("/queue?name=mail", {"action": "set", "max_running": "3"}),
    ("/bulk", {"action": "retry", "q": "state:dead"}), ("/bulk/{bulk}", {"action": "cancel"}),
    ("/schedules", {"action": "run", "name": "nightly"}), ("/schedules", {"action": "pause", "name": "nightly"}),
    ("/settings", {"action": "objective", "tier": "high", "objective": "3", "on_breach": "alert"}),
    ("/settings", {"action": "capacity", "express_capacity": "3", "express_per_tenant": "2"}),
    ("/settings", {"action": "token", "name": "x", "role": "admin"}), ("/settings", {"action": "revoke", "token": "x"}),
)  # fmt: skip


def filled_in(w: World, path: str) -> str:
    return path.format(
        dead=w.app.jobs(state="dead")[0].id,
        waiting=w.app.jobs(state="available", tenant="acme")[0].id,
        bulk=w.app.operations()[0].id,
    )


def test_every_form_is_in_the_table_above(w: World):
    """A route that changes something cannot be forgotten."""
    routes = {
        getattr(route, "path", "")
        for router in w.client.app.routes  # type: ignore[attr-defined]
        for route in getattr(getattr(router, "original_router", None), "routes", [router])
        if "POST" in (getattr(route, "methods", None) or ()) and not getattr(route, "path", "").startswith("/v1/")
    }
    known = {re.sub(r"\{\w+\}", "{id}", path.partition("?")[0]) for path, _ in FORMS}
    assert routes - {"/login", "/logout"} == known


@pytest.mark.parametrize(("path", "fields"), FORMS)
def test_viewers_change_nothing(w: World, path: str, fields: dict[str, str]):
    """Every form is refused with 403, whatever is in it, and nothing has changed."""
    viewer = w.as_("viewer")
    before = w.rows()
    answer = viewer.post(filled_in(w, path), code=403, **fields)
    assert "may not" in answer.text
    viewer.post(filled_in(w, path), code=403)
    assert w.rows() == before


def test_viewers_see_no_controls(w: World):
    """What would be refused is not offered."""
    viewer = w.as_("viewer")
    for path, page, _ in crawl(viewer):
        posts = [attrs["action"] for attrs in page.all("form") if attrs.get("method") == "post"]
        assert [action for action in posts if not action.endswith("/logout")] == [], path
        assert not [attrs for attrs in page.all("a") if "/bulk/new" in attrs.get("href", "")], path


def test_an_operator_sets_nothing(w: World):
    """An operator steers jobs and pauses; weights, limits, objectives and tokens take an admin."""
    operator = w.as_("operator")
    assert 'value="set"' not in operator.get("/tenant?name=acme")
    operator.post("/tenant?name=acme", code=403, action="set", weight="3")
    operator.post("/settings", code=403, action="token", name="x", role="admin")
    operator.post("/bulk", code=403, action="discard", q="state:dead")


def test_the_confined_see_their_own_tenant_alone(w: World):
    """Nothing of other tenants is on any page of an actor that is confined to one."""
    own = w.as_("operator", "globex")
    seen = 0
    for path, page, text in crawl(own):
        seen += 1
        assert "acme" not in text, path
        assert "initech" not in text, path
        assert page
    assert seen >= 8
    other = w.app.jobs(tenant="acme", state="available")[0]
    own.get(f"/jobs/{other.id}", code=404)
    own.post(f"/jobs/{other.id}", code=404, action="cancel")
    own.get("/tenant?name=acme", code=403)
    own.get("/workers", code=403)
    own.get("/fairness", code=403)
    own.post("/bulk", code=422, action="cancel", q="tenant:acme")
    assert w.app.get(other).state == "available"


def test_nobody_gets_in_without_a_token():
    """Closed: a browser is led to the log-in, which loads its style and nothing else; then it is back where it was."""
    with world(open_=False) as w:
        answer = w.raw("/jobs?q=state:dead", code=303, fresh=False)
        assert answer.headers["location"] == "/login?next=/jobs%3Fq%3Dstate%3Adead"
        login = w.client.get(answer.headers["location"])
        page = Page(login.text)
        assert page.all("input")[0]["name"] == "token"
        for attrs in [*page.all("link"), *page.all("script")]:
            assert w.client.get(attrs.get("href") or attrs["src"]).status_code == 200
        made = w.app.tokens.create("me", role="viewer")
        headers = {"origin": "http://127.0.0.1", "content-type": "application/x-www-form-urlencoded"}
        action = page.all("form")[0]["action"]
        wrong = w.client.post(action, content="token=flt_wrong_0000000000000000", headers=headers)
        assert wrong.status_code == 401
        assert "not valid" in wrong.text
        right = w.client.post(action, content=f"token={made.token}", headers=headers, follow_redirects=False)
        assert right.status_code == 303
        assert w.client.get(right.headers["location"], headers={"accept": "text/html"}).status_code == 200
        for path in ("/events", "/jobs"):
            assert TestClient(w.client.app, client=HERE, base_url="http://127.0.0.1").get(path).status_code == 401


def test_other_sites_pages_change_nothing(w: World):
    """A form that another site's page sends is refused."""
    before = w.rows()
    answer = w.client.post(
        "/tenant?name=acme", content="action=pause", headers={"origin": "http://evil.example", "accept": "text/html"}
    )
    assert answer.status_code == 403
    assert w.rows() == before


# ---------------------------------------------------------------- what can be done


def test_jobs_are_steered(w: World):
    """Each action does what its button says, is on record with who and why, and the page that follows says so."""
    admin = w.as_("admin")
    job = w.app.jobs(state="available", tenant="acme")[0]
    answer = admin.post(f"/jobs/{job.id}", action="boost", tier="high", reason="they pay")
    assert "Its tier is high now" in admin.follow(answer)
    assert "is low now" in admin.follow(admin.post(f"/jobs/{job.id}", action="set_tier", tier="low"))
    assert "in the express lane" in admin.follow(admin.post(f"/jobs/{job.id}", action="expedite", reason="vip"))
    assert w.app.get(job).express
    assert "was cancelled" in admin.follow(admin.post(f"/jobs/{job.id}", action="cancel"))
    assert w.app.get(job).state == "cancelled"
    dead = w.app.jobs(state="dead")[0]
    assert "available again" in admin.follow(admin.post(f"/jobs/{dead.id}", action="retry", reason="fixed"))
    running = w.app.jobs(state="running")[0]
    assert "asked to stop" in admin.follow(admin.post(f"/jobs/{running.id}", action="cancel"))
    audit = Page(admin.get("/audit")).words
    for text in ("they pay", "vip", "fixed", "a admin"):
        assert text in audit


def test_what_is_refused_changes_nothing_and_says_why(w: World):
    """A full express lane: 429 with figures, when to come again, and the job exactly as before."""
    for _ in range(4):
        w.app.expedite(w.app.enqueue("send", queue="mail", tenant="globex"))
    w.app.expedite(w.app.enqueue("send", queue="mail", tenant="globex"))
    job = w.app.enqueue("send", queue="mail", tenant="globex")
    before = w.rows()
    answer = w.post(f"/jobs/{job.id}", code=429, action="expedite")
    assert answer.headers["retry-after"]
    assert "Taken 5 Of 5" in Page(answer.text).words
    assert w.rows() == before
    w.post(f"/jobs/{w.app.jobs(state='cancelled')[0].id}", code=409, action="cancel")
    w.post(f"/jobs/{job.id}", code=422, action="boost", tier="hihg")
    w.post(f"/jobs/{job.id}", code=422, action="dance")
    assert w.rows() == before


def test_tenants_and_queues_are_paused_and_resumed(w: World):
    assert "Tenant acme is paused" in w.follow(
        w.post("/tenant?name=acme", action="pause", reason="too noisy", **{"for": "900"})
    )
    rule = w.app.tenants["acme"].get()
    assert rule.pause is not None
    assert (rule.pause.reason, rule.pause.until_ms) == ("too noisy", w.clock.now_ms() + 900_000)
    assert "too noisy" in w.get("/tenant?name=acme")
    assert "goes on" in w.follow(w.post("/tenant?name=acme", action="resume"))
    assert w.app.tenants["acme"].get().pause is None
    w.post("/queue?name=mail", action="pause", reason="deploy")
    assert w.app.queues["mail"].get().pause is not None
    w.post("/queue?name=mail", code=422, action="pause", **{"for": "for ever"})


def test_what_was_just_done_is_in_the_next_page(w: World):
    """Whoever changes something sees it at once, however fresh the sample before it was."""
    w.get("/")
    w.post("/tenant?name=acme", action="pause", reason="x")
    assert "tenant acme" in Page(w.get("/", fresh=False)).words


def test_settings_of_tenants_and_queues_are_changed(w: World):
    """A form sets what stands in it; an empty field takes a limit away; what is wrong is refused as a whole."""
    fields = {"weight": "2.5", "max_running": "", "max_waiting": "100", "rate": "60", "per": "60", "burst": ""}
    w.post("/tenant?name=acme", action="set", reason="a bigger plan", **fields)
    rule = w.app.tenants.shown()["acme"]
    assert (rule["weight"], rule["max_running"], rule["max_waiting"]) == (2.5, None, 100)
    assert (rule["rate"], rule["per"], rule["burst"]) == (60, 60.0, 6)
    w.post("/tenant?name=acme", action="set", **{**fields, "rate": ""})
    assert w.app.tenants.shown()["acme"]["rate"] is None
    before = w.rows()
    for wrong in ({"weight": "much"}, {"weight": ""}, {"weight": "0"}, {"max_running": "-1"}, {"rate": "1.5"}):
        w.post("/tenant?name=acme", code=422, action="set", **{**fields, **wrong})
    assert w.rows() == before
    w.post("/queue?name=mail", action="set", pool="fast", max_running="7", tenant_max_running="", max_waiting="")
    assert w.app.queues.shown()["mail"]["pool"] == "fast"


def test_nobody_undoes_what_another_just_set(w: World):
    """A form that was filled in before somebody else's change is refused, and says to look again."""
    page = Page(w.get("/tenant?name=acme"))
    etag = next(attrs["value"] for attrs in page.all("input") if attrs.get("name") == "etag")
    w.app.tenants["acme"].set(max_running=3, by="somebody else")
    w.post("/tenant?name=acme", code=412, action="set", weight="9", etag=etag)
    assert w.app.tenants.shown()["acme"]["weight"] == 2
    fresh = Page(w.get("/tenant?name=acme"))
    etag = next(attrs["value"] for attrs in fresh.all("input") if attrs.get("name") == "etag")
    w.post("/tenant?name=acme", action="set", weight="9", etag=etag)


def test_many_jobs_at_once_are_counted_and_asked_for(w: World):
    """The page before says how many; above a hundred the number is typed; the operation has its page."""
    w.app.enqueue_many(w.app.new("many", tenant="acme") for _ in range(120))
    before = w.rows()
    page = Page(w.get("/bulk/new?action=cancel&of=all&q=task%3Amany"))
    assert "Cancel 120 jobs?" in page.words
    assert any(attrs.get("data-wanted") == "120" for attrs in page.all("input"))
    w.post("/bulk", code=422, action="cancel", q="task:many", reason="x")
    w.post("/bulk", code=422, action="cancel", q="task:many", reason="x", typed="119")
    w.post("/bulk", code=422, action="cancel", q="", reason="x")
    w.post("/bulk", code=422, action="dance", q="task:many")
    assert w.rows() == before
    answer = w.post("/bulk", action="cancel", q="task:many", reason="a mistake", typed="120", rate="", limit="")
    operation = w.app.operations()[0]
    assert answer.headers["location"] == f"/bulk/{operation.id}"
    operation.run()
    page = Page(w.get(f"/bulk/{operation.id}"))
    assert "Changed 120" in page.words
    assert "a mistake" in page.words
    assert len(w.app.jobs(task="many", state="cancelled", limit=200)) == 120


def test_chosen_jobs_are_the_ones_that_are_meant(w: World):
    """Ticked rows, not the search, are what the action is for."""
    jobs = [str(w.app.enqueue("many", tenant="acme").id) for _ in range(5)]
    page = Page(w.get(f"/bulk/new?action=boost&of=chosen&q=task%3Amany&ids={jobs[0]}&ids={jobs[3]}"))
    assert "Boost 2 jobs?" in page.words
    w.post("/bulk", action="boost", to="high", ids=[jobs[0], jobs[3]], reason="x")
    w.app.operations()[0].run()
    tiers = [w.app.get(job).tier.label for job in jobs]
    assert tiers == ["high", "normal", "normal", "high", "normal"]


def test_work_of_dead_jobs_is_checked_again(w: World):
    """Only those whose work was handed over; the page before says what becomes of the others."""

    @w.app.task(queue="gpu")
    def prove(n: int) -> int:
        return n

    @prove.verify(every=60, max_checks=1)
    def check(reference: int) -> fl.Pending:
        return fl.Pending()

    timed, failed = prove.enqueue(1), prove.enqueue(2)
    w.app.claim(queues=["gpu"]).ack(1)
    w.app.reverify(timed)
    w.app.claim(tasks=["prove:verify"]).pending()
    w.app.claim(queues=["gpu"]).dead("bad")
    page = Page(w.get("/bulk/new?action=reverify&of=all&q=task%3Aprove"))
    assert "Check the work of 2 jobs?" in page.words
    assert "Jobs that have handed nothing over refuse" in page.words
    w.post("/bulk", action="reverify", q="task:prove", reason="prover is back", to="", rate="", limit="")
    w.app.operations()[0].run()
    assert (timed.refresh().state, timed.phase, failed.refresh().state) == ("available", "verify", "dead")


def test_an_operation_is_paused_resumed_and_cancelled(w: World):
    w.app.enqueue_many(w.app.new("many") for _ in range(5))
    w.post("/bulk", action="cancel", q="task:many", rate="1", reason="slowly")
    operation = w.app.operations()[0]
    assert "is paused" in w.follow(w.post(f"/bulk/{operation.id}", action="pause"))
    assert "is running" in w.follow(w.post(f"/bulk/{operation.id}", action="resume"))
    assert "is cancelled" in w.follow(w.post(f"/bulk/{operation.id}", action="cancel"))
    w.post(f"/bulk/{operation.id}", code=409, action="resume")


def test_a_group_of_dead_letters_is_replayed(w: World):
    """The group's page leads to a canary and to all of them, at a rate."""
    page = Page(w.get("/dead"))
    link = next(attrs["href"] for attrs in page.all("a") if "data-main" in attrs)
    group = Page(w.get(link))
    canary = next(attrs["href"] for attrs in group.all("a") if "limit=10" in attrs.get("href", ""))
    assert "rate=1" in canary
    form = Page(w.get(canary))
    sent = {attrs["name"]: attrs.get("value", "") for attrs in form.all("input") if "name" in attrs}
    w.post("/bulk", **{**sent, "reason": "fixed", "to": ""})
    w.app.operations()[0].run(lambda _: w.clock.advance(seconds=2))
    assert not len(w.app.jobs(state="dead"))


def test_schedules_are_run_paused_and_resumed(w: World):
    assert "was made of schedule nightly" in w.follow(w.post("/schedules", name="nightly", action="run"))
    assert "is paused" in w.follow(w.post("/schedules", name="nightly", action="pause", reason="holiday"))
    assert "holiday" in w.get("/schedules")
    assert "goes on" in w.follow(w.post("/schedules", name="nightly", action="resume"))
    w.post("/schedules", code=404, name="unknown", action="run")
    w.post("/schedules", code=422, name="nightly", action="dance")


def test_settings_of_the_store_are_changed(w: World):
    w.post("/settings", action="objective", tier="normal", objective="90", on_breach="boost")
    assert w.app.tiers["normal"].get().objective == 90
    w.post("/settings", action="objective", tier="normal", objective="", on_breach="alert")
    assert w.app.tiers["normal"].get().objective is None
    w.post("/settings", action="capacity", express_capacity="7", express_per_tenant="2")
    assert 'value="7"' in w.get("/settings")
    w.post("/settings", code=422, action="capacity", express_capacity="0", express_per_tenant="2")
    w.post("/settings", code=422, action="objective", tier="hihg", objective="9", on_breach="alert")


def test_a_token_is_shown_once(w: World):
    admin = w.as_("admin")
    answer = admin.post("/settings", code=200, action="token", name="support", role="viewer", tenant="acme", days="7")
    made = re.findall(r"flt_[a-z0-9]+_[A-Za-z0-9_-]+", answer.text)
    assert len(made) == 1
    record = w.app.tokens.check(made[0])
    assert record is not None
    assert (record.role, record.tenant) == ("viewer", "acme")
    assert made[0] not in admin.get("/settings")
    admin.post("/settings", action="revoke", token=record.id)
    assert w.app.tokens.check(made[0]) is None


def test_what_if_is_asked_in_the_address(w: World):
    """The question is a link; the answer compares waits; what is wrong is said."""
    page = Page(w.get("/whatif?run=1&window=sample&workers=40&policy=fair&ageing=60&weights=acme%3D0.1"))
    assert "Waits by tenant" in page.words
    assert "5,000 jobs" in page.words
    for query, text in (
        ("workers=0", "jobs at once is 0"), ("workers=x", "are numbers"), ("weights=nobody", "is not like acme=2"),
        ("window=sample&weights=nobody%3D2", "no tenant 'nobody'"), ("policy=best", "policy 'best'"),
        ("window=forever", "no such arrivals"),
    ):  # fmt: skip
        assert text in Page(w.get(f"/whatif?run=1&{query}")).words.replace("&#39;", "'"), query


# ---------------------------------------------------------------- prefix


@pytest.mark.parametrize("mounted", [False, True], ids=["behind a proxy", "mounted"])
def test_everything_works_under_a_prefix(mounted: bool):
    """flower's ten-year bug: behind /tools/fairlane/ every address keeps to the prefix, and works."""
    prefix = "/tools/fairlane"
    clock = ManualClock()
    app = fl.Fairlane("sqlite://", clock=clock)
    fill(app, clock)
    options = HttpOptions(open_on_loopback=True, maintenance=False, rate=None)
    inner = create_app(app, options=options, root_path="" if mounted else prefix)
    web = Starlette(routes=[Mount(prefix, inner)]) if mounted else inner
    with TestClient(inner), TestClient(web, client=HERE, base_url="http://127.0.0.1") as client:
        w = World(app, clock, client, inner.state.dashboard, root=prefix)
        seen = set()
        for path, page, _ in crawl(w, most=60):
            seen.add(path.removeprefix(prefix).partition("?")[0])
            for tag, attrs in page.tags:
                for name in ("href", "src", "action", "hx-get", "data-events"):
                    value = attrs.get(name, "")
                    assert not value.startswith("/") or value.startswith(f"{prefix}/"), (path, tag, value)
            for attrs in [*page.all("script"), *page.all("link")]:
                assert client.get(attrs.get("src") or attrs["href"]).status_code == 200
        assert {"/", "/jobs", "/tenants", "/settings"} <= seen
        answer = w.post("/tenant?name=acme", action="pause", reason="x")
        assert answer.headers["location"].startswith(f"{prefix}/tenant?name=acme")
        assert "is paused" in w.follow(answer)
    app.close()


def test_tenants_have_any_name(w: World):
    """Names that an address would take apart lead to their own page."""
    for name in ("..", ".", "a/b", "a?b=c&d", "ä ö", "%2e", "#x", "+", "a\\b"):
        w.app.enqueue("send", tenant=name)
        page = Page(w.get("/tenants?find=" + "".join(f"%{byte:02x}" for byte in name.encode())))
        links = [attrs["href"] for attrs in page.all("a") if "data-main" in attrs]
        assert links
        headings = [Page(w.get(link)).words for link in links]
        assert any(f"Tenants {words.visible(name)} ".replace("  ", " ") in text for text in headings), name
