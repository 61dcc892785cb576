"""A function that somebody has."""


def send(to: str) -> None: ...
