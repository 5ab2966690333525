"""Modules of the folders on the path of tests have different names: the first of two hides the other."""

import collections

from paths import MODULES, ROOT

# pytest puts each folder of tests/ on the path, and tests put the others there. A main.py is a
# program; pytest keeps conftest.py and tests of the same name apart.
PATHS = [MODULES, ROOT / "bench", *(ROOT / "tools/lib" / each for each in (
    "", "cluster", "package", "release", "testing"))]


def test_no_module_hides_another():
    files = [each for folder in PATHS for each in folder.glob("*.py")]
    files += [each for each in (ROOT / "tests").rglob("*.py")
              if each.name != "conftest.py" and not each.name.startswith("test_")]
    places = collections.defaultdict(list)
    for each in files:
        if each.name != "main.py":
            places[each.name].append(str(each.relative_to(ROOT)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
