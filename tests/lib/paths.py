"""Where things lie in the tree."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
CHART = ROOT / "helm/lockstep"
MODULES = ROOT / "worker/python"  # lockstep.py and its like
CRDS = ROOT / "crds"
[VERSION] = re.findall(r"^project\(lockstep VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.M)
