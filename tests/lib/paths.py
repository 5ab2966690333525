"""Where things lie in the tree."""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
CHART = ROOT / "helm/lockstep"
MODULES = ROOT / "worker/python"  # lockstep.py and its like
CRDS = ROOT / "crds"
