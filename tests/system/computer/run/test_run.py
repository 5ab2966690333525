"""`lockstep run` with real programs: started, killed, healed and reported by the command itself."""

import os
import re
import resource
import signal
import subprocess
import sys

import processes
import pytest
from run import ROOT, Run, pid_of, ranks
from run_output import Output
from tls import binary
from waiting import wait_until


def gate(folder):
    """A FIFO, held open: who reads it waits until it is closed."""
    path = folder / "gate"
    os.mkfifo(path)
    return path, os.open(path, os.O_RDWR)


def test_killed_rank_restarts_and_job_succeeds(tmp_path):
    path, held = gate(tmp_path)
    run = Run(tmp_path, "-m", "2", "-p", "2", "--", "/bin/sh", "-c", f"read -r x <{path}; exit 0")
    said = Output(run)
    first = run.wait_ranks(4)
    os.kill(first[3][0], signal.SIGKILL)
    run.wait_ranks(4, but_not_in=first[3][1])
    said.wait("all 4 ranks running again", "the run to have noticed")  # it asks some times a second
    plain = tmp_path / "open"
    plain.touch()
    plain.rename(path)  # in one step, for a rank may be about to open it
    os.close(held)
    run.process.wait(120)
    output = said.join()
    code, report, _ = run.finish()
    assert code == 0, output
    assert report["state"] == "Succeeded"
    assert len(report["generations"]) == 2, report
    assert report["restarts"]["application"] == 1 and report["lastFailure"]["rank"] == 3, report
    [restart] = report["history"]
    assert restart["cause"] == "ProcessSignal" and restart["respawned"], report


def test_repeated_crash_of_program_without_reports_says_nothing_of_steps_or_productivity(tmp_path):
    run = Run(tmp_path, "-m", "1", "--", "/bin/sh", "-c", "exit 5")
    code, report, output = run.finish(patience=60)
    assert code == 5, output
    assert "ended twice in a row with exit code 5 within 60 s of the start" in output
    assert report["ledger"]["goodput"] == "unknown"
    assert "productiv" not in output and "lost to" not in output, "the run took less than a minute"
    assert report["restarts"]["total"] == 1 and len(report["generations"]) == 2, report
    assert [each["cause"] for each in report["history"]] == ["ProcessExit", "EarlyCrash"]


def test_no_generation_is_missing_though_each_lives_for_milliseconds(tmp_path):
    job = tmp_path / "job.yaml"
    job.write_text(f"""\
apiVersion: lockstep.dev/v1alpha1
kind: TrainingJob
metadata: {{name: short}}
spec:
  numMachines: 2
  framework: None
  failurePolicy: {{maxRestarts: 2}}
  command:
  - /bin/sh
  - -c
  - 'if [ $RANK = 1 ]; then echo >>{tmp_path}/n; exit 1$(wc -l <{tmp_path}/n); fi; sleep 60'
""")
    run = Run(tmp_path, str(job))
    code, report, output = run.finish(patience=60)
    assert code == 13, output
    names = ["1-1", "1-2", "1-3"]
    assert [each["generation"] for each in report["history"]] == names, report
    assert [each["generation"] for each in report["generations"]] == names, report
    assert all(each["ended"] for each in report["generations"]), report
    assert [each["failure"]["exitCode"] for each in report["generations"]] == [11, 12, 13], report
    assert report["restarts"]["application"] == 2, report
    assert report["ledger"]["goodput"] == "unknown", report


def test_command_that_does_not_exist_is_no_restart(tmp_path):
    run = Run(tmp_path, "-m", "2", "--", "/no/such/program")
    code, report, output = run.finish(patience=60)
    assert code == 127, output
    assert report["restarts"]["total"] == 0, report
    assert [each["cause"] for each in report["history"]] == ["CommandNotFound"], report
    assert "machine time" not in output


def test_restart_removes_compile_lock_of_killed_rank_and_keeps_compiled_files(tmp_path):
    wait_as_torch_does = "while [ -e lock ]; do sleep 0.01; done"
    run = Run(tmp_path, "-m", "1", "--", "/bin/sh", "-c", "cd \"$TORCH_EXTENSIONS_DIR\" && "
              f"if [ -e made ]; then {wait_as_torch_does}; else touch made lock; kill -9 $$; fi")
    code, report, output = run.finish(patience=60)
    assert (code, len(report["generations"])) == (0, 2), output


def test_each_generation_gets_its_own_empty_tmpdir_and_leaves_no_tmpdir_behind(tmp_path):
    said = tmp_path / "said"
    run = Run(tmp_path, "-m", "1", "--", "/bin/sh", "-c",
              f'echo "$TMPDIR" >>{said}; [ -z "$(ls -A "$TMPDIR")" ] || exit 2; '
              f'touch "$TMPDIR/pid.1"; [ $(wc -l <{said}) = 2 ] || kill -9 $$')
    code, report, output = run.finish(patience=60)
    assert (code, len(report["generations"])) == (0, 2), output
    first, second = said.read_text().split()
    assert first != second
    assert max(len(first), len(second)) < 60
    assert not os.path.exists(first) and not os.path.exists(second)


