"""What an interpreter learns to import, and what it must never import before its program does."""

import pytest

SHOW = "import sys; print(sorted({'parked_lib', 'fork_lib', 'other'} & set(sys.modules)))"


def run_parked(environment, *words, **variables):
    """One parked run: what it said when it was ready, and its result."""
    with environment.park(*words) as process:
        ready = process.ready()
        process.go(**variables)
        return ready, process.result()


def test_parked_interpreter_imports_packages_recorded_by_last_run(every):
    every.package("parked_lib", "print('imported parked_lib')\nimport fractions")
    train = every.program("train.py", "import parked_lib, colorsys; print('trained')")
    assert every.record(train)[1] == "imported parked_lib\ntrained\n"
    learnt = every.learnt()
    assert "fractions" in learnt and learnt.index("fractions") < learnt.index("parked_lib")
    with every.park(train) as process:
        assert process.ready()["modules"] >= 2
        assert process.printed() == "imported parked_lib\n"
        process.go()
        assert process.result() == (0, "trained\n", "")


def test_parked_interpreter_imports_recorded_packages_in_conda_layout(conda):
    conda.package("parked_lib", "import fractions")
    train = conda.program("train.py", "import parked_lib, colorsys; print(parked_lib.__file__)")
    plain = conda.record(train)
    assert {"parked_lib", "fractions"} <= set(conda.learnt())
    ready, parked = run_parked(conda, train)
    assert ready["modules"] >= 2 and ready["failed"] == []
    assert parked == plain == (0, f"{conda.packages}/parked_lib.py\n", "")


def test_later_generation_adds_its_new_imports_to_list(first):
    first.package("parked_lib", "")
    first.package("resume_lib", "")
    train = first.program(
        "train.py",
        "import os, parked_lib, colorsys\nif 'RESUME' in os.environ: import resume_lib, wave",
    )
    first.record(train)
    before = first.learnt()
    with first.park(train, mode="park+record") as process:
        assert process.ready()["modules"] > 0
        process.go(RESUME="1")
        assert process.result() == (0, "", "")
    added = first.learnt()[len(before) :]
    assert "resume_lib" in added and not set(added) & set(before)


def test_program_killed_during_training_leaves_list_of_its_imports(first):
    first.package("parked_lib", "")
    train = first.program(
        "train.py", "import os, parked_lib, colorsys, wave\nos.kill(os.getpid(), 9)"
    )
    assert first.record(train)[0] == -9
    assert {"parked_lib", "colorsys"} <= set(first.learnt())


def test_parked_interpreter_sets_recorded_variable_only_during_imports(every):
    every.package("parked_lib", "import os\nhome = os.environ.get('LIB_HOME', 'wrong')")
    train = every.program(
        "train.py",
        "import os\nprint(os.environ.get('LIB_HOME'))\n"
        "os.environ['LIB_HOME'] = 'a\\\\b\\nc'\nimport parked_lib, colorsys\n"
        "print(repr(parked_lib.home))",
    )
    plain = every.record(train)
    assert "env LIB_HOME=a\\\\b\\nc" in every.learnt()
    ready, parked = run_parked(every, train)
    assert ready["modules"] > 0
    assert parked == plain == (0, "None\n'a\\\\b\\nc'\n", "")


def test_a_variable_that_an_import_sets_stays_set(first):
    first.package("parked_lib", "import os\nos.environ.setdefault('FROM_LIB', '1')\nimport wave")
    train = first.program(
        "train.py", "import os, parked_lib, colorsys; print(os.environ['FROM_LIB'])"
    )
    first.record(train)
    assert run_parked(first, train)[1] == (0, "1\n", "")


def test_variable_that_differs_in_each_run_stops_early_imports(first):
    first.package("parked_lib", "import os\nrun = os.environ.get('RUN_NAME')")
    train = first.program(
        "train.py",
        "import os, time, wave\nos.environ['RUN_NAME'] = str(time.time_ns())\n"
        "import parked_lib, colorsys\nprint(parked_lib.run == os.environ['RUN_NAME'])",
    )
    first.record(train)
    first.record(train)
    assert "volatile RUN_NAME" in first.learnt()
    ready, parked = run_parked(first, train)
    assert ready["modules"] > 0
    assert parked == (0, "True\n", "")


