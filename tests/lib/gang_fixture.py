"""The fixture `gang`."""

import pytest

from gang import Gang


@pytest.fixture
def gang(tmp_path):
    """Makes a gang; in the end it is killed, and nothing of it may be left."""
    made = []

    def make(**options):
        made.append(Gang(tmp_path / f"gang{len(made)}", **options))
        return made[-1]

    yield make
    for each in made:
        each.close()
