"""An application of the project's own, whose store and worker Django's tasks may share."""

import fairlane as fl

app = fl.Fairlane("sqlite://")


@app.task
def ours() -> str:
    return "ours"
