"""Traces: jobs with their arrival, tenant, queue, tier and run time; read, written, rescaled, made up from a seed."""

from __future__ import annotations

import csv
import gzip
import io
import math
import zlib
from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, NoReturn, TextIO

from fairlane.domain.checks import number, text, whole
from fairlane.domain.policy import SECOND_US
from fairlane.domain.tiers import Tier
from fairlane.errors import InvalidValue
from fairlane.simulate.samples import draw

COLUMNS: Final = ("submit_s", "tenant", "queue", "tier", "run_s")
DEFAULT_UTILISATION: Final = 0.95
MAX_JOBS: Final = 5_000_000
"""A longer file is refused: it is no trace, or too much for the memory of one process."""
MAX_SUBMIT_S: Final = 1e11
MAX_RUN_S: Final = 1e9
_GZIP_MAGIC: Final = b"\x1f\x8b"


class TraceJob(NamedTuple):
    """One job of a trace; times in whole microseconds, ``submit_us`` since the first job."""

    submit_us: int
    tenant: str
    queue: str
    tier: int
    run_us: int

    @property
    def submit_s(self) -> float:
        """Seconds from the first job to this one."""
        return self.submit_us / SECOND_US

    @property
    def run_s(self) -> float:
        """Run time in seconds."""
        return self.run_us / SECOND_US


@dataclass(frozen=True, slots=True)
class Trace:
    """Jobs by submit time, the first at 0. Make one with :meth:`of`, :func:`read` or :func:`sample`."""

    name: str
    jobs: tuple[TraceJob, ...]

    @staticmethod
    def of(name: str, jobs: Iterable[TraceJob]) -> Trace:
        """Return a trace of these jobs, sorted by submit time (ties in the order given) and moved to start at 0.

        Raises:
            InvalidValue: There are no jobs.
        """
        ordered = sorted(jobs, key=_submit)
        if not ordered:
            raise InvalidValue(f"trace {name!r} holds no jobs")
        first = ordered[0].submit_us
        if first:
            ordered = [job._replace(submit_us=job.submit_us - first) for job in ordered]
        return Trace(name, tuple(ordered))

    @property
    def span_us(self) -> int:
        """Microseconds from the first submit to the last."""
        return self.jobs[-1].submit_us

    @property
    def span_s(self) -> float:
        """Seconds from the first submit to the last."""
        return self.span_us / SECOND_US

    @property
    def work_us(self) -> int:
        """The run times of all jobs together, in microseconds."""
        return sum(job.run_us for job in self.jobs)

    def tenants(self) -> Counter[str]:
        """Return how many jobs each tenant has, tenants by first appearance."""
        return Counter(job.tenant for job in self.jobs)

    def queues(self) -> Counter[str]:
        """Return how many jobs each queue has, queues by first appearance."""
        return Counter(job.queue for job in self.jobs)

    def heaviest(self) -> str:
        """Return the tenant with most jobs; of several, the one that appears first."""
        return heaviest(self.tenants())

    def without(self, tenants: Collection[str]) -> Trace:
        """Return the trace without the jobs of these tenants; the others keep their times.

        Raises:
            InvalidValue: Nothing would be left.
        """
        kept = tuple(job for job in self.jobs if job.tenant not in tenants)
        if not kept:
            raise InvalidValue(f"trace {self.name!r} holds no jobs of other tenants")
        return Trace(self.name, kept)

    def utilisation(self, workers: int) -> float:
        """Return the work that arrives ÷ what ``workers`` can do from the first submit to the last.

        Above 1 more work arrives than they can do; infinite when all jobs come at one instant.
        """
        return self.work_us / (workers * self.span_us) if self.span_us else math.inf

    def workers_for(self, utilisation: float = DEFAULT_UTILISATION) -> int:
        """Return how many workers come nearest to this utilisation.

        Raises:
            InvalidValue: All jobs come at one instant, so that no utilisation can be told.
        """
        number("utilisation", utilisation, least=0, most=1000, above=True)
        if not self.span_us:
            raise InvalidValue(
                f"all jobs of trace {self.name!r} are submitted at one instant: say how many workers there are"
            )
        return max(1, round(self.work_us / self.span_us / utilisation))


