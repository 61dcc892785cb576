"""What a report writes."""


async def write_row(row: int) -> None: ...
