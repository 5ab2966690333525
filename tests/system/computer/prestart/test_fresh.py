"""What a parked interpreter has imported is what a fresh one would import at that moment.

Each case changes something while an interpreter waits. The rank that it becomes must print what a
plain start prints then.
"""

import os
import shutil

import pytest
from test_park import SLOW, import_on, importing

TRAIN = """
import sys
early = "parked_lib" in sys.modules
import colorsys, parked_lib, space.part
print(colorsys.__file__, parked_lib.text, sorted(space.__path__), hasattr(parked_lib, "fast"))
print("warm" if early else "plain", file=sys.stderr)
"""
LIBRARY = """
text = {text!r}
try:
    import fast_lib as fast
except ImportError:
    pass
"""
LINKED = ("current", "library")  # in the program's folder: links to folders that a test switches


def make(environment):
    """The program, which imports from Python, from a package and from a namespace."""
    environment.package("parked_lib", LIBRARY.format(text="installed"))
    environment.package("space/part", "")
    environment.program("v1/train.py", TRAIN)
    environment.program("v1/nothing.py", "")
    environment.program("v2/train.py", TRAIN)
    for link in LINKED:
        (environment.home / link).symlink_to("v1")
    environment.learn("colorsys", "parked_lib", "space", "space.part")
    return str(environment.home / "current/train.py")


def write(environment, path, text="text = 'own'"):
    environment.program(path, text)


def switch(environment, link, target="v2"):
    new = environment.home / "new"
    new.symlink_to(target)
    new.rename(environment.home / link)


def replace_keeping_times(environment):
    """As rsync and image layers do it: another file of the same size and time."""
    file = environment.packages / "parked_lib.py"
    state = file.stat()
    new = file.with_suffix(".new")
    new.write_text(LIBRARY.format(text="replaced!"))
    os.utime(new, ns=(state.st_atime_ns, state.st_mtime_ns))
    shutil.rmtree(file.parent / "__pycache__")
    new.rename(file)


def replace_interpreter(environment):
    program = environment.packages.parents[2] / "bin" / environment.packages.parents[0].name
    shutil.copy(program, environment.folder / "new")
    (environment.folder / "new").rename(program)


def add_path_file(environment):
    write(environment, "forks/colorsys.py")
    line = f"import sys; sys.path.insert(0, {str(environment.home / 'forks')!r})\n"
    (environment.packages / "forks.pth").write_text(line)


# What changes while the interpreter waits.
CHANGES = {
    "module beside the script": lambda e: write(e, "v1/colorsys.py"),
    "package beside the script": lambda e: write(e, "v1/colorsys/__init__.py"),
    "library beside the script": lambda e: write(e, "v1/colorsys.abi3.so", ""),
    "folder beside the script becomes a package": lambda e: write(e, "v1/parked_lib/__init__.py"),
    "part of a namespace beside the script": lambda e: write(e, "v1/space/own.py"),
    "optional module beside the script": lambda e: write(e, "v1/fast_lib.py"),
    "script's link is switched": lambda e: switch(e, "current"),
    "module in PYTHONPATH": lambda e: write(e, "v1/colorsys.py"),
    "new folder of PYTHONPATH": lambda e: write(e, "missing/colorsys.py"),
    "link in PYTHONPATH is switched": lambda e: switch(e, "library"),
    "sitecustomize in PYTHONPATH": lambda e: write(
        e, "v1/sitecustomize.py", "import sys; sys.path.insert(0, 'v2')"
    ),
    "optional module installed": lambda e: e.package("fast_lib", ""),
    "namespace becomes a package": lambda e: e.package("space/__init__", ""),
    "installed file edited": lambda e: e.package("parked_lib", LIBRARY.format(text="edited")),
    "installed file replaced by one of its size and time": replace_keeping_times,
    "installed file replaced by a package": lambda e: e.package("parked_lib/__init__", "text = 2"),
    "path file installed": add_path_file,
    "pyvenv.cfg edited": lambda e: os.utime(e.packages.parents[2] / "pyvenv.cfg", (1, 1)),
}


def start_like_plain(environment, change, script, words=None, **variables):
    """Changes something while an interpreter is parked; its result, and a plain start's."""
    words = words or [script]
    (environment.home / "v1/parked_lib").mkdir()  # as a program's output beside it
    write(environment, "v2/colorsys.py")
    environment.run(*words, extra=variables)  # Python writes its __pycache__ folders
    with environment.park(*words, extra=variables) as process:
        assert process.ready()["modules"] == 4
        change(environment)
        process.go()
        parked = process.result()
    return parked, environment.run(*words, extra=variables)


@pytest.mark.parametrize("what", CHANGES)
def test_rank_runs_what_plain_start_would_run_after(first, what):
    script = make(first)
    variables = {}
    if "PYTHONPATH" in what:
        variables["PYTHONPATH"] = ":".join(str(first.home / each) for each in ("missing", "library"))
        script = first.program("elsewhere/train.py", TRAIN)
    parked, plain = start_like_plain(first, CHANGES[what], script, **variables)
    assert parked == plain
    assert parked[2].endswith(("plain\n", "No module named 'parked_lib'\n", "short\n"))


@pytest.mark.parametrize("words", [["-m", "train"], ["-c", TRAIN], ["app.pyz"], ["folder"]])
def test_rank_of_each_program_form_runs_module_beside_it(every, words):
    make(every)
    every.program("train.py", TRAIN)
    every.program("folder/__main__.py", TRAIN)
    every.zipapp(TRAIN)
    beside = "folder/colorsys.py" if words == ["folder"] else "colorsys.py"
    if words == ["app.pyz"]:

        def change(environment):
            environment.zipapp("print('another program')")
    else:

        def change(environment):
            write(environment, beside)

    parked, plain = start_like_plain(every, change, None, words)
    assert parked == plain
    assert "warm" not in parked[2]


