"""Random operations on any number of schedulers in lock-step, compared claim by claim.

Everything comes from one seed. A run keeps its whole log; :func:`replay` carries a log out again on fresh objects, and
:func:`shrink` cuts one down to the few operations that still show a difference::

    try:
        run(17, [PlainModel, Scheduler])
    except Difference as difference:
        print(shrink(difference.policy, difference.log, [PlainModel, Scheduler]))
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from fairlane.domain.lanes import Ask, LaneKey, Place, Start
from fairlane.domain.policy import Kind, LimitRule, Pause, Policy, QueueRule, Rate, TaskRule, TenantRule
from fairlane.domain.tiers import Tier

Make = Callable[[Policy], Any]
"""Makes an object to compare; Any, because it is the methods' names that such objects share."""

POOLS = ("default", "batch")
LIMITS = ("api", "db", "smtp:{tenant}")
CLOSABLE = ("api", "db", "smtp:t0", "smtp:t1", "smtp:t2")
TIERS = (0, 1, 1, 2, 2, 2, 3, 4)
SECOND = 1000


class Operation(NamedTuple):
    """One call on every object; ``move`` stands for a boost or an expedite: add there, then remove here."""

    name: str
    args: tuple[Any, ...]
    options: dict[str, Any]

    def __repr__(self) -> str:
        words = [repr(arg) for arg in self.args] + [f"{name}={value!r}" for name, value in self.options.items()]
        return f"{self.name}({', '.join(words)})"


class Difference(AssertionError):
    """Two objects chose differently, or one failed. Carries what :func:`replay` needs."""

    def __init__(self, what: str, policy: Policy, log: Sequence[Operation]) -> None:
        super().__init__(what)
        self.policy = policy
        self.log = list(log)


class Job(NamedTuple):
    """A waiting job."""

    lane: LaneKey
    place: Place
    express: int | None


class Lockstep:
    """Objects that get the same calls, and the jobs that wait and run in all of them."""

    def __init__(self, policy: Policy, makers: Sequence[Make]) -> None:
        self.policy = policy
        self.objects = [make(policy) for make in makers]
        self.log: list[Operation] = []
        self.waiting: list[Job] = []
        self.running: list[Start] = []
        self.rules: Counter[str] = Counter()

    def do(self, name: str, *args: Any, **options: Any) -> None:
        """Make one call on every object; a claim's answers must be equal."""
        self.log.append(Operation(name, args, options))
        if name == "move":
            old, new = args
            self._call("add", *new)
            self._call("remove", *old)
            self.waiting.remove(old)
            self.waiting.append(new)
            return
        answers = self._call(name, *args, **options)
        if name == "add":
            self.waiting.append(Job(*args))
        elif name == "remove":
            self.waiting.remove(Job(*args))
        elif name == "finish":
            self.running.remove(args[0])
        elif name == "claim":
            self._compare(answers)

    def _call(self, name: str, *args: Any, **options: Any) -> list[Any]:
        answers = []
        for each in self.objects:
            try:
                answers.append(getattr(each, name)(*args, **options))
            except Exception as error:
                what = f"{type(each).__name__}.{name} raised {error!r}"
                raise Difference(what, self.policy, self.log) from error
        return answers

    def _compare(self, answers: list[list[Start]]) -> None:
        first = answers[0]
        for each, answer in zip(self.objects, answers, strict=True):
            if answer != first:
                at = next((n for n in range(len(first)) if answer[n : n + 1] != first[n : n + 1]), len(first))
                what = [f"the answers differ from start {at} on:"]
                for who, starts in ((self.objects[0], first), (each, answer)):
                    what.append(f"  {type(who).__name__}: {starts[at] if at < len(starts) else 'no such start'}")
                raise Difference("\n".join(what), self.policy, self.log)
        for start in first:
            self.waiting.remove(Job(start.lane, start.place, start.express))
            self.running.append(start)
            self.rules[start.rule] += 1


