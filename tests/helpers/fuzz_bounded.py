"""Files for code under test, which must read them quickly and leave no other file behind."""

import faulthandler
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from unlabel import UnlabelError

FAILURES = Path("fuzz-failures")
CPU_SECONDS = 3
HANGS_AFTER = 60


@contextmanager
def fuzzed_file(name: str, content: bytes) -> Iterator[Path]:
    """Write a file to be read, and keep a copy if reading it fails.

    The copy is made first, in case reading kills the process.
    """
    FAILURES.mkdir(exist_ok=True)
    copy = FAILURES / f"died-{name}"
    copy.write_bytes(content)
    with TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(content)
        faulthandler.dump_traceback_later(HANGS_AFTER, exit=True)
        started = time.process_time()
        try:
            yield path
            seconds = time.process_time() - started
            assert seconds < CPU_SECONDS, f"{name} took {seconds:.1f} seconds"
            left = sorted(found.name for found in path.parent.iterdir())
            assert left == [name], f"{name} left {left} behind"
        except BaseException:
            copy.replace(FAILURES / f"failed-{name}")
            raise
        finally:
            faulthandler.cancel_dump_traceback_later()
    copy.unlink()


def check_sentence(error: UnlabelError) -> None:
    """Check that an error is one line."""
    assert "\n" not in str(error)
