"""A job that waits."""

import fairlane as fl

app = fl.Fairlane("sqlite://")
job = app.enqueue("mail.send", {"to": "a@b.c"})
