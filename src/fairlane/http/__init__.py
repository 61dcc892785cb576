"""The HTTP API: FastAPI over :class:`fairlane.service.Service`. It translates, and decides nothing.

Needs the extra ``server``: ``pip install 'fairlane[server]'``. See :func:`fairlane.http.app.create_app`.
"""
