"""The shape of a graph of agent steps on fairlane: who is waited for goes first, the rest waits its turn.

A run is a graph of nodes, each of them a job. Where a user looks at the screen a node is CRITICAL, what nobody waits
for is LOW. A run that needs a person's word stops there and holds no worker; the answer goes on where it stopped, in
front of everything (``expedite``). State goes from node to node as arguments, so any process can go on with a run.
No model is called, and no framework is needed: put your own calls where ``think`` is.

    python examples/agent.py
"""

import time
from typing import Any

import fairlane as fl

app = fl.Fairlane("sqlite://")
asked: dict[str, dict[str, Any]] = {}
"""What people are asked, by run; yours is a table and a page."""
order: list[str] = []

EDGES = {"plan": "research", "research": "draft", "draft": "approve", "approve": "answer"}
BACKGROUND = ("index_memory", "score_run")


def think(node: str, state: dict[str, Any]) -> dict[str, Any]:
    """Stand for the call of a model: takes a while, and adds to the state."""
    time.sleep(0.01)
    return {**state, "steps": [*state["steps"], node]}


def go_on(node: str, state: dict[str, Any], *, expedite: bool = False) -> fl.Job[Any]:
    """Enqueue a node of a run; a node that runs twice finds the job by its key."""
    run, steps = state["run"], len(state["steps"])
    tier = fl.Tier.CRITICAL if state["interactive"] else fl.Tier.LOW
    return app.enqueue(
        node, {"state": state}, queue="agents", tenant=state["user"], tier=tier, dedup_key=f"{run}:{node}:{steps}",
        tags=[f"run:{run}"], expedite=expedite,
    )  # fmt: skip


def handler(ctx: fl.Context, state: dict[str, Any]) -> dict[str, Any]:
    order.append(f"{state['run']}/{ctx.task}")
    state = think(ctx.task, state)
    follower = EDGES.get(ctx.task)
    if follower == "approve" and state["ask"]:
        asked[state["run"]] = state  # nothing waits in a worker: the run is this state, and a question
    elif follower is not None:
        go_on(follower, state)
    return state


def answered(run: str, word: str) -> fl.Job[Any]:
    """A person has answered: the run goes on at once."""
    state = asked.pop(run)
    return go_on("approve", {**state, "word": word}, expedite=True)


def main() -> None:
    for name in ("plan", "research", "draft", "approve", "answer", *BACKGROUND):
        app.task(name=name, queue="agents", retry=fl.Retry(max_attempts=3, base=0.05), limits=["model"])(handler)
    app.limits["model"].set(max_running=2)  # what the model's owner allows, over all processes

    for number in range(10):
        state = {"run": f"b{number}", "user": "nightly", "interactive": False, "ask": False, "steps": []}
        app.enqueue(BACKGROUND[number % 2], {"state": state}, queue="agents", tier="low", tenant="nightly")
    go_on("plan", {"run": "chat", "user": "ann", "interactive": True, "ask": False, "steps": []})
    go_on("plan", {"run": "deal", "user": "ben", "interactive": False, "ask": True, "steps": []})
    app.run_worker(until_idle=True, concurrency=2)
    print("the user's chat was answered as job", order.index("chat/answer") + 1, "of", len(order))
    print("the deal waits for a person after:", ", ".join(asked["deal"]["steps"]), "- and no worker is held")

    order.clear()
    for number in range(10):
        state = {"run": f"c{number}", "user": "nightly", "interactive": False, "ask": False, "steps": []}
        app.enqueue(BACKGROUND[number % 2], {"state": state}, queue="agents", tier="low", tenant="nightly")
    answered("deal", "yes")
    app.run_worker(until_idle=True, concurrency=1)
    print("the answered run went on as job", order.index("deal/approve") + 1, "of", len(order))
    last = app.jobs(task="answer", tag="run:deal").jobs[0].result(timeout=5)
    print("its result:", last["word"], "after", " -> ".join(last["steps"]))


if __name__ == "__main__":
    main()
