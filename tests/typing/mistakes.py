"""Mistakes that type checkers must report: one on each line that ends in its number, none elsewhere. Never run."""

from __future__ import annotations

import fairlane as fl

app = fl.Fairlane("sqlite://")


@app.task
def send_email(to: str, template: str = "hi") -> str:
    return to + template


@app.task
async def embed(doc_id: int, ctx: fl.Context) -> int:
    return doc_id


@app.task
def first(ctx: fl.Context, doc_id: int) -> int:
    return doc_id


@send_email.verify(every=5)  # mistake 10: the check takes another type than the task returns
def check_wrong(reference: int) -> fl.Pending:
    return fl.Pending()


@send_email.verify(every=5)  # mistake 11: a check returns one of three values
def check_says_nothing(reference: str) -> bool:
    return True


def mistakes(job: fl.Job[str]) -> None:
    send_email.enqueue(5)  # mistake 1: wrong type
    send_email.enqueue()  # mistake 2: missing argument
    send_email.enqueue("a", tmpl="x")  # mistake 3: unknown argument
    send_email.using(tenat="acme").enqueue("a")  # mistake 4: unknown option
    send_email.using(tenant=5).enqueue("a")  # mistake 5: wrong type of an option
    embed.enqueue("seven")  # mistake 6: wrong type, the context last
    first.enqueue(app, 5)  # mistake 7: the context is not passed
    number: int = job.result()  # mistake 8: wrong type of a result
    app.queues["mail"].set(max_runing=5)  # mistake 9: unknown rule
    app.enqueue("mail.send", {}, tenat="acme")  # mistake 12: unknown option, by name
    app.jobs(tenat="acme")  # mistake 13: unknown filter
    app.dead.replay(quue="mail")  # mistake 14: unknown filter of dead jobs
    assert number


async def mistakes_of_twins(job: fl.Job[str]) -> None:
    await send_email.aenqueue(5)  # mistake 15: wrong type
    await app.aget()  # mistake 16: missing argument
    await job.aresult(timout=5)  # mistake 17: unknown argument
    number: int = await job.aresult()  # mistake 18: wrong type of a result
    await app.queues["mail"].aset(max_running="5")  # mistake 19: wrong type of a rule
    assert number
