import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "lib"))

from cluster import cluster, namespace  # noqa: E402, F401
