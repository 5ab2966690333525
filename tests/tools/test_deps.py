"""tools/deps: two of its calls at once, as tests make them on a bare machine."""

import os
import shutil
import subprocess

from paths import ROOT


def test_two_calls_at_once_install_a_python_once(tmp_path):
    for name in ("tools/deps", "tools/lib/common.sh", "tools/lib/packages.sh"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    wanted = tmp_path / "tools/lib/package/requirements.txt"
    wanted.parent.mkdir()
    wanted.write_text("# no packages, so that nothing is downloaded\n")
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    calls = [subprocess.Popen([tmp_path / "tools/deps", "--packaging"], env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for _ in range(2)]
    said = [call.communicate(timeout=120)[0] for call in calls]
    assert [call.returncode for call in calls] == [0, 0], said
    assert sorted(text.count("installing") for text in said) == [0, 1], said
    assert (tmp_path / "cache/lockstep/package/bin/pip").exists()
