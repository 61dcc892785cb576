"""Thin shims for programs that come from another job queue: the other one's calls, fairlane underneath.

``fairlane.compat.celery``, ``.rq``, ``.dramatiq`` and ``.procrastinate`` need none of those packages. Each option of
theirs is mapped, or refused by an error that names it and says what to use instead; none is ignored. What a shim makes
has the fairlane object behind it in ``.fairlane``, so a program can move over call by call. The guides are in
``docs/moving-over``.
"""
