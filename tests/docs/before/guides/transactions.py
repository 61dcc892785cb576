"""A program with orders in the store's own database, whose URL is given."""

import psycopg

import fairlane as fl
from fairlane.testing import drain

page = globals()
"""What the page's blocks make, and what is given to them."""
app = fl.Fairlane(page["URL"])
orders, pages = [1, 2, 3], [1, 2]

with psycopg.connect(page["URL"]) as begin:
    begin.execute("CREATE TABLE orders (id integer PRIMARY KEY, paid boolean DEFAULT false)")


@app.task
def send_receipt(order: int) -> None: ...


@app.task
def render(page: int) -> None: ...


def before_block(number: int) -> None:
    """Begin a transaction of the program's own: the page's second block is inside one."""
    if number == 2:
        assert page["job"].refresh().state == "available"
        page["conn"] = psycopg.connect(page["URL"])


def afterwards() -> None:
    """Commit it, and run what the page has made."""
    page["conn"].commit()
    page["conn"].close()
    paying = page["charge"].enqueue(42)
    drain(app)
    assert paying.result(timeout=5) == {"paid": 42}
    assert len(app.jobs(task="send_receipt", state="completed").jobs) == 6
    with psycopg.connect(page["URL"]) as look:
        assert look.execute("SELECT paid FROM orders WHERE id = 42").fetchone() == (True,)
