"""A database, a bank, and rows to load."""

import sqlite3

db = sqlite3.connect(":memory:")
db.execute("CREATE TABLE pages (id INTEGER PRIMARY KEY, public INTEGER)")
db.execute("CREATE TABLE bookings (order_id INTEGER PRIMARY KEY, amount INTEGER)")


class Bank:
    def charge(self, order: int, *, idempotency_key: str) -> None: ...


bank = Bank()


def load(row: int) -> None: ...