# What needs the value is imported by the program, and nothing else is held up.
def test_list_omits_value_of_secret_variable(every):
    every.package("parked_lib", "import os\nkey = os.environ.get('LIB_API_KEY')")
    every.package("other", "")
    train = every.program(
        "train.py",
        "import os, sys\nos.environ['LIB_API_KEY'] = 's3cr3t'\n"
        "os.environ['TOKENIZERS_PARALLELISM'] = 'false'\n"
        "print('other' in sys.modules, end=' ')\n"
        "import parked_lib, other, colorsys\nprint(parked_lib.key)",
    )
    assert every.record(train)[1] == "False s3cr3t\n"
    assert not any("s3cr3t" in line for line in every.learnt())
    assert "secret LIB_API_KEY" in every.learnt()
    assert "env TOKENIZERS_PARALLELISM=false" in every.learnt()
    plain = (0, "True s3cr3t\n", "")
    assert run_parked(every, train)[1] == plain
    assert run_parked(every, train, LIB_API_KEY="of the agent")[1] == plain
    assert "exclude parked_lib" in every.learnt() and "exclude other" not in every.learnt()


def test_parked_start_reads_program_module_edited_while_parked(first):
    first.program("own.py", "text = 'old'")
    train = first.program("train.py", "import own, colorsys; print(own.text)")
    first.record(train)
    assert "exclude own" in first.learnt()
    with first.park(train) as process:
        process.ready()
        first.program("own.py", "text = 'new and longer'")
        process.go()
        assert process.result() == (0, "new and longer\n", "")


def test_parked_start_reads_editable_install_edited_while_parked(first):
    first.program("source/own.py", "text = 'old'")
    (first.packages / "__editable__.own.pth").write_text(f"{first.home}/source\n")
    train = first.program("train.py", "import own, colorsys; print(own.text)")
    first.record(train)
    assert "exclude own" in first.learnt() and "own" not in first.learnt()
    with first.park(train) as process:
        process.ready()
        first.program("source/own.py", "text = 'new and longer'")
        process.go()
        assert process.result() == (0, "new and longer\n", "")


def test_parked_start_reads_installed_module_edited_while_parked(every):
    every.package("parked_lib", "text = 'old'")
    train = every.program(
        "train.py", "import os, parked_lib; print(parked_lib.text, os.environ['MASTER_PORT'])"
    )
    every.learn("parked_lib")
    with every.park(train) as process:
        process.ready()
        every.package("parked_lib", "text = 'new and longer'")
        process.go(MASTER_PORT="47")
        assert process.result() == (0, "new and longer 47\n", "")


def test_re_executed_interpreter_has_same_descriptors_as_plain_start(first):
    first.package("parked_lib", "")
    code = "import os, parked_lib; print(sorted(map(int, os.listdir('/proc/self/fd'))))"
    plain = first.run("-c", code)
    first.learn("parked_lib")
    with first.park("-c", code) as process:
        process.ready()
        first.package("parked_lib", "changed = True")
        process.go()
        assert process.result() == plain


def test_package_fork_on_sys_path_shadows_installed_package(first):
    first.package("fork_lib", "print('the installed one')")
    first.package("other", "import fork_lib")
    first.program("forks/fork_lib.py", "print('the fork')")
    train = first.program(
        "train.py", "import sys\nsys.path.insert(0, 'forks')\nimport other, fork_lib, colorsys"
    )
    assert first.record(train)[1] == "the fork\n"
    assert run_parked(first, train)[1] == (0, "the fork\n", "")


def test_program_module_shadows_standard_module_of_same_name(every):
    every.package("other", "import queue\nprint(queue.who)")
    every.program("queue.py", "who = 'the program itself'")
    every.program("json.py", "who = 'the program itself'")
    train = every.program("train.py", "import other, json, colorsys\nprint(json.who)")
    every.record(train)
    want = "the program itself\n" * 2
    assert run_parked(every, train)[1] == (0, want, "")
    assert "exclude other" in every.learnt()  # which had begun to import the wrong one


@pytest.mark.parametrize("names", [["exclude fork_lib"], ["exclude other"]])
def test_parked_interpreter_skips_excluded_package_and_its_importers(first, names):
    first.package("fork_lib", "")
    first.package("other", "import fork_lib")
    first.learn(*names, "colorsys", "fork_lib", "other")
    ready, parked = run_parked(first, "-c", SHOW)
    assert ready["failed"] == []
    want = "['fork_lib']\n" if names == ["exclude other"] else "[]\n"
    assert parked == (0, want, "")


def test_parked_interpreter_skips_package_with_optional_import_of_excluded_package(first):
    first.package("fork_lib", "")
    first.package("other", "try: import fork_lib\nexcept ImportError: fork_lib = None")
    first.learn("exclude fork_lib", "colorsys", "other")
    ready, parked = run_parked(first, "-c", "import other; print(other.fork_lib is not None)")
    assert (ready["modules"], parked) == (1, (0, "True\n", ""))
    assert "exclude other" in first.learnt()


