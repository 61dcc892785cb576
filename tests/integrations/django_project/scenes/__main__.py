"""Plays a scene, `python -m scenes life`: Django is set up, with the project's tables, before the scene is imported."""

import os
import sys
from importlib import import_module

import django
from django.core.management import call_command

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
django.setup()
call_command("migrate", run_syncdb=True, verbosity=0)
import_module(f"scenes.{sys.argv[1]}").play(*sys.argv[2:])
sys.stdout.write("done\n")