def test_job_with_success_policy_machine0_succeeds_when_machine_0_ends(tmp_path):
    job = tmp_path / "job.yaml"
    job.write_text("""\
apiVersion: lockstep.dev/v1alpha1
kind: TrainingJob
metadata: {name: served}
spec:
  numMachines: 2
  framework: None
  successPolicy: Machine0
  gracePeriod: 60s
  command:
  - /bin/sh
  - -c
  - 'if [ $RANK = 0 ]; then exit 0; fi; trap "exit 9" TERM; while :; do sleep 0.1; done'
""")
    run = Run(tmp_path, str(job))
    code, report, output = run.finish(patience=60)
    assert (code, report["state"]) == (0, "Succeeded"), output
    assert len(report["generations"]) == 1 and "lastFailure" not in report, report


def test_run_exits_with_exit_code_of_failed_rank(tmp_path):
    run = Run(tmp_path, "-m", "2", "-p", "1", "--", "/bin/sh", "-c", "exit 2")
    code, report, output = run.finish()
    assert code == 2, output
    assert report["state"] == "Failed"


def test_failure_of_per_machine_process_names_its_machine(tmp_path):
    job = tmp_path / "job.yaml"
    job.write_text("""
apiVersion: lockstep.dev/v1alpha1
kind: TrainingJob
metadata: {name: launched}
spec:
  numMachines: 2
  processesPerMachine: 4
  launch: PerMachine
  command: [/bin/sh, -c, 'test $NODE_RANK = 0 || exit 2; sleep 1000']
  gracePeriod: 1s
""")
    code, report, output = Run(tmp_path, str(job)).finish()
    assert code == 2, output
    assert report["lastFailure"]["message"].startswith(
        "the process on machine 1 exited with code 2"), report


def test_machines_of_a_run_get_separate_cores(tmp_path):
    cpus = sorted(os.sched_getaffinity(0))
    machines = min(len(cpus), 2)
    run = Run(tmp_path, "-m", str(machines), "--", sys.executable, "-c", "import os; print('on', "
              "sorted(os.sched_getaffinity(0)), os.environ['OMP_NUM_THREADS'])")
    code, _, output = run.finish()
    assert code == 0, output
    said = re.findall(r"on \[([0-9, ]+)\] ([0-9]+)", output)
    assert len(said) == machines, output
    used = [cpu for text, _ in said for cpu in text.split(", ")]
    assert len(set(used)) == len(used), output
    assert all(int(threads) <= len(text.split(", ")) for text, threads in said), output


@pytest.mark.parametrize("command, reason", [
    ("no-such-python", "cannot start no-such-python: there is no such command in PATH"),
    ("./crlf", "its lines end as Windows writes them (CRLF)"),
    ("./lost", "the interpreter that its first line names, /no/python, does not exist here"),
    ("./none", "/none: there is no such file"),
])
def test_run_ends_with_the_reason_why_a_command_could_not_be_started(command, reason, tmp_path):
    for name, text in {"crlf": "#!/bin/sh\r\ntrue\r\n", "lost": "#!/no/python\n"}.items():
        (tmp_path / name).write_bytes(text.encode())
        (tmp_path / name).chmod(0o755)
    job = tmp_path / "job.yaml"
    job.write_text("apiVersion: lockstep.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: lost}\n"
                   f"spec: {{command: [{command}], workingDir: {tmp_path}}}\n")
    code, report, output = Run(tmp_path, str(job)).finish()
    assert code == 127, output
    [verdict] = [line for line in output.splitlines() if line.startswith("lockstep: job lost failed: rank 0")]
    assert reason in verdict, output
    assert reason in report["reason"], report


