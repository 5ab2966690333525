"""Each rule of the hook has a test that misses it: the hook is changed in one place, and those tests
must fail. What a mutant is called is what it does wrong.

LOCKSTEP_HOOK_MUTANTS=all tries each (some 6 minutes); without it every eighth is.
"""

import os
import pathlib
import subprocess
import sys

import pytest
from parking import HOOK
from paths import ROOT

pytestmark = pytest.mark.slow

# What the hook says, what the mutant says instead, and the tests that catch it.
MUTANTS = {
    "goes on after a probe": (
        'os.write(fd, answer.encode("ascii"))\n    os._exit(0)',
        'os.write(fd, answer.encode("ascii"))\n    return None',
        "test_park.py::test_a_probe_is_answered_before_anything_of_the_users_runs",
    ),
    "runs the program when it fails itself": (
        "traceback.print_exc()\n    os._exit(_LOST)",
        "traceback.print_exc()\n    _error = None",
        "test_park.py::test_nonsense_never_runs_the_program",
    ),
    "fails a program that it only looks at": (
        "    except Exception:\n        pass  # a job without its list",
        "    except OSError:\n        pass  # a job without its list",
        "test_park.py::test_a_program_runs_as_ever_beside_a_hook_that_fails",
    ),
    "parks any Python": (
        "if sys.version_info < (3, 8):",
        "if False:",
        "test_park.py::test_a_python_that_cannot_be_parked",
    ),
    "believes whatever comes for go": (
        'if key != "go":',
        "if False:",
        "test_park.py::test_nonsense_at_go_never_runs_the_program",
    ),
    "outlives its agent": (
        "if not got:\n                os._exit(0)",
        "if not got:\n                return False",
        "test_park.py::test_an_agent_that_is_gone_ends_it_while_it_imports_too",
    ),
    "imports on when it is to go": (
        "if self.listen(wait=False):\n                break",
        "if self.listen(wait=False):\n                pass",
        "test_park.py::test_a_go_that_comes_early_ends_the_imports",
    ),
    "overlooks who asks for what comes late": (
        "if text.startswith(_LATE) or text in self.secrets:",
        "if text in self.secrets:",
        "test_park.py::test_an_import_that_changes_its_process_is_left_to_the_program",
    ),
    "overlooks who asks for a secret": (
        "if text.startswith(_LATE) or text in self.secrets:",
        "if text.startswith(_LATE):",
        "test_learn.py::test_a_secret_that_a_program_sets_is_in_no_list",
    ),
    "writes secrets down": (
        "return any(word.endswith(_SECRETS)",
        "return False and any(word.endswith(_SECRETS)",
        "test_learn.py::test_a_secret_that_a_program_sets_is_in_no_list",
    ),
    "overlooks what an import changes": (
        "if value != state[what]:",
        "if False:",
        "test_park.py::test_an_import_that_changes_its_process_is_left_to_the_program",
    ),
    "keeps the folder of an import that changed it": (
        "os.chdir(self.directory)",
        "pass",
        "test_park.py::test_an_import_that_changes_its_process_is_left_to_the_program",
    ),
    "keeps signals ignored that an import ignored": (
        "signals.signal(number, signals.SIG_DFL)",
        "pass",
        "test_park.py::test_an_import_that_changes_its_process_is_left_to_the_program",
    ),
    "begins anew without the environment it was given": (
        "environment = dict(self.environment)",
        "environment = dict(os.environ._data)",
        "test_park.py::test_an_import_that_changes_its_process_is_left_to_the_program",
    ),
    "overlooks children": (
        "raise _Unparkable(_STARTS % name, _top(name))",
        "return",
        "test_park.py::test_an_import_that_starts_a_process_says_so_and_never_runs_on",
    ),
    "overlooks a daemon that was started": (
        "or self.mark in environment.split",
        "or False and self.mark in environment.split",
        "test_park.py::test_an_import_that_leaves_a_daemon",
    ),
    "overlooks a daemon that was forked": (
        "return forked or",
        "return",
        "test_park.py::test_an_import_that_leaves_a_daemon",
    ),
    "takes every new process for an import's": (
        "if any(pid.isdigit() and self._is_ours(pid)",
        "if any(pid.isdigit()",
        "test_park.py::test_a_daemon_of_another_program",
    ),
    "looks for what the last package left no more": (
        "        left.check(None)\n",
        "",
        "test_park.py::test_an_import_that_leaves_a_daemon_last",
    ),
    "shows the program its mark": (
        "        os.environ.pop(_MARK, None)\n",
        "",
        "test_park.py::test_what_an_import_starts_is_marked",
    ),
    "holds the GPU beside the rank": (
        "for path in sorted(_opened() - self.devices):",
        "for path in ():",
        "test_park.py::test_an_import_that_opens_the_gpus_driver",
    ),
    "hands files of its imports on to a start anew": (
        "os.set_inheritable(fd, False)\n        if mode",
        "pass\n        if mode",
        "test_park.py::test_an_import_that_opens_the_gpus_driver",
    ),
    "keeps to itself why it begins anew": (
        "(_quoted(self.nonce), _quoted(why)))\n        os.execve",
        "(_quoted(self.nonce), _quoted('')))\n        os.execve",
        "test_park.py::test_an_import_that_changes_its_process_is_left_to_the_program",
    ),
    "parks in a fork, too": (
        "if os.getpid() != self.pid:\n            os._exit(_LOST)",
        "if False:\n            os._exit(_LOST)",
        "test_park.py::test_a_fork_inside_an_import_that_comes_back_does_not_park_twice",
    ),
    "imports what is excluded by way of another": (
        "if _top(name) in self.excluded and",
        "if False and",
        "test_learn.py::test_what_the_user_excludes_is_not_imported_early_nor_what_needs_it",
    ),
    "takes a question for an import": (
        'sys._getframe(2).f_code.co_name != "find_spec"',
        "True",
        "test_learn.py::test_asking_whether_an_excluded_package_exists_is_no_import_of_it",
    ),
    "holds back what an import prints": (
        "if stream is not None:\n            stream.flush()",
        "pass",
        "test_park.py::test_what_an_import_prints_is_out_before_it_is_ready",
    ),
    "lets the collector look at what it imported": (
        "gc.freeze()",
        "pass",
        "test_park.py::test_what_was_imported_is_frozen_until_the_program_ends",
    ),
    "leaves that frozen at the end": (
        "atexit.register(gc.unfreeze)",
        "pass",
        "test_park.py::test_what_was_imported_is_frozen_until_the_program_ends",
    ),
    "leaves the collector off": (
        "if collects:\n        gc.enable()",
        "pass",
        "test_equal.py::test_each_way_to_name_a_program_is_as_a_plain_start",
    ),
    "lets all ranks go at once": (
        'os.environ.get("RANK", "0") != "0"',
        'os.environ.get("RANK", "0") == "x"',
        "test_park.py::test_rank_0_is_ahead_of_the_others_which_ask_for_it",
    ),
    "stays on sys.path": (
        "sys.path.remove(_HERE)",
        "pass",
        "test_equal.py::test_each_way_to_name_a_program_is_as_a_plain_start",
    ),
    "keeps its share of PYTHONPATH": (
        'del os.environ["PYTHONPATH"]\n',
        "pass\n",
        "test_equal.py::test_each_way_to_name_a_program_is_as_a_plain_start",
    ),
    "leaves the user's own hook out": (
        "        import sitecustomize  # noqa: F401\n",
        "        pass\n",
        "test_park.py::test_the_users_own_hook_runs_once_and_fails_as_ever",
    ),
    "keeps its socket for whom it becomes": (
        "os.close(self.fd)\n        if files",
        "if files",
        "test_equal.py::test_each_way_to_name_a_program_is_as_a_plain_start",
    ),
    "hands its socket on to a start anew": (
        "os.set_inheritable(fd, False)\n\n    def say",
        "pass\n\n    def say",
        "test_learn.py::test_a_start_anew_has_no_file_more_than_a_plain_one",
    ),
    "takes the old file for the new one": (
        "if any(_file_state(file) != state for file, state in files.items()):",
        "if False:",
        "test_learn.py::test_an_installed_module_that_changed_meanwhile_is_read_anew",
    ),
    "leaves variables as imports want them": (
        "for name, value in replayed.items():",
        "for name, value in ():",
        "test_learn.py::test_a_variable_set_before_an_import_is_set_for_that_import_alone",
    ),
    "imports without the variables": (
        "self._replay(name, value, replayed)\n                continue",
        "continue",
        "test_learn.py::test_a_variable_set_before_an_import_is_set_for_that_import_alone",
    ),
    "replays a variable that differs each run": (
        'line = "volatile " + name',
        "pass",
        "test_learn.py::test_a_variable_that_differs_each_run_ends_what_is_imported_early",
    ),
    "replays what differs on each rank": (
        "if same or name.startswith(_LATE) or name in _OWN:",
        "if same:",
        "test_learn.py::test_what_differs_on_each_rank_or_in_each_generation_is_not_replayed",
    ),
    "learns the program's own modules": (
        "elif _installed(spec):",
        "elif True:",
        "test_learn.py::test_an_editable_install_is_the_programs_own",
    ),
    "learns what -m runs": (
        "if main is not None:",
        "if False:",
        "test_learn.py::test_a_module_that_a_program_runs_by_name_is_not_imported_before",
    ),
    "records in children": (
        "if os.getpid() == self.pid:",
        "if self.pid:",
        "test_learn.py::test_children_of_a_recording_program",
    ),
    "writes into a file of the program's": (
        "if self._identity() != self.file:",
        "if False:",
        "test_learn.py::test_nothing_is_recorded_into_a_file_that_the_program_opened_itself",
    ),
    "leaves sys.meta_path while importlib goes through it": (
        "        self.pid = None\n",
        "        sys.meta_path.remove(self)\n",
        "test_learn.py::test_a_program_that_closes_all_files_finds_what_it_imports_next",
    ),
    "takes the first file's number": (
        "os.dup2(fd, high, inheritable=False)",
        "return fd",
        "test_learn.py::test_a_recording_program_finds_its_first_file_where_it_expects_it",
    ),
    "lets its list grow": (
        "if len(self.seen) > _MOST_NAMES:",
        "if False:",
        "test_learn.py::test_a_list_has_an_end",
    ),
    "forgets to record when it begins anew": (
        'self.start_over("record:-1::" + self.path if self.record else "")',
        'self.start_over("")',
        "test_learn.py::test_a_spare_that_begins_anew_as_the_rank_goes_on_recording",
    ),
    "shows the program a module it did not import": (
        'del sys.modules["faulthandler"]',
        "pass",
        "test_equal.py::test_a_process_answers_for_its_stacks",
    ),
}


TRIED = list(MUTANTS)[::1 if os.environ.get("LOCKSTEP_HOOK_MUTANTS") == "all" else 8]


@pytest.mark.parametrize("what", TRIED)
def test_a_hook_is_caught_that(what, tmp_path):
    text, instead, tests = MUTANTS[what]
    whole = HOOK.read_text()
    assert whole.count(text) == 1, "the hook has changed: what is the mutant to change now?"
    mutant = tmp_path / HOOK.name
    mutant.write_text(whole.replace(text, instead))
    compile(mutant.read_text(), mutant, "exec")
    file, _, name = tests.partition("::")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not slow",
         "--basetemp", tmp_path / "tests", pathlib.Path(__file__).parent / file, "-k", name],
        env={**os.environ, "LOCKSTEP_TESTED_HOOK": str(mutant), "LOCKSTEP_HOOK_SECONDS": "20"},
        cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 1, f"it was not caught, or no test was run\n{run.stdout[-3000:]}"