def test_find_spec_of_excluded_package_does_not_count_as_import(first):
    first.package("fork_lib", "")
    first.package("other", "import importlib.util\nhas = importlib.util.find_spec('fork_lib')")
    first.learn("exclude fork_lib", "other")
    code = "import sys, other; print('fork_lib' in sys.modules, other.has is not None)"
    ready, parked = run_parked(first, "-c", code)
    assert (ready["modules"], parked) == (1, (0, "False True\n", ""))


def test_parked_interpreter_reports_and_skips_missing_package(first):
    first.learn("colorsys", "gone_lib", "gone_lib.part")
    ready, parked = run_parked(first, "-c", "print('ran')")
    assert (ready["modules"], ready["failed"]) == (1, ["gone_lib", "gone_lib.part"])
    assert parked == (0, "ran\n", "")


# Python warns of one that was, and runs it a second time.
@pytest.mark.parametrize("name", ["parked_lib", "parked_lib.train"])
def test_parked_interpreter_never_imports_module_run_with_dash_m(first, name):
    text = "import other\nif __name__ == '__main__': import wave, sched\nprint(__name__)"
    first.package(name.replace(".", "/"), text)
    if "." in name:
        first.package("parked_lib/__init__", "")
    first.package("other", f"import {name}")
    plain = first.record("-m", name)
    assert plain == (0, f"{name}\n__main__\n", "")
    assert {"wave", "exclude parked_lib"} <= set(first.learnt())
    assert run_parked(first, "-m", name)[1] == plain


def test_parked_interpreter_ignores_torn_and_malformed_lines_of_list(first):
    first.list.write_bytes(b"colorsys\n\xff\xfe bad\n..\n\nenv\nenv A\nunknown word\nwave")
    ready, parked = run_parked(first, "-c", "print('ran')")
    assert ready["modules"] == 1
    assert parked == (0, "ran\n", "")


def test_list_omits_variables_of_rank_and_generation(first):
    first.package("parked_lib", "")
    train = first.program(
        "train.py",
        "import os\nfor name in ('CUDA_VISIBLE_DEVICES', 'MASTER_PORT', 'LOCKSTEP_X', 'MINE'):\n"
        "    os.environ[name] = '7'\nimport parked_lib, colorsys",
    )
    first.record(train)
    assert [line for line in first.learnt() if "=" in line] == ["env MINE=7"]


def test_forked_child_records_no_imports_and_exec_closes_list(first):
    first.package("parked_lib", "")
    first.package("childs_lib", "")
    code = (
        "import os, parked_lib, colorsys, wave\nif os.fork() == 0:\n"
        "    import childs_lib, queue, sched\n    os._exit(0)\nos.wait()\n"
        "os.execv('/bin/sh', ['sh', '-c', 'for fd in /proc/$$/fd/*; do readlink $fd; done; true'])"
    )
    code, out, err = first.record("-c", code)
    assert (code, err) == (0, "") and "pipe:" in out and "list" not in out
    assert "parked_lib" in first.learnt() and "childs_lib" not in first.learnt()


def test_recording_stops_when_list_holds_20000_names(first):
    first.learn(*(f"module{number}" for number in range(20001)))
    assert first.record("-c", "import colorsys, wave, sched, queue; print(1)") == (0, "1\n", "")
    assert not {"wave", "sched"} & set(first.learnt())


def test_re_executed_rank_keeps_recording_imports(first):
    first.package("parked_lib", "text = 'old'")
    first.package("other", "")
    train = first.program("train.py", "import parked_lib, other, colorsys; print(parked_lib.text)")
    first.learn("parked_lib")
    with first.park(train, mode="park+record") as process:
        process.ready()
        first.package("parked_lib", "text = 'new and longer'")
        process.go()
        assert process.result() == (0, "new and longer\n", "")
    assert "other" in first.learnt()


def test_first_file_of_recording_program_gets_descriptor_3(first):
    code = "import os; print(os.open('/dev/null', os.O_RDONLY))"
    assert first.record("-c", code) == (0, "3\n", "")


def test_recording_program_that_closes_all_files_still_imports_modules(every):
    train = every.program(
        "train.py",
        "import os, sys\nos.closerange(3, 300)\nimport colorsys\n"
        "name = next(n for n in sys.builtin_module_names if n not in sys.modules)\n"
        "print(__import__(name).__name__ == name)\n",
    )
    assert every.record(train) == (0, "True\n", "")


def test_recorder_never_writes_to_file_that_replaced_its_descriptor(first):
    first.package("parked_lib", "")
    code = (
        "import os\nos.closerange(3, 300)\nfd = os.open('mine', os.O_WRONLY | os.O_CREAT)\n"
        "[os.dup2(fd, each) for each in range(200, 256)]\nimport parked_lib, colorsys, wave"
    )
    assert first.record("-c", code) == (0, "", "")
    assert (first.home / "mine").read_bytes() == b""
