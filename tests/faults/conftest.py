import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "lib"))

from gang import Gang  # noqa: E402


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
