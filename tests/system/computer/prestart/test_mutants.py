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
        "test_park.py::test_hook_answers_probe_and_never_runs_user_code",
    ),
    "runs the program when it fails itself": (
        "traceback.print_exc()\n    os._exit(_LOST)",
        "traceback.print_exc()\n    _error = None",
        "test_park.py::test_interpreter_with_malformed_prestart_variable_never_runs_program",
    ),
    "fails a program that it only looks at": (
        "    except Exception:\n        pass  # a job without its list",
        "    except OSError:\n        pass  # a job without its list",
        "test_park.py::test_program_runs_when_recording_hook_fails",
    ),
    "parks any Python": (
        "if sys.version_info < (3, 8):",
        "if False:",
        "test_park.py::test_python_older_than_3_8_runs_program_and_refuses_to_park",
    ),
    "believes whatever comes for go": (
        'if key != "go":',
        "if False:",
        "test_park.py::test_interpreter_with_malformed_go_message_never_runs_program",
    ),
    "outlives its agent": (
        "if not got:\n                os._exit(0)",
        "if not got:\n                return False",
        "test_park.py::test_importing_interpreter_exits_silently_when_agent_closes_socket",
    ),
    "imports on when it is to go": (
        "if self.listen(wait=False):\n                break",
        "if self.listen(wait=False):\n                pass",
        "test_park.py::test_early_go_message_stops_remaining_imports",
    ),
    "overlooks who asks for what comes late": (
        "if text.startswith(_LATE) or text in self.secrets:",
        "if text in self.secrets:",
        "test_park.py::test_parked_interpreter_leaves_unsafe_import_to_program",
    ),
    "overlooks who asks for a secret": (
        "if text.startswith(_LATE) or text in self.secrets:",
        "if text.startswith(_LATE):",
        "test_learn.py::test_list_omits_value_of_secret_variable",
    ),
    "writes secrets down": (
        "return any(word.endswith(_SECRETS)",
        "return False and any(word.endswith(_SECRETS)",
        "test_learn.py::test_list_omits_value_of_secret_variable",
    ),
    "overlooks what an import changes": (
        "if value != state[what]:",
        "if False:",
        "test_park.py::test_parked_interpreter_leaves_unsafe_import_to_program",
    ),
    "keeps the folder of an import that changed it": (
        "os.chdir(self.directory)",
        "pass",
        "test_park.py::test_parked_interpreter_leaves_unsafe_import_to_program",
    ),
    "keeps signals ignored that an import ignored": (
        "signals.signal(number, signals.SIG_DFL)",
        "pass",
        "test_park.py::test_parked_interpreter_leaves_unsafe_import_to_program",
    ),
    "begins anew without the environment it was given": (
        "environment = dict(self.environment)",
        "environment = dict(os.environ._data)",
        "test_park.py::test_parked_interpreter_leaves_unsafe_import_to_program",
    ),
    "overlooks children": (
        "raise _Unparkable(_STARTS % name, _top(name))",
        "return",
        "test_park.py::test_parked_interpreter_reports_import_that_starts_process_and_exits",
    ),
    "overlooks a daemon that was started": (
        "or self.mark in environment.split",
        "or False and self.mark in environment.split",
        "test_park.py::test_parked_interpreter_reports_import_that_leaves_daemon_and_exits",
    ),
    "overlooks a daemon that was forked": (
        "return forked or",
        "return",
        "test_park.py::test_parked_interpreter_reports_import_that_leaves_daemon_and_exits",
    ),
    "takes every new process for an import's": (
        "if any(pid.isdigit() and self._is_ours(pid)",
        "if any(pid.isdigit()",
        "test_park.py::test_parked_interpreter_ignores_daemon_of_other_program",
    ),
    "looks for what the last package left no more": (
        "        left.check(None)\n",
        "",
        "test_park.py::test_parked_interpreter_reports_daemon_of_last_import",
    ),
    "shows the program its mark": (
        "        os.environ.pop(_MARK, None)\n",
        "",
        "test_park.py::test_lockstep_parked_variable_exists_only_during_early_imports",
    ),
    "holds the GPU beside the rank": (
        "for path in sorted(_opened() - self.devices):",
        "for path in ():",
        "test_park.py::test_parked_interpreter_leaves_import_that_opens_gpu_driver_to_program",
    ),
    "hands files of its imports on to a start anew": (
        "os.set_inheritable(fd, False)\n        if mode",
        "pass\n        if mode",
        "test_park.py::test_parked_interpreter_leaves_import_that_opens_gpu_driver_to_program",
    ),
    "keeps to itself why it begins anew": (
        "(_quoted(self.nonce), _quoted(why)))\n        os.execve",
        "(_quoted(self.nonce), _quoted('')))\n        os.execve",
        "test_park.py::test_parked_interpreter_leaves_unsafe_import_to_program",
    ),
    "parks in a fork, too": (
        "if os.getpid() != self.pid:\n            os._exit(_LOST)",
        "if False:\n            os._exit(_LOST)",
        "test_park.py::test_child_forked_by_import_never_parks",
    ),
    "imports what is excluded by way of another": (
        "or _top(name) in self.excluded:",
        "or False:",
        "test_learn.py::test_parked_interpreter_skips_excluded_package_and_its_importers",
    ),
    "takes a question for an import": (
        'sys._getframe(2).f_code.co_name == "find_spec"',
        "False",
        "test_learn.py::test_find_spec_of_excluded_package_does_not_count_as_import",
    ),
    "holds back what an import prints": (
        "if stream is not None:\n            stream.flush()",
        "pass",
        "test_park.py::test_parked_interpreter_flushes_import_output_before_ready_message",
    ),
    "lets the collector look at what it imported": (
        "gc.freeze()",
        "pass",
        "test_park.py::test_early_imports_stay_frozen_in_gc_until_program_ends",
    ),
    "leaves that frozen at the end": (
        "atexit.register(gc.unfreeze)",
        "pass",
        "test_park.py::test_early_imports_stay_frozen_in_gc_until_program_ends",
    ),
    "leaves the collector off": (
        "if collects:\n        gc.enable()",
        "pass",
        "test_equal.py::test_parked_start_of_each_program_form_matches_plain_start",
    ),
    "lets all ranks go at once": (
        'os.environ.get("RANK", "0") != "0"',
        'os.environ.get("RANK", "0") == "x"',
        "test_park.py::test_rank_0_starts_50_ms_before_ranks_on_other_computers",
    ),
    "waits for a rank 0 that listens late each time": (
        "self.learn(_LISTENED_LATE)",
        "None",
        "test_park.py::test_rank_waits_three_times_for_rank_0_that_listens_late",
    ),
    "asks before rank 0 listens": (
        "and _listens(port):",
        "or True:",
        "test_park.py::test_rank_starts_when_rank_0_listens",
    ),
    "reads the table of connections at each look": (
        "counts != before",
        "True",
        "test_park.py::test_rank_that_awaits_rank_0_seldom_reads_table_of_connections",
    ),
    "never forgets that rank 0 listened late": (
        "self.learn(_LISTENED_EARLY)",
        "None",
        "test_park.py::test_rank_0_that_listened_late_on_busy_computer_is_waited_for_again",
    ),
    "stays on sys.path": (
        "sys.path.remove(_HERE)",
        "pass",
        "test_equal.py::test_parked_start_of_each_program_form_matches_plain_start",
    ),
    "keeps its share of PYTHONPATH": (
        'del os.environ["PYTHONPATH"]\n',
        "pass\n",
        "test_equal.py::test_parked_start_of_each_program_form_matches_plain_start",
    ),
    "leaves the user's own hook out": (
        "        import sitecustomize  # noqa: F401\n",
        "        pass\n",
        "test_park.py::test_sitecustomize_of_user_runs_once_and_fails_as_in_plain_start",
    ),
    "keeps its socket for whom it becomes": (
        "os.close(self.fd)\n        if ready",
        "if ready",
        "test_equal.py::test_parked_start_of_each_program_form_matches_plain_start",
    ),
    "hands its socket on to a start anew": (
        "os.set_inheritable(fd, False)\n\n    def say",
        "pass\n\n    def say",
        "test_learn.py::test_re_executed_interpreter_has_same_descriptors_as_plain_start",
    ),
    "takes the old file for the new one": (
        "if _state(file) != state:",
        "if False:",
        "test_learn.py::test_parked_start_reads_installed_module_edited_while_parked",
    ),
    "takes another file of the same size and time for the old one": (
        "state.st_size, state.st_dev, state.st_ino",
        "state.st_size",
        "test_fresh.py::test_rank_runs_what_plain_start_would_run_after",
    ),
    "overlooks files that came later": (
        "if self.finds.changed() is not None:",
        "if any(_state(file) != state for file, state in self.finds.files.items()):",
        "test_fresh.py::test_rank_of_each_program_form_runs_module_beside_it",
    ),
    "starts plain whatever is written beside the script": (
        "    ) and _where(_PathFinder.find_spec(name, searched)) != found:",
        "    ):",
        "test_fresh.py::test_rank_stays_warm_when_program_writes_output_beside_its_script",
    ),
    "imports early what the program has a file of its own for": (
        "if own is not None or",
        "if",
        "test_fresh.py::test_interpreter_parked_later_leaves_module_beside_script_to_program",
    ),
    "answers with the installed package": (
        "            return own\n        if own",
        "            return None\n        if own",
        "test_fresh.py::test_question_for_package_beside_script_is_answered_as_in_plain_start",
    ),
    "looks at files after it has read them": (
        "        if spec is not None and isinstance(spec.origin, str)",
        "        if False and isinstance(spec.origin, str)",
        "test_fresh.py::test_rank_runs_file_that_changed_while_other_modules_were_imported",
    ),
    "overlooks folders that become packages": (
        "if os.path.isdir(inside):",
        "if False:",
        "test_fresh.py::test_rank_runs_what_plain_start_would_run_after",
    ),
    "overlooks shared libraries": (
        'b".so" in os.path.basename(words[5])',
        "False",
        "test_fresh.py::test_rank_starts_plain_after_shared_library_was_replaced",
    ),
    "overlooks path files": (
        "_path_files(folder) != self.path_files[folder]",
        "False",
        "test_fresh.py::test_rank_runs_what_plain_start_would_run_after",
    ),
    "learns no folders of the program's": (
        'self._say("path " + folder, lines)',
        "pass",
        "test_fresh.py::test_rank_runs_module_in_folder_that_program_puts_on_sys_path",
    ),
    "leaves variables as imports want them": (
        "for name, value in replayed.items():",
        "for name, value in ():",
        "test_learn.py::test_parked_interpreter_sets_recorded_variable_only_during_imports",
    ),
    "imports without the variables": (
        "self._replay(name, value, replayed)\n                continue",
        "continue",
        "test_learn.py::test_parked_interpreter_sets_recorded_variable_only_during_imports",
    ),
    "replays a variable that differs each run": (
        'line = "volatile " + name',
        "pass",
        "test_learn.py::test_variable_that_differs_in_each_run_stops_early_imports",
    ),
    "replays what differs on each rank": (
        "if same or name.startswith(_LATE) or name in _OWN:",
        "if same:",
        "test_learn.py::test_list_omits_variables_of_rank_and_generation",
    ),
    "learns the program's own modules": (
        "elif not _installed(spec):",
        "elif False:",
        "test_learn.py::test_parked_start_reads_editable_install_edited_while_parked",
    ),
    "learns what -m runs": (
        "if main is not None:",
        "if False:",
        "test_learn.py::test_parked_interpreter_never_imports_module_run_with_dash_m",
    ),
    "records in children": (
        "if os.getpid() == self.pid:",
        "if self.pid:",
        "test_learn.py::test_forked_child_records_no_imports_and_exec_closes_list",
    ),
    "writes into a file of the program's": (
        "if self._identity() != self.file:",
        "if False:",
        "test_learn.py::test_recorder_never_writes_to_file_that_replaced_its_descriptor",
    ),
    "leaves sys.meta_path while importlib goes through it": (
        "        self.pid = None\n",
        "        sys.meta_path.remove(self)\n",
        "test_learn.py::test_recording_program_that_closes_all_files_still_imports_modules",
    ),
    "takes the first file's number": (
        "os.dup2(fd, high, inheritable=False)",
        "return fd",
        "test_learn.py::test_first_file_of_recording_program_gets_descriptor_3",
    ),
    "lets its list grow": (
        "if len(self.seen) > _MOST_NAMES:",
        "if False:",
        "test_learn.py::test_recording_stops_when_list_holds_20000_names",
    ),
    "forgets to record when it begins anew": (
        'self.start_over("record:-1::" + self.path if self.record else "")',
        'self.start_over("")',
        "test_learn.py::test_re_executed_rank_keeps_recording_imports",
    ),
    "shows the program a module it did not import": (
        'del sys.modules["faulthandler"]',
        "pass",
        "test_equal.py::test_process_and_forked_child_write_stacks_to_separate_files",
    ),
}


TRIED = list(MUTANTS)[::1 if os.environ.get("LOCKSTEP_HOOK_MUTANTS") == "all" else 8]


@pytest.mark.parametrize("what", TRIED)
def test_named_tests_fail_on_mutated_hook(what, tmp_path):
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
