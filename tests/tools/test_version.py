"""tools/lib/version.py, which writes the version into every place that names it."""

import re
import shutil
import subprocess
import sys

import pytest
from paths import ROOT

sys.path.insert(0, str(ROOT / "tools/lib"))

import version

# Files whose own versions are others', and pages about builds of the past.
OTHERS = re.compile(r"(^|/)go\.(sum|mod)$|package-lock\.json$|\.svg$|^CHANGELOG\.md$|^docs/operate/upgrade\.md$"
                    r"|^docs/adr/|^tests/tools/|^tests/system/api-server/jobs/")


@pytest.fixture
def tree(tmp_path):
    """A copy of every file that names the version."""
    for name in {name for name, _, _ in version.found()}:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_every_place_names_the_version_of_cmakelists():
    assert version.differing() == []


def test_no_other_file_names_an_image_chart_or_program_of_this_version():
    places = {name for name, _, _ in version.found()}
    named = rf"(lockstep[/a-z_-]*[: -]|[vV]ersion[:= \"`]*){re.escape(version.current())}\b"
    tracked = subprocess.run(["git", "grep", "-lIE", re.escape(version.current())], cwd=ROOT,
                             capture_output=True, text=True).stdout.split()
    forgotten = [name for name in tracked if name not in places and not OTHERS.search(name)
                 and re.search(named, (ROOT / name).read_text())]
    assert forgotten == [], "add them to PLACES in tools/lib/version.py"


def test_new_version_is_written_into_every_place(tree):
    before = list(version.found(tree))
    changed = version.write("10.20.30", tree)
    after = list(version.found(tree))
    assert set(changed) == {name for name, _, _ in before}
    assert [place[:2] for place in after] == [place[:2] for place in before]
    assert {place[2] for place in after} == {"10.20.30"}
    assert version.write("10.20.30", tree) == []


def test_text_around_the_version_stays(tree):
    before = (tree / "CMakeLists.txt").read_text()
    version.write("10.20.30", tree)
    version.write(version.current(), tree)
    assert (tree / "CMakeLists.txt").read_text() == before


@pytest.mark.parametrize("name", sorted({name for name, _, _ in version.found()} - {version.SOURCE}))
def test_place_with_another_version_is_named_with_its_line(tree, name):
    path = tree / name
    path.write_text(path.read_text().replace(version.current(), "9.9.9", 1))
    lines = version.differing(tree)
    assert len(lines) == 1 and re.match(rf"{re.escape(name)}:\d+: version 9\.9\.9, but ", lines[0])


def test_place_that_lost_its_version_is_an_error(tree):
    path = tree / "worker/python/pyproject.toml"
    path.write_text(path.read_text().replace("version", "edition"))
    with pytest.raises(version.Wrong, match="pyproject.toml: no text matches"):
        version.differing(tree)


@pytest.mark.parametrize("text", ["1", "1.2", "v1.2.3", "01.2.3", "1.2.3-rc.1", "1.2.3.4", " 1.2.3", ""])
def test_version_that_is_not_three_numbers_is_none(text):
    assert not version.is_version(text)


def test_version_that_is_none_is_refused_before_a_file_changes():
    done = subprocess.run([ROOT / "tools/lib/version.py", "--set", "1.2"], capture_output=True,
                          text=True)
    assert done.returncode == 2 and "MAJOR.MINOR.PATCH, not '1.2'" in done.stderr
