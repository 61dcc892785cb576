"""What the tests of the documentation share."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # "importlib" mode finds no neighbours by itself

collect_ignore_glob = ["before/*"]
"""What runs with its page alone: with --doctest-modules pytest would import it."""
