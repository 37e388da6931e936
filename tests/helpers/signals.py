"""Interrupting a run at each of its steps in turn."""

import contextlib
import sys


def outcomes(run, after, *places):
    """Interrupt `run` at each step of code in some places, and yield what `after` returns."""
    traced = (
        contextlib.__file__,
        run.__code__.co_filename,
        *(getattr(place, "__file__", str(place)) for place in places),
    )
    step = 0
    while _interrupted(run, step, traced):
        yield after()
        step += 1
    assert step > 50
    yield after()


def _interrupted(run, step, traced):
    """Interrupt a run at a step of the interpreter; return whether it got that far."""
    left = step

    def trace(frame, event, _):
        nonlocal left
        if not frame.f_code.co_filename.startswith(traced):
            return None
        frame.f_trace_opcodes = True
        left -= event == "opcode"
        if left < 0:
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False
