"""A task, and a job that waits."""

import fairlane as fl

app = fl.Fairlane("sqlite://")


@app.task
def render(page: int) -> None: ...


job = render.enqueue(1)
