"""Jobs and rows of one transaction: there together, or neither. The argument is how the store's URL begins."""

import pytest
from django.core.management import call_command
from django.db import transaction
from shop import tasks
from shop.flavour import exceptions
from shop.models import Order

from fairlane.integrations.django import app_for


class Undone(Exception):
    pass


def waiting():
    return len(app_for().peek())


def play(url):
    assert app_for().url.startswith(url)
    with transaction.atomic():
        Order.objects.create(number=1)
        first = tasks.add.enqueue(1)
        assert waiting() == 0
        with pytest.raises(exceptions.TaskResultDoesNotExist):  # nobody sees it before the commit
            first.refresh()
        try:
            with transaction.atomic():
                tasks.add.enqueue(2)
                raise Undone
        except Undone:
            pass
    assert waiting() == 1
    first.refresh()
    try:
        with transaction.atomic():
            Order.objects.create(number=2)
            tasks.add.enqueue(3)
            raise Undone
    except Undone:
        pass
    assert waiting() == 1
    tasks.add.enqueue(4)
    assert waiting() == 2
    call_command("fairlane_worker", burst=True)
    first.refresh()
    assert first.return_value == 2
    assert Order.objects.count() == 1
