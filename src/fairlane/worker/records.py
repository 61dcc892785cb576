"""What is kept of an exception. It may come from anywhere, so neither its text nor its length is trusted."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Final, Literal, cast

from fairlane.domain.jobs import MAX_ERROR_BYTES, ErrorRecord
from fairlane.domain.payloads import sanitised

MAX_CHAIN: Final = 8
"""Exceptions of a chain of causes that are kept, counted from the last."""
MAX_FRAMES: Final = 40
"""Frames of each that are kept, the innermost."""
MAX_CAUSE_BYTES: Final = 1024
MAX_TYPE_BYTES: Final = 255
MAX_FRAME_BYTES: Final = 255
_OWN: Final = "fairlane."
_STANDARD: Final = tuple({f"{sysconfig.get_path(name)}/" for name in ("stdlib", "platstdlib")})


def error_record(
    error: BaseException, *, kind: Literal["failure", "crash"], attempt: int, at_ms: int, worker: str
) -> ErrorRecord:
    """Return what is kept of a run that failed or crashed; never fails."""
    return ErrorRecord(
        attempt=attempt,
        at_ms=at_ms,
        kind=kind,
        type=type_name(error),
        message=message_of(error, MAX_ERROR_BYTES),
        traceback=traceback_of(error),
        worker=worker,
        frame=frame_of(error),
    )


def type_name(error: BaseException) -> str:
    """Return the exception type's name, with its module unless it is a builtin."""
    kind = type(error)
    name, module = kind.__qualname__, kind.__module__
    return cut(name if module == "builtins" else f"{module}.{name}", MAX_TYPE_BYTES)


def message_of(error: BaseException, max_bytes: int) -> str:
    """Return the exception's text; when ``__str__`` raises, which exception it raised."""
    try:
        return cut(str(error), max_bytes)
    except BaseException as other:  # noqa: BLE001  user code, and a record must come of it
        return f"<no text: __str__ raised {type_name(other)}>"


def cut(value: str, max_bytes: int) -> str:
    """Return storable text; cut before it is copied, for a text may have 100 MB."""
    return sanitised(value[:max_bytes], max_bytes)


def traceback_of(error: BaseException) -> str:
    """Return the traceback of an exception and of its causes, the first cause on top, each part bounded.

    The standard library's own text would hold messages whole and fail with some exceptions.
    """
    try:
        parts = [_part(one) for one in reversed(list(_chain(error)))]
    except Exception as other:  # noqa: BLE001  it is a help for people, and nothing depends on it
        return f"<no traceback: {type_name(other)}>"
    return cut("\n".join(parts), MAX_ERROR_BYTES)


def frame_of(error: BaseException) -> str:
    """Return the innermost function of the user's own code in an exception's traceback, as ``module.function``.

    Own is what lies in neither the standard library, nor among installed packages, nor in fairlane. Where nothing does,
    since the handlers themselves are installed, it is the package of the outermost function that is not ours. Lines are
    left out: they change with every edit. ``""`` when there is no traceback, or anything fails.
    """
    try:
        frames = [frame for frame in _frames(error) if not _module(frame).startswith(_OWN)]
        own = [frame for frame in frames if not _is_library(frame.f_code.co_filename)]
        if not own:
            installed = [frame for frame in frames if not _is_standard(frame.f_code.co_filename)]
            own = [frame for frame in installed if _package(frame) == _package(installed[0])]
        return cut(f"{_module(own[-1])}.{own[-1].f_code.co_qualname}", MAX_FRAME_BYTES) if own else ""
    except Exception:  # noqa: BLE001  it only groups dead jobs
        return ""


def _frames(error: BaseException) -> Iterator[FrameType]:
    """Yield the frames of an exception, outermost first; of one that was never raised, those of its cause."""
    raised = next((one for one in _chain(error) if one.__traceback__ is not None), None)
    tb = None if raised is None else raised.__traceback__
    while tb is not None:
        yield tb.tb_frame
        tb = tb.tb_next


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _package(frame: FrameType) -> str:
    return _module(frame).partition(".")[0]


def _is_library(file: str) -> bool:
    return _is_standard(file) or "/site-packages/" in file or "/dist-packages/" in file


def _is_standard(file: str) -> bool:
    # Packages are installed below the standard library's folder.
    return file.startswith((*_STANDARD, "<frozen ")) and "-packages/" not in file


def _part(error: BaseException) -> str:
    frames = traceback.format_tb(_own_frames_off(error.__traceback__), limit=-MAX_FRAMES)
    lines = ["Traceback (most recent call last):\n", *frames] if frames else []
    lines.append(f"{type_name(error)}: {message_of(error, MAX_CAUSE_BYTES)}\n")
    if isinstance(error, BaseExceptionGroup):
        together = cast("BaseExceptionGroup[BaseException]", error).exceptions[:MAX_CHAIN]
        lines += [f"  | {type_name(one)}: {message_of(one, MAX_CAUSE_BYTES)}\n" for one in together]
    return "".join(lines)


def _own_frames_off(tb: TracebackType | None) -> TracebackType | None:
    """Leave out the outermost frames, which are ours and tell users nothing; keep them when there are no others."""
    inner = tb
    while inner is not None and inner.tb_frame.f_globals.get("__name__", "").startswith(_OWN):
        inner = inner.tb_next
    return inner if inner is not None else tb


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Return the exception and what led to it, each once: chains may be circular."""
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen and len(seen) < MAX_CHAIN:
        seen.add(id(one))
        yield one
        one = one.__cause__ if one.__cause__ is not None or one.__suppress_context__ else one.__context__


def led_to(error: BaseException, kinds: type[BaseException] | tuple[type[BaseException], ...]) -> bool:
    """Return whether the exception, or one that was being handled when it was raised, is of these kinds."""
    seen: set[int] = set()
    waiting: list[BaseException] = [error]
    while waiting and len(seen) < MAX_FRAMES:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, kinds):
            return True
        waiting += [other for other in (one.__cause__, one.__context__) if other is not None]
    return False
