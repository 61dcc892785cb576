"""What the tests of integrations share."""

collect_ignore = ["django_project"]  # programs of a Django project, not modules of tests
