"""Another system that has a quota, and when it is given anew."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

midnight = datetime.now(UTC) + timedelta(hours=3)  # noqa: TID251  a page's own program may ask for the time


@dataclass
class Reply:
    status: int = 200
    text: str = ""
    headers: dict[str, str] = field(default_factory=dict)


class OpenAI:
    def post(self, question: str) -> Reply:
        return Reply(text=question)


openai = OpenAI()
