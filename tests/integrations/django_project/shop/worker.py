"""The project's application, for `fairlane worker shop.worker:app -p 4`."""

import django

django.setup()

from fairlane.integrations.django import app_for  # noqa: E402  after Django is set up
from shop import tasks  # noqa: E402, F401

app = app_for()