def _submit(job: TraceJob) -> int:
    return job.submit_us


def heaviest(jobs_by_tenant: Counter[str]) -> str:
    """Return the tenant with most jobs; of several, the first of the counter."""
    return max(jobs_by_tenant, key=jobs_by_tenant.__getitem__)


# ---------------------------------------------------------------------- reading


def read(path: str | Path) -> Trace:
    """Read a trace from a CSV file, plain or gzip (told by its content, not its name).

    Args:
        path: The file. Its first line names the columns; :data:`COLUMNS` must be there, others are ignored.

    Returns:
        The trace, called as the file without its suffixes.

    Raises:
        InvalidValue: The file breaks a rule; the message names line, column, value and rule.
        OSError: The file cannot be read.
    """
    path = Path(path)
    with _open_text(path) as lines:
        return parse(lines, path.name.removesuffix(".gz").removesuffix(".csv"), source=str(path))


@contextmanager
def _open_text(path: Path) -> Generator[TextIO, None, None]:
    with path.open("rb") as raw:
        packed = raw.read(2) == _GZIP_MAGIC
        raw.seek(0)
        stream = gzip.GzipFile(fileobj=raw) if packed else raw
        with io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as lines:  # pyright: ignore[reportArgumentType]  # typeshed wants a RawIOBase; GzipFile is one in all but name
            yield lines


def parse(lines: Iterable[str], name: str, *, source: str | None = None, most_jobs: int = MAX_JOBS) -> Trace:
    """Read a trace from lines of CSV.

    Args:
        lines: The lines, the header first.
        name: What the trace is called.
        source: What errors call it, by default ``name``.
        most_jobs: More jobs than this are refused.

    Raises:
        InvalidValue: A line breaks a rule; the message names line, column, value and rule.
    """
    parser = _Parser(source or name, lines, most_jobs)
    try:
        return Trace.of(name, parser.jobs())
    except UnicodeDecodeError as error:
        raise InvalidValue(f"{parser.where(1)}: not UTF-8 text ({error.reason})") from None
    except csv.Error as error:
        raise InvalidValue(f"{parser.where()}: {error}") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InvalidValue(f"{parser.where(1)}: the gzip data is damaged or cut short ({error})") from None


