"""Servers in this process, in front of an upstream that records what it is sent."""

import contextlib

import pytest

from running import Running
from serving import saved_filters
from upstream import Upstream


@pytest.fixture(scope="module")
def upstream():
    with Upstream() as running:
        yield running


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("filters")


@pytest.fixture(scope="module")
def filters(folder):
    return saved_filters(folder)


@pytest.fixture
def run(folder, filters, upstream):
    with contextlib.ExitStack() as stack:

        def start(file="first.safetensors", to=upstream, **options):
            return stack.enter_context(Running(folder / file, to, **options))

        yield start
