"""The picture that bench/flame.py draws of what py-spy tells; py-spy itself is not run."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from bench import flame
from bench.flame import Box

OWNER = "thread (0x7F): fairlane-owner;thread_run (libpython3.so);Thread.run (threading.py:9)"
RAW = [
    f"{OWNER};Owner._run (fairlane/owner.py:340);Base.commit (fairlane/stores/sqlite/base.py:208) 30",
    f"{OWNER};Owner._run (fairlane/owner.py:341);0x7e01 (libc.so.6);fdatasync (libc.so.6) 50",
    f"{OWNER};Owner._run (fairlane/owner.py:340);lock_PyThread_acquire_lock (libpython3.so) 1000",
    "thread (0x7E): fairlane-loop;Thread.run (threading.py:9);EpollSelector.select (selectors.py:4) 1000",
    "thread (0x7D): MainThread;<module> (bench/flame.py:1);_find_and_load (<frozen importlib>:11) 1000",
    "thread (0x7D): MainThread;gc_collect_main (libpython3.so) 1000",
    "thread (0x7D): MainThread;enqueue (/home/somebody/fairlane-0.1/bench/flame.py:9);encode (json/encoder.py:3) 20",
]


def test_what_waits_starts_or_ends_is_left_out() -> None:
    root = flame.grown(iter(RAW))
    assert root.samples == 100
    assert {thread: box.samples for thread, box in root.callees.items()} == {
        "thread fairlane-owner": 80,
        "thread MainThread": 20,
    }


def test_lines_of_a_function_are_one_box_and_frames_that_say_nothing_none() -> None:
    owner = flame.grown(iter(RAW)).callees["thread fairlane-owner"]
    assert list(owner.callees) == ["Owner._run (fairlane/owner.py)"]
    assert list(owner.callees["Owner._run (fairlane/owner.py)"].callees) == [
        "Base.commit (fairlane/stores/sqlite/base.py)",
        "fdatasync (libc.so.6)",
    ]


def test_frames_have_no_more_of_a_path_than_the_package() -> None:
    assert flame.named("a.<locals>.b (/usr/lib/x/site-packages/fairlane/worker/loop.py:3)") == (
        "a.<locals>.b (fairlane/worker/loop.py)"
    )
    assert flame.named("enqueue (/home/somebody/fairlane-0.1/bench/flame.py:9)") == "enqueue (flame.py)"
    assert flame.named("sqlite3_step (libsqlite3.so.0.8.6)") == "sqlite3_step (libsqlite3.so.0.8.6)"
    assert flame.named("<module> (<frozen runpy>:1)") == "<module> (<frozen runpy>)"


def test_colours_tell_ours_from_others() -> None:
    frames = ("thread a", "b (fairlane/owner.py)", "c (encoder.py)", "d (libsqlite3.so)", "fdatasync (libc.so.6)")
    assert [flame.kind(frame) for frame in frames] == ["thread", "fairlane", "python", "native", "flush"]


def test_the_picture_is_well_formed_and_boxes_are_as_wide_as_their_share() -> None:
    picture = ET.fromstring(flame.drawn(flame.grown(iter(RAW)), "a <b> & c"))
    names = {"svg": "http://www.w3.org/2000/svg"}
    titles = [title.text for title in picture.findall("svg:g/svg:title", names)]
    assert titles == [
        "thread fairlane-owner: 80.0 %",
        "Owner._run (fairlane/owner.py): 80.0 %",
        "fdatasync (libc.so.6): 50.0 %",
        "Base.commit (fairlane/stores/sqlite/base.py): 30.0 %",
        "thread MainThread: 20.0 %",
        "enqueue (flame.py): 20.0 %",
        "encode (encoder.py): 20.0 %",
    ]
    boxes = picture.findall("svg:g/svg:rect", names)
    assert [float(box.attrib["width"]) for box in boxes] == [960, 960, 600, 360, 240, 240, 240]
    assert [float(box.attrib["x"]) for box in boxes] == [0, 0, 0, 600, 960, 960, 960]


def test_what_is_too_narrow_is_not_drawn() -> None:
    root = Box(10_000, {"thread a": Box(9_999), "thread b": Box(1)})
    assert flame.drawn(root, "").count("<title>") == 1
