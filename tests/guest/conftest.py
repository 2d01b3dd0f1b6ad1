import pytest

from tests.guest.cable import Cable


@pytest.fixture
def wire(tmp_path):
    """Yields a cable, whose other end a guest gets by `wire.netdev`."""
    wire = Cable(tmp_path)
    yield wire
    wire.close()
