"""What compilers made, on the claim of a job: a new run finds it, one of another image does not."""

import os
import pathlib
import sys

from run import Run

PROGRAM = """
import os, pathlib, time
kernel = pathlib.Path(os.environ["TORCHINDUCTOR_CACHE_DIR"], "ab", "kernel.py")
until = time.monotonic() + float(os.environ["PATIENCE"])
while not kernel.exists() and time.monotonic() < until:
    time.sleep(0.01)
print("it finds", kernel.read_text() if kernel.exists() else "nothing")
if not kernel.exists():
    kernel.parent.mkdir(parents=True, exist_ok=True)
    kernel.write_text("a kernel")
    (kernel.parent / "kernel.lock").touch()
"""

def start(tmp_path, python, patience=0):
    """`patience`: of the rank, which compiles itself what it has not got by then."""
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    (tmp_path / "work").mkdir(exist_ok=True)
    run = Run(tmp_path / "work", "-v", "--name", "compiles", "--checkpoint", str(tmp_path / "claim"),
              "--env", f"PATIENCE={patience}", "--", python, str(program))
    code, _, output = run.finish()
    assert code == 0, output
    return output


def environment(folder, name):
    """A Python of its own, in which distribution `name` is installed."""
    (folder / "bin").mkdir(parents=True)
    os.symlink(os.path.realpath(sys.executable), folder / "bin" / "python3")
    home = pathlib.Path(os.path.realpath(sys.executable)).parent
    (folder / "pyvenv.cfg").write_text(f"home = {home}\n")
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (folder / "lib" / version / "site-packages" / f"{name}.dist-info").mkdir(parents=True)
    return str(folder / "bin" / "python3")


def test_run_keeps_compiled_kernels_without_locks_and_next_run_reuses_them(tmp_path):
    python = environment(tmp_path / "image", "torch-2.0")
    first = start(tmp_path, python)
    assert "it finds nothing" in first
    assert "compile caches kept in" in first
    (kept,) = (tmp_path / "claim" / "compiled").iterdir()
    files = {str(file.relative_to(kept)) for file in kept.rglob("*") if file.is_file()}
    assert files == {"identity", "inductor/ab/kernel.py"}
    assert "torch-2.0.dist-info" in (kept / "identity").read_text()
    again = start(tmp_path, python, patience=60)
    assert "it finds a kernel" in again
    assert "compile caches fetched from" in again
    assert "compile caches kept in" not in again


def test_run_ignores_kernels_compiled_by_another_image(tmp_path):
    start(tmp_path, environment(tmp_path / "one", "torch-2.0"))
    output = start(tmp_path, environment(tmp_path / "other", "torch-2.1"))
    assert "it finds nothing" in output
    assert "fetched" not in output
    assert len(list((tmp_path / "claim" / "compiled").iterdir())) == 2
