from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

MANIFESTS = Path(__file__).resolve().parents[2] / "fixtures"


@pytest.fixture(scope="session")
def sternpost_options():
    return {"load": MANIFESTS, "flags": ["--log-level=debug"]}