class _Parser:
    """Reads and checks line by line; remembers texts it has checked, since few of them are new."""

    def __init__(self, source: str, lines: Iterable[str], most_jobs: int) -> None:
        self._source = source
        self._most_jobs = most_jobs
        self._reader = csv.reader(lines)
        self._tenants: dict[str, str] = {}
        self._queues: dict[str, str] = {}
        self._tiers: dict[str, int] = {}

    def where(self, beyond: int = 0) -> str:
        return f"{self._source}, line {self._reader.line_num + beyond}"

    def jobs(self) -> Iterator[TraceJob]:
        places = self._places(next(self._reader, None))
        submit, tenant, queue, tier, run = places
        width = max(places) + 1
        seen = 0
        for row in self._reader:
            if not row:
                continue
            if len(row) < width:
                raise InvalidValue(
                    f"{self.where()}: {len(row)} columns; {COLUMNS[places.index(width - 1)]} is number {width}"
                )
            seen += 1
            if seen > self._most_jobs:
                raise InvalidValue(f"{self.where()}: more than {self._most_jobs:,} jobs")
            yield TraceJob(
                self._micros("submit_s", row[submit], MAX_SUBMIT_S),
                self._tenants.get(row[tenant]) or self._name("tenant", row[tenant], self._tenants),
                self._queues.get(row[queue]) or self._name("queue", row[queue], self._queues),
                self._tier(row[tier]),
                self._micros("run_s", row[run], MAX_RUN_S),
            )
        if not seen:
            raise InvalidValue(f"{self._source}: a header, but no jobs")

    def _places(self, header: list[str] | None) -> list[int]:
        names = [name.strip() for name in header or []]
        missing = [name for name in COLUMNS if name not in names]
        if missing:
            found = ", ".join(repr(name) for name in names) or "nothing"
            raise InvalidValue(
                f"{self._source}, line 1: no column {', '.join(missing)} (found {found}); "
                f"a trace has {','.join(COLUMNS)}"
            )
        twice = [name for name in COLUMNS if names.count(name) > 1]
        if twice:
            raise InvalidValue(f"{self._source}, line 1: column {twice[0]} is there {names.count(twice[0])} times")
        return [names.index(name) for name in COLUMNS]

    def _refuse(self, column: str, value: str, rule: str) -> NoReturn:
        shown = value[:57] + "..." if value[60:] else value
        raise InvalidValue(f"{self.where()}: column {column} is {shown!r}; it must be {rule}")

    def _micros(self, column: str, value: str, most_s: float) -> int:
        try:
            seconds = float(value)
        except ValueError:
            seconds = math.nan
        if not 0 <= seconds <= most_s or "_" in value:
            self._refuse(column, value, f"a number of seconds from 0 to {most_s:g}")
        return round(seconds * SECOND_US)

    def _name(self, column: str, value: str, known: dict[str, str]) -> str:
        try:
            text(column, value)
        except InvalidValue:
            self._refuse(column, value, "1 to 255 bytes of UTF-8 text without NUL")
        return known.setdefault(value, value)

    def _tier(self, value: str) -> int:
        tier = self._tiers.get(value)
        if tier is None:
            bare = value.strip()
            try:
                tier = int(Tier.of(int(bare) if bare.isascii() and bare.isdigit() else bare))
            except InvalidValue:
                self._refuse("tier", value, "0 to 4, or one of " + ", ".join(tier.label for tier in Tier))
            self._tiers[value] = tier
        return tier


# ---------------------------------------------------------------------- writing


def write(trace: Trace, path: str | Path) -> None:
    """Write a trace as CSV, packed with gzip when the name ends in ``.gz``; the same trace gives the same bytes.

    Raises:
        OSError: The file cannot be written.
    """
    path = Path(path)
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows((_plain(job.submit_us), job.tenant, job.queue, job.tier, _plain(job.run_us)) for job in trace.jobs)
    content = buffer.getvalue().encode()
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def _plain(micros: int) -> str:
    """Return microseconds as seconds, without needless zeros.

    Example:
        >>> _plain(1_500_000), _plain(2_000_000), _plain(1)
        ('1.5', '2', '0.000001')
    """
    whole_s, rest = divmod(micros, SECOND_US)
    return f"{whole_s}.{rest:06d}".rstrip("0") if rest else str(whole_s)


# ---------------------------------------------------------------------- rescaling


