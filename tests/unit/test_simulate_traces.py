"""Traces: what is read, what is refused and how it is said, what is written, made up and rescaled."""

import gzip
import re
from collections import Counter

import pytest

from fairlane.errors import InvalidValue
from fairlane.simulate.traces import Trace, TraceJob, fitted, parse, read, rescale, sample, write

HEADER = "submit_s,tenant,queue,tier,run_s\n"


def lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def test_columns_are_found_by_name_and_others_ignored():
    trace = parse(
        lines("extra,run_s,tier,queue,tenant,submit_s\nx,1.5,4,q,acme,10\ny,0,critical,r,b c,10.000001\n"), "t"
    )
    assert trace.jobs == (TraceJob(0, "acme", "q", 4, 1_500_000), TraceJob(1, "b c", "r", 0, 0))


def test_jobs_are_sorted_by_time_and_ties_keep_their_order():
    trace = parse(lines(HEADER + "7,a,q,1,1\n5,b,q,1,1\n7,c,q,1,1\n5,d,q,1,1\n"), "t")
    assert [(job.tenant, job.submit_s) for job in trace.jobs] == [("b", 0), ("d", 0), ("a", 2), ("c", 2)]


@pytest.mark.parametrize("name", ["week.csv", "week.csv.gz", "week.data"])
def test_gzip_is_told_by_content_and_a_byte_order_mark_is_no_matter(tmp_path, name):
    content = ("\ufeff" + HEADER + "\r\n0,ä,q,HIGH,2\r\n").encode()
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name != "week.csv" else content)
    trace = read(path)
    assert trace.jobs == (TraceJob(0, "ä", "q", 1, 2_000_000),)
    assert trace.name == name.removesuffix(".gz").removesuffix(".csv")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: no column submit_s, tenant, queue, tier, run_s (found nothing)"),
        ("submit_s,tenant,queue,run_s\n", "line 1: no column tier (found 'submit_s', 'tenant', 'queue', 'run_s')"),
        ("submit_s,tenant,queue,tier,tier,run_s\n", "line 1: column tier is there 2 times"),
        (HEADER, "a header, but no jobs"),
        (HEADER + "0,a,q,2,1\n0,a,q,2\n", "line 3: 4 columns; run_s is number 5"),
        (
            HEADER + "soon,a,q,2,1\n",
            "line 2: column submit_s is 'soon'; it must be a number of seconds from 0 to 1e+11",
        ),
        (HEADER + "-1,a,q,2,1\n", "line 2: column submit_s is '-1'; it must be a number of seconds from 0"),
        (HEADER + "0,a,q,2,nan\n", "line 2: column run_s is 'nan'; it must be a number of seconds from 0 to 1e+09"),
        (HEADER + "0,a,q,2,inf\n", "line 2: column run_s is 'inf'"),
        (HEADER + "0,a,q,2,1_0\n", "line 2: column run_s is '1_0'"),
        (HEADER + "0,a,q,2,\n", "line 2: column run_s is ''"),
        (HEADER + "0,,q,2,1\n", "line 2: column tenant is ''; it must be 1 to 255 bytes of UTF-8 text without NUL"),
        (HEADER + "0,a," + "q" * 256 + ",2,1\n", "line 2: column queue is 'qqqq"),
        (HEADER + "0,a,q,5,1\n", "line 2: column tier is '5'; it must be 0 to 4, or one of critical, high, normal"),
        (HEADER + "0,a,q,1.5,1\n", "line 2: column tier is '1.5'"),
        (HEADER + "0,a,q,-1,1\n", "line 2: column tier is '-1'"),
        (HEADER + '0,"a\nb",q,2,1\n0,a,q,x,1\n', "line 4: column tier is 'x'"),
    ],
)
def test_an_error_names_line_column_value_and_rule(text, message):
    with pytest.raises(InvalidValue, match=re.escape(message)) as found:
        parse(lines(text), "t", source="dir/t.csv")
    assert str(found.value).startswith("dir/t.csv")


def test_too_many_jobs_are_refused():
    with pytest.raises(InvalidValue, match="line 4: more than 2 jobs"):
        parse(lines(HEADER + "0,a,q,2,1\n" * 3), "t", most_jobs=2)


def test_what_is_no_text_and_what_is_cut_short(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(HEADER.encode() + b"0,\xff\xfe,q,2,1\n")
    with pytest.raises(InvalidValue, match="not UTF-8 text"):
        read(path)
    path.write_bytes(gzip.compress((HEADER + "0,a,q,2,1\n" * 2000).encode())[:-12])
    with pytest.raises(InvalidValue, match="damaged or cut short"):
        read(path)
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "none.csv")


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_what_is_written_is_read_again(tmp_path, name):
    trace = sample(jobs=300, tenants=7)
    write(trace, tmp_path / name)
    first = (tmp_path / name).read_bytes()
    assert read(tmp_path / name).jobs == trace.jobs
    write(trace, tmp_path / name)
    assert (tmp_path / name).read_bytes() == first, "the same trace gives the same bytes"


