"""The dashboard: server-rendered pages over :class:`fairlane.service.Service`, live, without a build step.

Needs the extra ``server``. :func:`fairlane.dashboard.routes.mount` puts it into the HTTP app; ``fairlane server`` and
``create_app`` do so by themselves.
"""
