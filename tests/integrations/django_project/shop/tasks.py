"""Tasks as a Django project writes them, and some with what fairlane knows besides."""

import os
import sys
import threading

import fairlane as fl
from shop.flavour import task
from shop.models import Order

ran = []


@task
def add(a, b=1):
    return a + b


@task(priority=50, queue_name="mail")
def send(to, **more):
    ran.append(to)
    return {"to": to, **more}


@task
def fail(why):
    raise LookupError(why)


@task(retry=fl.Retry(base=0, jitter=0))
def leave():
    sys.exit(3)


@task
def odd():
    return object()


@task(takes_context=True)
def tell(context, n):
    context.job.progress(0.5, "half")
    return [context.attempt, context.task_result.status, context.task_result.id, n]


@task(retry=fl.Retry(max_attempts=3, base=0, jitter=0), timeout=30, limits=("shop",))
def third_time():
    ran.append("third_time")
    if len(ran) < 3:
        raise OSError("not yet")
    return len(ran)


@task
def order(number):
    Order.objects.create(number=number)
    return Order.objects.count()


@task
async def aorder(number):
    await Order.objects.acreate(number=number)
    return await Order.objects.acount()


@task
def hold(path):
    with open(path, "a") as file:
        file.write(f"{os.getpid()}\n")
    threading.Event().wait(0.3)
    return "held"