def rescale(
    trace: Trace,
    seconds: float,
    *,
    slots: int | None = None,
    utilisation: float | None = None,
    longest_s: float | None = None,
    window_s: tuple[float, float] | None = None,
) -> Trace:
    """Return the trace, or a window of it, squeezed or stretched to another length: for a replay in real time.

    Args:
        trace: The trace.
        seconds: Time from its first submit to its last afterwards; above 0.
        slots: How many workers it will meet; with ``utilisation``.
        utilisation: The utilisation it will have there. Without it run times shrink by the same factor as the gaps.
        longest_s: No run time is longer than this; with ``utilisation`` the others make up for it.
        window_s: Take only what is submitted from the one second up to, not including, the other.

    Raises:
        InvalidValue: An argument is out of range, the window holds no jobs, or the run times cannot be had.
    """
    number("seconds", seconds, least=0, most=MAX_SUBMIT_S, above=True)
    if longest_s is not None:
        number("longest_s", longest_s, least=0, most=MAX_RUN_S, above=True)
    if window_s is not None:
        low, high = (round(edge * SECOND_US) for edge in window_s)
        trace = Trace.of(trace.name, (job for job in trace.jobs if low <= job.submit_us < high))
    stretch = seconds * SECOND_US / trace.span_us if trace.span_us else 0.0
    most_us = math.inf if longest_s is None else longest_s * SECOND_US
    if utilisation is None or slots is None:
        factor = stretch or 1.0
    else:
        whole("slots", slots, least=1)
        number("utilisation", utilisation, least=0, most=1000, above=True)
        factor = fitted([job.run_us for job in trace.jobs], utilisation * slots * seconds * SECOND_US, most_us)
    jobs = (
        job._replace(submit_us=round(job.submit_us * stretch), run_us=round(min(most_us, job.run_us * factor)))
        for job in trace.jobs
    )
    return Trace(trace.name, tuple(jobs))


def fitted(sizes: Sequence[float], total: float, most: float) -> float:
    """Return the factor that makes sizes add up to ``total`` when none of them may be larger than ``most``.

    Raises:
        InvalidValue: No factor does.

    Example:
        >>> fitted([1, 1, 8], 5, 2)
        1.5
    """
    if not any(sizes) or total > most * sum(1 for size in sizes if size > 0):
        raise InvalidValue(
            f"{len(sizes):,} jobs of at most {most / SECOND_US:g} s cannot make {total / SECOND_US:g} s of work: "
            "take more jobs, fewer slots or less utilisation"
        )
    ordered = sorted(sizes)
    rest = sum(ordered)
    cut = 0
    factor = total / rest
    while ordered and ordered[-1] * factor > most:  # what is cut off falls to the others, which may then be cut too
        rest -= ordered.pop()
        cut += 1
        if rest <= 0:
            break
        factor = (total - most * cut) / rest
    return factor


# ---------------------------------------------------------------------- made up


def sample(
    *,
    jobs: int = 5000,
    tenants: int = 50,
    seconds: float = 600.0,
    slots: int = 32,
    utilisation: float = 0.9,
    seed: int = 1,
) -> Trace:
    """Return a made-up trace with the troubles of real ones; the same arguments give the same trace.

    One tenant, ``acme``, has about 60 % of the jobs and submits hundreds of them within a second; many small tenants
    come and go; all five tiers are in use; run times are heavy-tailed and differ by queue. A job runs for at most a
    tenth of ``seconds``.

    Args:
        jobs: How many jobs; at least ``tenants``.
        tenants: How many tenants; 1 or more.
        seconds: Time from the first submit to the last; above 0.
        slots: The number of workers for which ``utilisation`` is meant.
        utilisation: The work that arrives ÷ what ``slots`` workers can do in ``seconds``.
        seed: Picks the draws.

    Raises:
        InvalidValue: An argument is out of range, or so few jobs cannot make so much work.
    """
    whole("jobs", jobs, least=1, most=MAX_JOBS)
    whole("tenants", tenants, least=1)
    number("seconds", seconds, least=0, most=MAX_SUBMIT_S, above=True)
    whole("slots", slots, least=1)
    number("utilisation", utilisation, least=0, most=1000, above=True)
    if jobs < tenants:
        raise InvalidValue(f"{jobs} jobs are too few for {tenants} tenants: each has at least one")
    submits, rows = draw(jobs, tenants, seconds, whole("seed", seed))
    most_us = seconds * SECOND_US / 10
    factor = fitted([size for *_, size in rows], utilisation * slots * seconds * SECOND_US, most_us)
    made = (
        TraceJob(round(submit * SECOND_US), tenant, queue, tier, max(1, round(min(most_us, size * factor))))
        for submit, (tenant, queue, tier, size) in zip(submits, rows, strict=True)
    )
    return Trace.of(f"sample-{seed}", made)
