"""Fairlane inside other programs: Django's Tasks, FastAPI apps, structlog. Each module needs its own package only."""
