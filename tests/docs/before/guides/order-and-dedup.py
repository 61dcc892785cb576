"""An index that nobody works on, and pages that a worker renders."""

import fairlane as fl

app = fl.Fairlane("sqlite://")


@app.task(queue="index")
def rebuild(number: int) -> None: ...


@app.task
def render(page: int) -> int:
    return page


@app.task
def bind(title: str) -> None: ...


@app.task
def notify(title: str) -> None: ...


app.worker(queues=["default"]).start()  # closing the app stops it
