"""Fixtures for pytest; installing the package switches them on."""

from __future__ import annotations

import pytest

from ._server import Server, start

_SERVER = pytest.StashKey[Server]()
_LINES = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("sternpost_load", "Objects that the server begins with: files or directories", "paths")
    parser.addini("sternpost_controllers", "Whether controllers run beside it", "bool", default=True)
    parser.addini("sternpost_flags", "Further flags of `sternpost serve`", "args")


@pytest.fixture(scope="session")
def sternpost_options(pytestconfig: pytest.Config) -> dict:
    """What `sternpost.start` is called with; a conftest.py may have its own."""
    return {
        "load": pytestconfig.getini("sternpost_load"),
        "controllers": pytestconfig.getini("sternpost_controllers"),
        "flags": pytestconfig.getini("sternpost_flags"),
    }


@pytest.fixture(scope="session")
def sternpost(sternpost_options: dict, pytestconfig: pytest.Config):
    """A server for all tests of the session."""
    with start(**sternpost_options) as server:
        pytestconfig.stash[_SERVER] = server
        yield server


@pytest.fixture
def sternpost_namespace(sternpost: Server):
    """The name of a namespace that only this test has."""
    name = sternpost.create_namespace()
    yield name
    sternpost.delete_namespace(name)


@pytest.fixture(scope="session")
def sternpost_client(sternpost: Server):
    """An `ApiClient` of the `kubernetes` package, which must be installed."""
    pytest.importorskip("kubernetes", reason="the package `kubernetes` is not installed")
    with sternpost.client() as client:
        yield client


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    server = item.config.stash.get(_SERVER, None)
    item.stash[_LINES] = server.log_lines if server else 0


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo):
    outcome = yield
    server = item.config.stash.get(_SERVER, None)
    report = outcome.get_result()
    if report.failed and server and "sternpost" in getattr(item, "fixturenames", ()):
        report.sections.append(("sternpost log", server.log_since(item.stash.get(_LINES, 0))))
