import pytest

from browser import PROGRAM, Browser


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    if PROGRAM is None:
        pytest.skip("no chromium, chromium-browser or google-chrome is installed")
    started = Browser(tmp_path_factory.mktemp("browser"))
    yield started
    started.close()
