"""Five tiers with ageing, a snapshot and a recovery: orchestrata's postman on fairlane.

Its clock is moved by hand, so that four minutes pass at once. Old letters rise tier by tier, once for each minute that
they have waited, however often somebody asks for the next one; a boost keeps a letter's place; a snapshot is a copy of
the store made while it is used, and nothing has to be copied for a letter to survive the end of the process.

    python examples/postman.py
"""

import logging
import tempfile
from pathlib import Path

import fairlane as fl
from fairlane.testing import ManualClock


def post(app: fl.Fairlane, letter: str, tier: fl.Tier) -> fl.Job:
    return app.enqueue("letter", {"name": letter}, tier=tier)


def deliver(app: fl.Fairlane) -> str:
    """Take the next letter and hand it over: a claim has a lease, so a postman who faints loses nothing."""
    claim = app.claim()
    assert claim is not None, "somebody has written"
    claim.ack()
    return claim.args["name"]


def waiting(app: fl.Fairlane) -> list[str]:
    return [job.args["name"] for job in app.peek(limit=10)]


def five_tiers(app: fl.Fairlane) -> None:
    for tier in reversed(fl.Tier):
        post(app, tier.label, tier)
    print("posted least urgent first, they go out as:", ", ".join(waiting(app)))
    rows = sorted(app.depth(by="tier").rows, key=lambda row: row.tier)
    print("waiting in each tier:", ", ".join(f"{row.tier.label} {row.waiting}" for row in rows))


def ageing(app: fl.Fairlane, clock: ManualClock) -> None:
    app.clear(task="letter")
    old = post(app, "old background", fl.Tier.BACKGROUND)
    for minute in range(5):
        fresh = post(app, "fresh", fl.Tier.HIGH)
        print(f"after {minute} minutes, against a fresh high one: next is the {waiting(app)[0]} one")
        app.cancel(fresh)
        clock.advance(seconds=60)
    print("its own tier is still", app.get(old).tier.label)


def boosting(app: fl.Fairlane) -> None:
    app.clear(task="letter")
    first = post(app, "first", fl.Tier.LOW)
    for name in ("second", "third"):
        post(app, name, fl.Tier.NORMAL)
    print("boost to normal:", app.boost(first, "normal").outcome, "->", ", ".join(waiting(app)))
    print("boost to low:", app.boost(first, "low").outcome)


def snapshot_and_recover(app: fl.Fairlane, folder: Path, clock: ManualClock) -> None:
    copy = folder / "snapshot.db"
    app.backup(copy)
    print("delivered after the snapshot:", ", ".join(deliver(app) for _ in range(2)), "- left:", len(waiting(app)))
    held = app.claim()  # this postman faints with a letter in his hand
    assert held is not None
    app.close()
    with fl.Fairlane(f"sqlite:///{folder}/mail.db", policy="strict", clock=clock) as again:
        print("after a new start:", ", ".join(waiting(again)) or "nothing waits", "- and one is in somebody's hand")
        clock.advance(seconds=31)
        print("half a minute later his lease is over, rescued:", again.rescue(), "->", ", ".join(waiting(again)))
        again.restore(copy)
        print("recovered from the snapshot:", ", ".join(waiting(again)))


def main() -> None:
    logging.basicConfig(level=logging.ERROR)
    clock = ManualClock()
    with tempfile.TemporaryDirectory() as folder:
        app = fl.Fairlane(f"sqlite:///{folder}/mail.db", policy="strict", clock=clock)
        five_tiers(app)
        ageing(app, clock)
        boosting(app)
        snapshot_and_recover(app, Path(folder), clock)


if __name__ == "__main__":
    main()
