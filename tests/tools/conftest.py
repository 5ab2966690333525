import sys

from paths import ROOT

sys.path.insert(0, str(ROOT / "bench"))
