"""What surfaces do, for whom: every operation of the HTTP API and the dashboard, with its rights and its record.

:class:`Service` is one actor's view of an app. It checks the actor's role and tenant before anything else, records who
changed what and why in the same transaction, and redacts what it shows. Answers are ready for JSON. Its calls are
asynchronous: both surfaces are.

What it takes: looking takes a viewer; storing, steering and running jobs, pausing and the record of changes take an
operator; limits, weights, tiers, the policy and tokens take an admin. An actor that is confined to a tenant sees and
touches that tenant's jobs alone; others' look as if they did not exist.
"""

from __future__ import annotations

from fairlane.domain.access import ROLES, Role
from fairlane.errors import Forbidden
from fairlane.service.access import AccessTo
from fairlane.service.actor import LOCAL, Actor
from fairlane.service.base import Json
from fairlane.service.claims import Claims, claimed
from fairlane.service.jobs import Jobs, Once, Stored
from fairlane.service.many import Many, operated, previewed
from fairlane.service.redaction import NOTHING, Redaction
from fairlane.service.settings import SettingsOf, Shown
from fairlane.service.simulations import Question, Simulations
from fairlane.service.watching import Watching, fields_of

__all__ = [
    "LOCAL",
    "NOTHING",
    "ROLES",
    "Actor",
    "Forbidden",
    "Json",
    "Once",
    "Question",
    "Redaction",
    "Role",
    "Service",
    "Shown",
    "Stored",
    "claimed",
    "fields_of",
    "operated",
    "previewed",
]


class Service(Jobs, Claims, Many, SettingsOf, Watching, Simulations, AccessTo):
    """Everything that an actor may do, see the module. Safe to make for every request."""
