from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

MANIFESTS = Path(__file__).parent / "manifests"


@pytest.fixture(scope="session")
def sternpost_options():
    return {"load": MANIFESTS, "flags": ["--log-level=debug"]}
