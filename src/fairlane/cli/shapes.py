"""How jobs are written for ``--json``: as on every surface, see :mod:`fairlane.shapes`."""

from __future__ import annotations

from fairlane.shapes import TIMES, brief, errors, instant, whole

__all__ = ["TIMES", "brief", "errors", "instant", "whole"]
