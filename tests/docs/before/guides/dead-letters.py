"""A job that has died, and a point in time."""

from datetime import UTC, datetime, timedelta

import fairlane as fl
from fairlane.testing import drain

app = fl.Fairlane("sqlite://")
yesterday = datetime.now(UTC) - timedelta(days=1)  # noqa: TID251  a page's own program may ask for the time


@app.task(retry=fl.Retry(max_attempts=1))
def pay(card: int) -> None:
    raise PermissionError(f"card {card} was refused")


pay.enqueue(7)
drain(app)
