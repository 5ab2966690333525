import pathlib
import sys

ROOT = pathlib.Path(__file__).parents[2]
for folder in ("tools/lib", "tests/cluster", "tests/bench"):
    sys.path.insert(0, str(ROOT / folder))
