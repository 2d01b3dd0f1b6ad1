import pytest

from tests.deploy.test_install import Deployment


@pytest.fixture(autouse=True)
def state_directory(tmp_path, monkeypatch):
    """Keeps what the program remembers of flights in the directory of the test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state/peregrine"


@pytest.fixture
def machine(tmp_path):
    return Deployment(tmp_path)
