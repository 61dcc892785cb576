"""Another system, and a job that waits to be handed over to it."""

import fairlane as fl

app = fl.Fairlane("sqlite://")


class Prover:
    def submit(self, block: int) -> str:
        return f"proof-{block}"

    def status(self, reference: str) -> str:
        return "done" if reference else "failed"

    def done(self, reference: str) -> bool:
        return self.status(reference) == "done"

    def result(self, reference: str) -> str:
        return reference.upper()


prover = Prover()
app.enqueue("prove", {"block": 7}, queue="gpu")
