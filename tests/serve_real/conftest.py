"""Real model servers, as processes; `make test-serve` installs them into an environment apart."""

import contextlib
import subprocess
import time

import pytest

from serving import PATIENCE, ask


@pytest.fixture(scope="session")
def running():
    """Return a context in which a server runs, once a model of it is ready."""

    @contextlib.contextmanager
    def run(command, port, model, log, **options):
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, **options)
        try:
            until = time.monotonic() + 3 * PATIENCE
            while time.monotonic() < until and process.poll() is None:
                with contextlib.suppress(OSError):
                    if ask(port, "GET", f"/v2/models/{model}/ready").status == 200:
                        break
                time.sleep(0.1)
            else:
                raise AssertionError(f"The server did not start:\n{log.read_text()}")
            yield
        finally:
            process.terminate()
            process.wait(PATIENCE)

    return run
