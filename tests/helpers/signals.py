"""Signals that come at every step of a run, one run for each step."""

import contextlib
import sys


def outcomes(run, after, *modules):
    """Give what `after` finds once a signal has ended `run`, for each step in the modules' code."""
    traced = {contextlib.__file__, run.__code__.co_filename, *(of.__file__ for of in modules)}
    step = 0
    while _interrupted(run, step, traced):
        yield after()
        step += 1
    assert step > 50
    yield after()


def _interrupted(run, step, traced):
    """Run up to a step of the interpreter: was the step reached?"""
    left = step

    def trace(frame, event, _):
        nonlocal left
        if frame.f_code.co_filename not in traced:
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
