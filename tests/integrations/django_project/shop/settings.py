"""Settings of the project; the tests say in the environment where its data and its jobs are."""

import json
import os

import django

SECRET_KEY = "only for tests"
USE_TZ = os.environ.get("SHOP_TZ", "yes") == "yes"
TIME_ZONE = "Europe/Paris"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {"default": json.loads(os.environ["SHOP_DATABASE"])}
INSTALLED_APPS = ["fairlane.integrations.django", "shop"]
if django.VERSION < (6, 0):
    INSTALLED_APPS.append("django_tasks")
TASKS = {
    "default": {
        "BACKEND": "fairlane.integrations.django.FairlaneBackend",
        "QUEUES": [],
        "OPTIONS": {"database": "default"},
        **json.loads(os.environ.get("SHOP_TASKS", "{}")),
    }
}
