"""The stores; each keeps its SQL in ``.sql`` files of its own."""
