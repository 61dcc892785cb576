"""Programs over the shims in two processes: one is started by itself and stores jobs, the other is a worker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import fairlane as fl

STORE = "sqlite:///jobs.db"
PROGRAMS = {
    "celery": (
        f"""
from fairlane.compat.celery import Celery
app = Celery("shop", broker="{STORE}")

@app.task(bind=True, rate_limit="100/s", autoretry_for=(KeyError,), default_retry_delay=0.1)
def work(self, n):
    if self.request.retries < 1:
        raise KeyError(n)
    return n * 2

if __name__ == "__main__":
    work.delay(21)
""",
        "shop:app.fairlane",
    ),
    "rq": (
        f"""
import fairlane as fl
from fairlane.compat.rq import job
app = fl.Fairlane("{STORE}")

@job("sums", connection=app)
def work(n):
    return n * 2

""",
        "shop:app",
    ),
    "dramatiq": (
        f"""
from fairlane.compat import dramatiq
broker = dramatiq.FairlaneBroker("{STORE}")
dramatiq.set_broker(broker)

@dramatiq.actor
def work(n):
    return n * 2

if __name__ == "__main__":
    work.send(21)
""",
        "shop:broker.fairlane",
    ),
    "procrastinate": (
        f"""
from fairlane.compat.procrastinate import App
app = App(connector="{STORE}")

@app.task(queue="sums", pass_context=True, lock="one")
def work(context, n):
    return n * 2

if __name__ == "__main__":
    work.defer(n=21)
""",
        "shop:app.fairlane",
    ),
}


@pytest.mark.slow
@pytest.mark.timeout(90)
@pytest.mark.parametrize("system", PROGRAMS)
def test_a_worker_of_another_process_runs_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str):
    program, where = PROGRAMS[system]
    (tmp_path / "shop.py").write_text(program)
    start = ["shop.py"] if system != "rq" else ["-c", "import shop; shop.work.delay(21)"]
    subprocess.run([sys.executable, *start], cwd=tmp_path, check=True)
    monkeypatch.chdir(tmp_path)
    with fl.Fairlane(STORE) as app:
        (job,) = app.jobs()
        assert job.task == ("work" if system == "dramatiq" else "shop.work")
        worker = subprocess.Popen([sys.executable, "-m", "fairlane", "worker", where], cwd=tmp_path)
        try:
            assert job.result(timeout=30) == 42
        finally:
            worker.terminate()
            assert worker.wait(30) == 0