class Traffic:
    """Draws operations: a few queues, tasks and tenants, and whatever a store may do with them."""

    def __init__(self, seed: int, makers: Sequence[Make]) -> None:
        self.draw = random.Random(seed)
        self.now_ms = self.draw.choice([0, 1_700_000_000_000])
        self.lockstep = Lockstep(self._policy(), makers)
        self.queues = {f"q{n}": QueueRule() for n in range(self.draw.choice([1, 2, 3, 5]))}
        self.tasks = {f"k{n}": TaskRule() for n in range(self.draw.choice([1, 1, 2, 3]))}
        self.tenants = {f"t{n}": TenantRule() for n in range(self.draw.choice([1, 2, 3, 6, 12]))}
        self.limits = {key: LimitRule() for key in (*LIMITS, "smtp:t0")}
        self.pools = POOLS[: self.draw.choice([1, 1, 2])]
        self.away: list[tuple[int, Job]] = []
        self.seq = self.express = 0
        busy = self.draw.choice([0, 0.05, 0.15, 0.3])
        self.kinds: dict[Callable[[], None], float] = {
            self.add: 0.24,
            self.claim: 0.34,
            self.finish: 0.20,
            self.remove: 0.03,
            self.boost: 0.03,
            self.expedite: 0.03,
            self.set_workers: 0.03,
            self.set_queue: busy * 0.3,
            self.set_task: busy * 0.15,
            self.set_tenant: busy * 0.3,
            self.set_limit: busy * 0.2,
            self.close_limit: busy * 0.15,
        }
        self.serves_all = self.draw.choice([0, 0.1, 0.4, 0.7])
        self._settings()

    def step(self) -> None:
        """Let some time pass and do one thing."""
        even_ms = self.draw.choice([1, 5, 20, 30, 60]) * SECOND
        self.now_ms += self.draw.choice([0, 0, 0, self._up_to(1), self._up_to(10), self._up_to(100) // 2, even_ms])
        for item in [item for item in self.away if item[0] <= self.now_ms]:
            self.away.remove(item)
            self.lockstep.do("add", *item[1])
        self.draw.choices(list(self.kinds), list(self.kinds.values()))[0]()

    def _up_to(self, seconds: int) -> int:
        return self.draw.randrange(1, seconds * SECOND)

    def _policy(self) -> Policy:
        draw = self.draw
        kinds: list[Kind] = ["fair", "fair", "fair", "strict", "fifo"]
        return Policy(
            kind=draw.choice(kinds),
            charge=draw.choice(["time", "time", "count", "cost"]),
            ageing_step_ms=draw.choice([5, 20, 60]) * SECOND,
            ageing_ceiling=draw.choice([Tier.HIGH, Tier.HIGH, Tier.CRITICAL, Tier.NORMAL]),
            risen_every=draw.choice([0, 1, 2, 3, 8]),
            urgent_share=draw.choice([0.25, 0.25, 0.3, 0.5, 1.0]),
            max_lag_us=draw.choice([0, 1, 10, 600]) * 1_000_000,
            unknown_run_us=draw.choice([1, 1_000_000, 10_000_000]),
        )

    def _settings(self) -> None:
        """Set what a store has been told before its first job."""
        for name in self.queues:
            self.queues[name] = QueueRule(pool=self.draw.choice(self.pools))
            self.lockstep.do("set_queue", name, self.queues[name])
        for name in self.tasks:
            keys = [key for key in LIMITS if self.draw.random() < 0.4]
            self.tasks[name] = TaskRule(limits=tuple(keys))
            self.lockstep.do("set_task", name, self.tasks[name])
        for name in self.tenants:
            if self.draw.random() < 0.4:
                self.tenants[name] = TenantRule(weight_milli=self.draw.choice([500, 2000, 3000, 7]))
                self.lockstep.do("set_tenant", name, self.tenants[name])
        for _ in range(self.draw.choice([0, 1, 3])):
            self.set_workers()

    # ---------------------------------------------------------------- jobs

    def add(self) -> None:
        for _ in range(self.draw.choice([1, 1, 2, 5])):
            names = list(self.tenants)
            tenant = names[min(self.draw.randrange(len(names)), self.draw.randrange(len(names)))]
            lane = LaneKey(self._any(self.queues), self._any(self.tasks), tenant, self.draw.choice(TIERS))
            self.seq += 1
            arrival_ms = max(0, self.now_ms - self.draw.choice([0, 0, 0, self._up_to(1), self._up_to(200)]))
            express = self._next_express() if self.draw.random() < 0.05 else None
            self.lockstep.do("add", *Job(lane, Place(arrival_ms, self.seq), express))

    def remove(self) -> None:
        if self.lockstep.waiting:
            self.lockstep.do("remove", *self.draw.choice(self.lockstep.waiting))

    def boost(self) -> None:
        if self.lockstep.waiting:
            job = self.draw.choice(self.lockstep.waiting)
            tier = self.draw.choice([tier for tier in range(5) if tier != job.lane.tier])
            self.lockstep.do("move", job, job._replace(lane=job.lane._replace(tier=tier)))

    def expedite(self) -> None:
        jobs = [job for job in self.lockstep.waiting if job.express is None]
        if jobs:
            job = self.draw.choice(jobs)
            self.lockstep.do("move", job, job._replace(express=self._next_express()))

    def finish(self) -> None:
        """End some running jobs: settled, put back at once, or back after a while, at their places."""
        running = self.lockstep.running
        for start in self.draw.sample(running, min(len(running), self.draw.choice([1, 1, 2, 4]))):
            run_us = self.draw.choice([0, self._up_to(1), self._up_to(5), self._up_to(50)]) * 1000
            options: dict[str, Any] = {}
            if self.draw.random() < 0.2:
                options["in_mean"] = False
            if self.draw.random() < 0.5:
                options["units_us"] = self._up_to(20) * 1000
            self.lockstep.do("finish", start, run_us, **options)
            job = Job(start.lane, start.place, start.express)
            fate = self.draw.random()
            if fate < 0.15:
                self.lockstep.do("add", *job)
            elif fate < 0.3:
                self.away.append((self.now_ms + self._up_to(40), job))

    def _next_express(self) -> int:
        self.express += 1
        return self.express

    def _any(self, names: dict[str, Any]) -> str:
        return self.draw.choice(list(names))

    # ---------------------------------------------------------------- claims

    def claim(self) -> None:
        draw = self.draw
        ask = Ask(
            draw.choice(self.pools),
            draw.choice([1, 1, 1, 2, 5, 20]),
            queues=None
            if draw.random() < self.serves_all
            else {name: draw.choice([0, 1, 1, 2, 5]) for name in self.queues if draw.random() < 0.7},
            tasks=None if draw.random() < 0.7 else frozenset(name for name in self.tasks if draw.random() < 0.7),
            rooms=None if draw.random() < 0.7 else self._rooms(),
        )
        self.lockstep.do("claim", ask, self.now_ms)

    def _rooms(self) -> tuple[int, int, int, int, int]:
        """Rooms as ``reserve`` gives them, fewer for the less urgent; at times in no order at all."""
        rooms = [self.draw.choice([0, 1, 2, 3, 6]) for _ in range(5)]
        if self.draw.random() < 0.8:
            rooms.sort(reverse=True)
        return rooms[0], rooms[1], rooms[2], rooms[3], rooms[4]

    # ---------------------------------------------------------------- rules

    def set_queue(self) -> None:
        name = self._any(self.queues)
        self.queues[name] = self._changed(
            self.queues[name],
            pause=self._pause(),
            max_running=self._cap(),
            tenant_max_running=self._cap(),
            pool=self.draw.choice(self.pools),
        )
        self.lockstep.do("set_queue", name, self.queues[name])

    def set_task(self) -> None:
        name = self._any(self.tasks)
        keys = tuple(key for key in LIMITS if self.draw.random() < 0.5)
        self.tasks[name] = self._changed(self.tasks[name], pause=self._pause(), limits=keys)
        self.lockstep.do("set_task", name, self.tasks[name])

    def set_tenant(self) -> None:
        name = self._any(self.tenants)
        self.tenants[name] = self._changed(
            self.tenants[name],
            pause=self._pause(),
            max_running=self._cap(),
            rate=self._rate(),
            weight_milli=self.draw.choice([1, 500, 1000, 3000]),
        )
        self.lockstep.do("set_tenant", name, self.tenants[name])

    def set_limit(self) -> None:
        key = self._any(self.limits)
        self.limits[key] = self._changed(
            self.limits[key], pause=self._pause(), max_running=self._cap(), rate=self._rate()
        )
        self.lockstep.do("set_limit", key, self.limits[key])

    def close_limit(self) -> None:
        self.lockstep.do("close_limit", self.draw.choice(CLOSABLE), self.now_ms + self._up_to(30))

    def set_workers(self) -> None:
        queues = self.draw.choice([None, frozenset(), frozenset(n for n in self.queues if self.draw.random() < 0.5)])
        self.lockstep.do("set_workers", self.draw.choice(self.pools), self.draw.choice([0, 1, 4, 9, 12]), queues)

    def _changed(self, rule: Any, **fields: Any) -> Any:
        """Return the rule with one or two of these fields, at times with all fields at their defaults."""
        if self.draw.random() < 0.1:
            return type(rule)()
        names = self.draw.sample(list(fields), self.draw.choice([1, 1, 1, 2]))
        return replace(rule, **{name: fields[name] for name in names})

    def _pause(self) -> Pause | None:
        return self.draw.choice([None, None, None, Pause("by hand"), Pause(until_ms=self.now_ms + self._up_to(60))])

    def _cap(self) -> int | None:
        return self.draw.choice([None, None, 0, 1, 2, 3])

    def _rate(self) -> Rate | None:
        draw = self.draw
        rate = Rate(draw.choice([1, 2, 3, 7]), draw.choice([1000, 5000, 20_000]), burst=draw.choice([1, 1, 2, 3]))
        return draw.choice([None, rate, rate])


def run(seed: int, makers: Sequence[Make], *, steps: int = 120) -> Counter[str]:
    """Carry out ``steps`` random operations and return how many starts each rule made.

    Raises:
        Difference: The objects do not agree; the message holds seed, step and the last eight operations.
    """
    traffic = Traffic(seed, makers)
    for step in range(steps):
        try:
            traffic.step()
        except Difference as difference:
            lines = [f"seed {seed}, step {step}: {difference}", f"policy: {difference.policy}", "last operations:"]
            lines += [f"  {operation!r}" for operation in difference.log[-8:]]
            raise Difference("\n".join(lines), difference.policy, difference.log) from difference.__cause__
    return traffic.lockstep.rules


def replay(policy: Policy, log: Sequence[Operation], makers: Sequence[Make]) -> None:
    """Carry a log out on fresh objects, leaving out what no longer makes sense in it.

    Raises:
        Difference: The objects do not agree.
    """
    lockstep = Lockstep(policy, makers)
    for name, args, options in log:
        waiting, running = lockstep.waiting, {start.place: start for start in lockstep.running}
        if name == "add":
            sensible = args[1] not in running and all(job.place != args[1] for job in waiting)
        elif name in ("remove", "move"):
            sensible = (Job(*args) if name == "remove" else args[0]) in waiting
        else:
            sensible = name != "finish" or args[0].place in running
        if sensible:
            lockstep.do(name, *((running[args[0].place], *args[1:]) if name == "finish" else args), **options)


def shrink(policy: Policy, log: Sequence[Operation], makers: Sequence[Make]) -> list[Operation]:
    """Return a shorter log that still shows a difference; no operation in it can be left out."""
    least, size = list(log), max(1, len(log) // 2)
    while True:
        shorter = False
        for at in range(len(least) - size, -1, -size):
            try:
                replay(policy, least[:at] + least[at + size :], makers)
            except Difference as difference:
                least, shorter = difference.log, True
                break
        if not shorter:
            if size == 1:
                return least
            size = max(1, size // 2)