def test_facts_of_a_trace():
    trace = Trace.of("t", [TraceJob(s, t, "q", 2, 3_000_000) for s, t in ((0, "b"), (0, "a"), (10_000_000, "a"))])
    assert (trace.heaviest(), trace.work_us, trace.span_s) == ("a", 9_000_000, 10)
    assert trace.utilisation(1) == pytest.approx(0.9)
    assert trace.workers_for(0.5) == 2
    assert trace.without({"a"}).jobs == trace.jobs[:1]
    with pytest.raises(InvalidValue, match="no jobs of other tenants"):
        trace.without({"a", "b"})
    with pytest.raises(InvalidValue, match="say how many workers"):
        trace.without({"a"}).workers_for()


# ---------------------------------------------------------------------- made up


def test_a_sample_has_the_troubles_of_real_traces():
    trace = sample(jobs=8000, tenants=60, seconds=1200, slots=50, utilisation=0.8, seed=3)
    counts, heaviest = trace.tenants(), trace.heaviest()
    assert (len(trace.jobs), len(counts), trace.span_s) == (8000, 60, 1200)
    assert counts[heaviest] / 8000 == pytest.approx(0.6, abs=0.01)
    heavy = [job.submit_s for job in trace.jobs if job.tenant == heaviest]
    assert max(Counter(int(second) for second in heavy).values()) > 100, "hundreds within a second"
    assert sorted(Counter(job.tier for job in trace.jobs)) == [0, 1, 2, 3, 4]
    assert trace.utilisation(50) == pytest.approx(0.8, rel=1e-4)
    runs = sorted(job.run_s for job in trace.jobs)
    assert runs[-80] > 10 * runs[4000], "the longest hundredth is far from the median"
    assert runs[-1] <= 120
    assert min(counts.values()) >= 1


def test_a_sample_is_its_seed():
    assert sample(seed=7) == sample(seed=7)
    assert sample(seed=7).jobs != sample(seed=8).jobs


@pytest.mark.parametrize(("jobs", "tenants"), [(1, 1), (2, 1), (2, 2), (7, 7), (20, 3)])
def test_small_samples(jobs, tenants):
    trace = sample(jobs=jobs, tenants=tenants, slots=1, utilisation=0.01)
    assert (len(trace.jobs), len(trace.tenants())) == (jobs, tenants)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"jobs": 3, "tenants": 4}, "3 jobs are too few for 4 tenants"),
        ({"jobs": 10, "tenants": 2, "slots": 100}, "take more jobs, fewer slots or less utilisation"),
        ({"utilisation": 0}, "utilisation is 0"),
        ({"seconds": -1}, "seconds is -1"),
    ],
)
def test_a_sample_that_cannot_be(options, message):
    with pytest.raises(InvalidValue, match=message):
        sample(**options)


# ---------------------------------------------------------------------- rescaling


def test_rescaling_keeps_order_and_sets_length_and_utilisation():
    trace = sample(jobs=2000, tenants=10)
    squeezed = rescale(trace, 30, slots=8, utilisation=0.9, longest_s=2)
    assert squeezed.span_s == pytest.approx(30)
    assert squeezed.utilisation(8) == pytest.approx(0.9, rel=1e-3)
    assert max(job.run_s for job in squeezed.jobs) <= 2
    assert [job.tenant for job in squeezed.jobs] == [job.tenant for job in trace.jobs]
    faster = rescale(trace, trace.span_s / 10)
    assert faster.jobs[700].run_us == pytest.approx(trace.jobs[700].run_us / 10, abs=1)
    assert faster.utilisation(8) == pytest.approx(trace.utilisation(8), rel=1e-3)


def test_a_window_of_a_trace():
    trace = parse(lines(HEADER + "".join(f"{second},a,q,2,1\n" for second in range(10))), "t")
    assert [job.submit_s for job in rescale(trace, 2, window_s=(4, 7)).jobs] == [0, 1, 2]
    with pytest.raises(InvalidValue, match="no jobs"):
        rescale(trace, 2, window_s=(40, 70))


def test_fitting_under_a_cap():
    sizes = [1, 2, 3, 100, 1000]
    factor = fitted(sizes, 50, 20)
    assert sum(min(20, size * factor) for size in sizes) == pytest.approx(50)
    assert fitted([5, 5], 20, 10) == pytest.approx(2)
    with pytest.raises(InvalidValue):
        fitted([0, 0], 1, 10)
    with pytest.raises(InvalidValue):
        fitted([1, 1], 30, 10)
