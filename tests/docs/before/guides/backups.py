"""A store in a file, and a folder for its backups."""

from pathlib import Path

import fairlane as fl

app = fl.Fairlane("sqlite:///jobs.db")
app.enqueue("mail.send", {"to": "a@b.c"})
Path("backups").mkdir()