def test_run_answers_a_program_in_place_of_a_job_with_the_line_that_runs_it(tmp_path):
    (tmp_path / "train.py").write_text("print(1)\n")
    done = subprocess.run([binary("lockstep"), "run", "train.py"], capture_output=True, text=True,
                          cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert ("train.py is a Python program, and no job: `lockstep run -p 2 -- python3 train.py`"
            in done.stderr), done.stderr


def test_run_reports_missing_pid_namespaces_once():
    forbidden = 'echo 0 >/proc/sys/user/max_pid_namespaces && exec "$@"'
    done = subprocess.run(
        ["unshare", "-U", "-r", "sh", "-c", forbidden, "sh",
         binary("lockstep"), "run", "-m", "2", "--", "true"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=60)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("PID namespaces are not allowed here") == 1, done.stdout


def test_a_training_started_by_lockstep_run_resumes_after_a_kill(tmp_path):
    job = tmp_path / "job.yaml"
    job.write_text(f"""
apiVersion: lockstep.dev/v1alpha1
kind: TrainingJob
metadata: {{name: ddp}}
spec:
  numMachines: 2
  processesPerMachine: 2
  command: [{sys.executable}, {ROOT}/examples/ddp.py]
  args: [--steps, "100", --checkpoint-every, "5", --seconds-per-step, "0.05"]
  checkpoint: {{path: {tmp_path}/checkpoints}}
""")
    run = Run(tmp_path, str(job))
    wait_until(lambda: list(tmp_path.glob("checkpoints/checkpoints/*/0*.*")), "a checkpoint", 90)
    os.kill(pid_of(run.mark, 1), signal.SIGKILL)
    code, report, output = run.finish()
    assert code == 0, output
    assert report["state"] == "Succeeded"
    assert "training from step" in output.split("training from step 0")[-1], output


WRITES = """
import lockstep, os, pathlib
before = lockstep.latest()
print("went on from", (pathlib.Path(before) / "whose").read_text() if before else "nothing")
made = pathlib.Path(lockstep.checkpoint_dir()) / "step-1"
made.mkdir()
(made / "whose").write_text(os.environ["LOCKSTEP_JOB"])
lockstep.commit(made)
"""


WAITS = WRITES + """
import time
if before is None:
    time.sleep(600)
"""


def test_run_started_without_resume_resumes_its_own_checkpoint_after_lost_agent(tmp_path):
    checkpoints = tmp_path / "checkpoints"
    run = Run(tmp_path, "-m", "1", "-p", "1", "--name", "lost", "--checkpoint", str(checkpoints),
              "--resume", "Never", "--", sys.executable, "-c", WAITS)
    wait_until((checkpoints / "LATEST").exists, "a checkpoint", 60)
    os.kill(processes.parent(run.wait_ranks(1)[0][0]), signal.SIGKILL)
    code, _, output = run.finish()
    assert code == 0, output
    assert "went on from lost" in output


def test_job_resumes_checkpoint_of_another_job_only_with_resume_option(tmp_path):
    checkpoints = tmp_path / "checkpoints"

    def run(name, *options):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        return Run(folder, "-m", "1", "-p", "1", "--name", name, "--checkpoint", str(checkpoints),
                   *options, "--", sys.executable, "-c", WRITES)

    def newest():
        return str(checkpoints / (checkpoints / "LATEST").read_text().strip())

    def says(what, name, *options):
        code, _, output = run(name, *options).finish()
        assert code == 0, output
        assert f"went on from {what}" in output

    says("nothing", "first")
    says("first", "third", "--resume", newest())
    says("third", "third-again", "--resume", newest())
    says("nothing", "fourth", "--resume", "Never")
    says("first", "first")
    for what, options in {"resume: PATH": (), "not a folder": ("--resume", "no/where")}.items():
        assert what in run("another", *options).process.communicate(timeout=60)[0]


def test_sigterm_from_rank_to_its_agent_counts_as_machine_replacement(tmp_path):
    run = Run(tmp_path, "-m", "1", "-p", "1", "--max-machine-replacements", "1", "--",
              "/bin/sh", "-c", "kill -TERM $PPID; sleep 600")
    code, report, output = run.finish()
    assert code == 75, output
    assert report["state"] == "Failed"
    assert report["counters"]["replacements"] == 2, report
    assert "the machine was not asked to leave" in output


def spares_of(run):
    return {pid for pid in processes.with_variable("RUN_UNDER_TEST", run.mark)
            if processes.command(pid).split()[1:] == ["--spare"]}


def test_spare_replaces_lost_machine_and_run_starts_another_spare(tmp_path):
    done = tmp_path / "done"
    run = Run(tmp_path, "-m", "2", "-p", "1", "--spares", "1", "--", sys.executable,
              "-c", f"import os, time\nwhile not os.path.exists({str(done)!r}): time.sleep(0.1)")
    ranks = run.wait_ranks(2)
    first = wait_until(lambda: spares_of(run), "a spare", 60)
    assert len(first) == 1
    pid, generation = ranks[1]
    os.kill(processes.parent(pid), signal.SIGKILL)
    run.wait_ranks(2, but_not_in=generation)
    second = wait_until(lambda: spares_of(run) - first, "another spare", 60)
    assert len(second) == 1 and not spares_of(run) & first
    done.touch()
    code, report, output = run.finish()
    assert code == 0, output
    assert "spare 0 gives its place" in output
    assert report["counters"]["replacements"] == 1
    assert {agent["machine"] for agent in report["agents"]} == {0, 1}, "a spare is not a machine"


def test_run_continues_if_spare_cannot_start_and_starts_spare_later(tmp_path):
    done = tmp_path / "done"
    run = Run(tmp_path, "-m", "1", "-p", "1", "--spares", "1", "--", sys.executable,
              "-c", f"import os, time\nwhile not os.path.exists({str(done)!r}): time.sleep(0.1)")
    output = Output(run)
    rank = run.wait_ranks(1)
    [first] = wait_until(lambda: spares_of(run), "a spare", 60)
    _, most = resource.prlimit(run.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(run.process.pid, resource.RLIMIT_NOFILE, (3, most))  # no further one
    os.kill(first, signal.SIGKILL)
    output.wait("no spare: ", "a spare that could not be started")
    resource.prlimit(run.process.pid, resource.RLIMIT_NOFILE, (most, most))
    wait_until(lambda: spares_of(run) - {first}, "another spare", 60)
    assert ranks(run.mark) == rank
    done.touch()
    assert run.process.wait(60) == 0, output.text
    output.join()
