"""Failed runs as events in Sentry: with the task, tenant, queue and attempt as tags, and nothing of what jobs carry.

Events are kept in memory here; take ``transport`` out and give ``sentry_sdk.init`` your DSN.

    python examples/sentry.py
"""

import logging
import threading

import sentry_sdk
from sentry_sdk.envelope import Envelope
from sentry_sdk.integrations.logging import ignore_logger
from sentry_sdk.transport import Transport

import fairlane as fl

app = fl.Fairlane("sqlite://")
sent: list[dict] = []
arrived = threading.Semaphore(0)
CARD = "4000-0000-0000-0002"
"""What must not leave: it is an argument of jobs."""


class Memory(Transport):
    """Keeps what would be sent."""

    def capture_envelope(self, envelope: Envelope) -> None:
        event = envelope.get_event()
        if event is not None:
            sent.append(event)
            arrived.release()


sentry_sdk.init(
    dsn="https://key@sentry.invalid/1",
    transport=Memory,
    include_local_variables=False,  # else the arguments of a job stand in its traceback
)
for name in ("fairlane.worker", "fairlane.hooks"):
    ignore_logger(name)  # the worker logs each failure too, and one event is enough


@app.on_failure
def report(event: fl.Event) -> None:
    """Send an event for each failed run; for dead jobs alone use ``@app.on_dead``."""
    if event.error is None:  # a worker was killed; the one that took its job back tells
        return
    with sentry_sdk.new_scope() as scope:
        scope.set_tags({"task": event.task, "tenant": event.tenant, "queue": event.queue, "attempt": event.attempt})
        scope.set_context("job", {"id": str(event.job_id), "tier": event.tier.label, "outcome": event.outcome})
        scope.fingerprint = ["fairlane", event.task, type(event.error).__qualname__]
        scope.capture_exception(event.error)


class CardRefused(Exception):
    """A message without the card's number: what an error says goes to Sentry as it is."""


@app.task(queue="billing", retry=fl.Retry(max_attempts=2, base=0, jitter=0))
def charge(card: str, amount: int) -> None:
    if amount > 100:
        raise CardRefused("the bank said no")


def main() -> None:
    logging.getLogger("fairlane").addHandler(logging.NullHandler())
    charge.using(tenant="acme").enqueue(CARD, 500)
    charge.using(tenant="bit").enqueue(CARD, 5)
    with app, app.worker():
        for _ in range(2):  # hooks run beside the jobs, in a thread of their own
            arrived.acquire(timeout=30)
    for event in sent:
        tags = ", ".join(f"{name} {value}" for name, value in sorted(event["tags"].items()))
        print(f"{event['exception']['values'][-1]['type']}: {tags}; {event['contexts']['job']['outcome']}")
    print("a card's number is in what was sent:", CARD in repr(sent))


if __name__ == "__main__":
    main()