def test_rank_starts_plain_after_interpreter_was_replaced(conda):
    parked, plain = start_like_plain(conda, replace_interpreter, make(conda))
    assert parked == plain


def write_output(environment):
    """What programs leave beside their script, none of which Python would import instead."""
    for path in ("v1/log.txt", "v1/colorsys.txt", "v1/other.py", "v1/wandb/run.py", "v1/data/x"):
        write(environment, path)
    (environment.home / "v1/colorsys").mkdir()
    write(environment, "v1/colorsys/out.txt")


def test_rank_stays_warm_when_program_writes_output_beside_its_script(every):
    parked, plain = start_like_plain(every, write_output, make(every))
    assert parked == (plain[0], plain[1], "warm\n")
    assert plain[2] == "plain\n"


def test_interpreter_parked_later_leaves_module_beside_script_to_program(every):
    script = make(every)
    every.package("other", "import colorsys\ntext = colorsys.text")
    every.program("v1/colorsys.py", "text = 'own'")
    every.learn("parked_lib", "colorsys", "other", "space", "space.part")
    plain = every.run(script)
    with every.park(script) as process:
        assert process.ready()["failed"] == ["colorsys"]
        assert process.left == ["other needs colorsys when it is imported"]
        process.go()
        assert process.result() == (plain[0], plain[1], "warm\n")


def test_question_for_package_beside_script_is_answered_as_in_plain_start(first):
    first.package("other", "import importlib.util as u\nwhere = u.find_spec('colorsys').origin")
    first.program("colorsys.py", "")
    first.learn("other")
    code = "import sys; early = 'other' in sys.modules; import other; print(early, other.where)"
    plain = first.run("-c", code)
    with first.park("-c", code) as process:
        process.ready()
        process.go()
        code, out, err = process.result()
    assert (code, out, err) == (0, plain[1].replace("False", "True"), "")


FORK = """
import os, sys
sys.path.insert(1, os.path.join(os.path.dirname(__file__), "forks"))
import colorsys, parked_lib, wave
print(colorsys.__file__)
"""


def test_rank_runs_module_in_folder_that_program_puts_on_sys_path(every):
    every.package("parked_lib", "")
    (every.home / "forks").mkdir()
    train = every.program("train.py", FORK)
    every.record(train)
    assert f"path {every.home}/forks" in every.learnt() and "colorsys" in every.learnt()
    with every.park(train) as process:
        process.ready()
        write(every, "forks/colorsys.py")
        process.go()
        assert process.result() == (0, f"{every.home}/forks/colorsys.py\n", "")
    with every.park(train) as process:
        assert "colorsys" in process.ready()["failed"]


def test_program_that_uses_file_of_its_own_excludes_learnt_module(first):
    train = first.program("train.py", "import colorsys, wave, sched")
    first.record(train)
    assert "colorsys" in first.learnt()
    write(first, "colorsys.py")
    first.record(train)
    assert "exclude colorsys" in first.learnt()


def test_rank_runs_file_that_changed_while_other_modules_were_imported(first):
    first.package("parked_lib", "text = 'old'")
    first.package("slow", SLOW)
    first.learn("parked_lib", "slow")
    with first.park("-c", "import parked_lib; print(parked_lib.text)") as process:
        importing(process)
        first.package("parked_lib", "text = 'newer'")
        import_on(first)
        process.message()
        process.go()
        assert process.result() == (0, "newer\n", "")


def test_rank_runs_file_that_changed_before_an_early_go_message(first):
    first.package("parked_lib", "text = 'old'")
    first.package("slow", SLOW)
    first.learn("parked_lib", "slow")
    with first.park("-c", "import parked_lib; print(parked_lib.text)") as process:
        importing(process)
        first.package("parked_lib", "text = 'newer'")
        process.go()
        import_on(first)
        assert process.result() == (0, "newer\n", "")


def test_rank_finds_module_that_appeared_between_two_searches(first):
    first.package("parked_lib", "try: import fast_lib\nexcept ImportError: fast_lib = None")
    first.package("slow", SLOW)
    first.package("other", "try: import fast_lib\nexcept ImportError: pass")
    first.learn("parked_lib", "slow", "other")
    with first.park("-c", "import parked_lib; print(parked_lib.fast_lib is None)") as process:
        importing(process)
        first.package("fast_lib", "")
        import_on(first)
        process.message()
        process.go()
        assert process.result() == (0, "False\n", "")


def test_rank_starts_plain_after_shared_library_was_replaced(first):
    source = "import ctypes, ctypes.util; ctypes.CDLL({!r})"
    library = first.home / "libsome.so.1"
    with open("/proc/self/maps") as maps:
        loaded = {line.split()[-1] for line in maps if "/libc.so" in line or "/libc-" in line}
    shutil.copy(loaded.pop(), library)
    first.package("parked_lib", source.format(str(library)))
    first.learn("parked_lib")
    code = "import sys; print('parked_lib' in sys.modules)"
    for replaced in (False, True):
        with first.park("-c", code) as process:
            process.ready()
            if replaced:
                shutil.copy(library, first.home / "new")
                (first.home / "new").rename(library)
            process.go()
            assert process.result() == (0, f"{not replaced}\n", "")
