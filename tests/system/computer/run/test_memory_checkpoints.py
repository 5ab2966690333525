"""Checkpoints in memory under `lockstep run`: what latest() gives after processes, machines and both
copies of a part are lost."""

import os
import pathlib
import signal

import processes
import pytest
from memory_parts import held
from run import Run
from waiting import wait_until

PROGRAM = """
import os, sys, time
import lockstep

folder, last = sys.argv[1], int(sys.argv[2])
rank, generation = os.environ["RANK"], os.environ["LOCKSTEP_GENERATION"]
size = int(os.environ.get("PART_SIZE", "3000000"))


def say(*words):
    with open(os.path.join(folder, "log-" + rank), "a") as log:
        print(generation, *words, file=log)


def part(step):
    return (rank + ":" + str(step) + ";").encode() * (size // 8)


came_from, first = lockstep.latest(), 0
if came_from:
    first = int(came_from.rpartition("step-")[2])
    with open(os.path.join(came_from, "deep", "rank-" + rank), "rb") as file:
        assert file.read() == part(first), came_from
say("begins", first, came_from)
for step in range(first + 1, last + 1):
    lockstep.report(step=step, total_steps=last)
    writing = os.path.join(lockstep.memory_dir(), "step-%d" % step)
    os.makedirs(os.path.join(writing, "deep"))
    open(os.path.join(writing, "empty"), "w").close()
    with open(os.path.join(writing, "deep", "rank-" + rank), "wb") as file:
        file.write(part(step))
    try:
        say("committed", step, lockstep.commit(writing))
    except lockstep.CommitRefused as refusal:
        say("refused", step, refusal)
    while not os.path.exists(os.path.join(folder, "go-%d" % step)) and str(step) in sys.argv[3].split(","):
        time.sleep(0.01)
"""

JOB = """
apiVersion: lockstep.dev/v1alpha1
kind: TrainingJob
metadata: {{name: memory}}
spec:
  numMachines: {machines}
  processesPerMachine: 1
  command: [python3, {program}, {folder}, "{last}", "{pause}"]
  failurePolicy: {{machineLostAfter: 5s, maxRestarts: {restarts}}}
  env: [{{name: PART_SIZE, value: "{part}"}}]
  checkpoint:
    memory: {{size: {size}, replicas: {replicas}}}
    persistEvery: {persist}
{path}
"""


# Each rank writes what the test gave it: names that were the agent's own once, bytes that are no UTF-8.
TREE_PROGRAM = """
import os, subprocess, sys, time
import lockstep

folder, rank = sys.argv[1], os.environ["RANK"]
piped = os.path.join(lockstep.memory_dir(), "piped")
os.makedirs(piped)
os.mkfifo(os.path.join(piped, "queue"))
try:
    lockstep.commit(piped)
except lockstep.CommitRefused as refusal:
    print("refused:", refusal, flush=True)
tree = os.path.join(folder, "tree-" + rank)
writing = os.path.join(lockstep.memory_dir(), "one")
subprocess.run(["cp", "-a", tree, writing], check=True)
lockstep.commit(writing)
while not os.path.exists(os.path.join(folder, "go")):
    time.sleep(0.01)
"""


def snapshot(folder):
    """Path below it -> what it is: a folder's mode, a link's target, a file's mode and content."""
    found = {}
    folder = os.fsencode(folder)
    for above, folders, files in os.walk(folder):
        found[os.path.relpath(above, folder)] = oct(os.stat(above).st_mode)
        for name in folders + files:
            path = os.path.join(above, name)
            if os.path.islink(path):
                found[os.path.relpath(path, folder)] = os.readlink(path)
            elif name in files:
                content = pathlib.Path(os.fsdecode(path)).read_bytes()
                found[os.path.relpath(path, folder)] = (oct(os.stat(path).st_mode), content)
    return found


@pytest.fixture
def job(tmp_path):
    def start(machines=2, last=6, pause=4, size="64Mi", replicas=1, persist="0s", path=None, part=3000000,
              restarts=3):
        program, file = tmp_path / "program.py", tmp_path / "job.yaml"
        program.write_text(PROGRAM)
        file.write_text(JOB.format(
            machines=machines, program=program, folder=tmp_path, last=last, pause=pause, size=size,
            replicas=replicas, persist=persist, part=part, restarts=restarts,
            path=f"    path: {path}" if path else ""))
        return Run(tmp_path, "-v", str(file))
    return start


def said(folder, rank, what):
    """[(generation, the rest)] of the lines of that kind."""
    log = pathlib.Path(folder) / f"log-{rank}"
    lines = [line.split(" ", 3) for line in log.read_text().splitlines()] if log.exists() else []
    return [(line[0], line[2], *line[3:]) for line in lines if line[1] == what]


def wait_committed(run, step, machines=2):
    """Until every rank has committed it; then the copies, which nothing tells of, get a moment."""
    wait_until(lambda: all(any(line[1] == str(step) for line in said(run.folder, rank, "committed"))
                           for rank in range(machines)), f"step {step}", patience=90)


def agents(run):
    """Rank -> (pid of its machine's agent, its run folder); one process a machine."""
    found = {}
    for rank, (pid, _) in run.wait_ranks(2).items():
        folder = pathlib.Path(processes.environment(pid)["LOCKSTEP_SOCKET"]).parent
        mine = [agent for agent in processes.with_variable("RUN_UNDER_TEST", run.mark)
                if processes.name(agent).startswith("lockstep-agent") and pid in processes.children(agent)]
        found[rank] = (mine[0], folder)
    return found


def wait_copied(found, step):
    """Until each machine holds its part, and the next machine a copy, and nothing older is left."""
    wanted = [("0", str(step), 3), ("1", str(step), 3)]
    wait_until(lambda: all(held(folder) == wanted for _, folder in found.values()),
               lambda: f"{wanted}: {[held(folder) for _, folder in found.values()]}")


def test_every_rank_resumes_from_memory_after_a_rank_is_killed(job, tmp_path):
    run = job()
    ranks = run.wait_ranks(2)
    wait_committed(run, 4)
    os.kill(ranks[1][0], signal.SIGKILL)
    (tmp_path / "go-4").touch()
    code, _, output = run.finish()
    assert code == 0, output
    for rank in (0, 1):
        begins = said(tmp_path, rank, "begins")
        assert [line[1] for line in begins] == ["0", "4"], (begins, output)
        assert "/memory/1-1/" in begins[1][2] and begins[1][2].endswith("/000004.step-4")


def test_killed_rank_of_single_machine_job_resumes_from_memory(job, tmp_path):
    run = job(machines=1)
    ranks = run.wait_ranks(1)
    wait_committed(run, 4, machines=1)
    os.kill(ranks[0][0], signal.SIGKILL)
    (tmp_path / "go-4").touch()
    code, _, output = run.finish()
    assert code == 0 and [line[1] for line in said(tmp_path, 0, "begins")] == ["0", "4"], output


@pytest.mark.parametrize("machine", [0, 1])
def test_lost_machine_gets_its_checkpoint_part_back_from_another_machine(job, tmp_path, machine):
    run = job()
    run.wait_ranks(2)
    wait_committed(run, 4)
    found = agents(run)
    wait_copied(found, 4)
    os.kill(found[machine][0], signal.SIGKILL)
    (tmp_path / "go-4").touch()
    code, report, output = run.finish()
    assert code == 0, output
    assert [line[1] for line in said(tmp_path, machine, "begins")] == ["0", "4"], output


def test_job_without_replicas_resumes_from_disk_and_reports_lost_checkpoint(job, tmp_path):
    # What is written next is written after the machine is lost.
    run = job(replicas=0, persist="10s", pause="4,6", last=7, path=tmp_path / "ckpt")
    found = agents(run)
    wait_until(lambda: list((tmp_path / "ckpt").glob("checkpoints/1-1/000004.step-4")),
               "step 4 on disk", 90)
    (tmp_path / "go-4").touch()
    wait_committed(run, 6)
    os.kill(found[1][0], signal.SIGKILL)
    (tmp_path / "go-6").touch()
    code, _, output = run.finish()
    assert code == 0, output
    for rank in (0, 1):
        generation, step, folder = said(tmp_path, rank, "begins")[-1]
        assert (step, folder) == ("4", str(tmp_path / "ckpt/checkpoints/1-1/000004.step-4")), output
    assert "checkpoint step-6 in memory is lost with machine 1" in output


def test_successful_job_leaves_last_checkpoint_in_checkpoint_folder(job, tmp_path):
    run = job(path=tmp_path / "ckpt", pause=0)
    code, _, output = run.finish()
    assert code == 0, output
    last = tmp_path / "ckpt/checkpoints/1-1/000006.step-6"
    assert sorted(path.name for path in (last / "deep").iterdir()) == ["rank-0", "rank-1"]
    assert (last / "empty").exists() and (tmp_path / "ckpt/LATEST").read_text().strip().endswith(last.name)


def in_folder(path, step):
    found = path / f"checkpoints/1-1/{step:06}.step-{step}"
    return sorted(file.name for file in (found / "deep").iterdir()) if found.exists() else []


def test_agent_on_sigterm_writes_newest_memory_checkpoint_to_folder(job, tmp_path):
    path = tmp_path / "ckpt"
    run = job(path=path)
    wait_committed(run, 4)
    os.kill(agents(run)[1][0], signal.SIGTERM)
    wait_until(lambda: in_folder(path, 4) == ["rank-0", "rank-1"], "step 4 in the folder")
    (tmp_path / "go-4").touch()
    code, _, output = run.finish()
    assert code == 0, output
    assert [line[1] for line in said(tmp_path, 0, "begins")] == ["0", "4"], output


def test_failed_job_leaves_newest_memory_checkpoint_in_folder(job, tmp_path):
    path = tmp_path / "ckpt"
    run = job(path=path, restarts=0)
    ranks = run.wait_ranks(2)
    wait_committed(run, 4)
    os.kill(ranks[1][0], signal.SIGKILL)
    code, _, output = run.finish()
    assert code != 0, output
    assert in_folder(path, 4) == ["rank-0", "rank-1"], output


def test_failed_job_reports_memory_checkpoint_that_was_not_written(job, tmp_path):
    path = tmp_path / "ckpt"
    run = job(path=path, restarts=0)
    ranks = run.wait_ranks(2)
    wait_committed(run, 4)
    # A file in the place of the folder that is to be written.
    (path / ".lockstep/memory/1-1").mkdir(parents=True)
    (path / ".lockstep/memory/1-1/1-1-4").touch()
    os.kill(ranks[1][0], signal.SIGKILL)
    code, _, output = run.finish()
    assert code != 0, output
    assert "checkpoint step-4 in memory was not written to" in output


def test_copies_of_a_memory_checkpoint_are_the_same_tree(tmp_path):
    written = {"weights": b"weights of machine 0", ".machine-0": b"mine", "n" * 255: b"a long name"}
    for rank, files in enumerate([written, {"weights.part-0": b"of machine 1", "weights.lock": b"too"}]):
        tree = tmp_path / f"tree-{rank}"
        (tree / "hollow").mkdir(parents=True)
        (tree / "hollow").chmod(0o750)
        for name, content in files.items():
            (tree / name).write_bytes(content)
    with open(os.fsencode(tmp_path) + b"/tree-0/caf\xe9", "wb") as file:
        file.write(b"no UTF-8")
    (tmp_path / "tree-0/weights").chmod(0o600)
    (tmp_path / "tree-0/latest").symlink_to("weights")
    trees = [snapshot(tmp_path / f"tree-{rank}") for rank in (0, 1)]
    program, file = tmp_path / "program.py", tmp_path / "job.yaml"
    program.write_text(TREE_PROGRAM)
    file.write_text(JOB.format(machines=2, program=program, folder=tmp_path, last=1, pause=0, size="64Mi",
                               replicas=1, persist="0s", part=0, restarts=0,
                               path=f"    path: {tmp_path}/ckpt"))
    run = Run(tmp_path, "-v", str(file))
    found = agents(run)

    def copied():
        parts = [(rank, path) for _, folder in found.values() for rank in (0, 1)
                 for path in folder.glob(f"memory/1-1/{rank}/*.one")]
        return len(parts) == 4 and all(snapshot(path) == trees[rank] for rank, path in parts)

    wait_until(copied, "both parts on both machines")
    (tmp_path / "go").touch()
    code, _, output = run.finish()
    assert code == 0, output
    assert "queue is a named pipe" in output
    [final] = (tmp_path / "ckpt/checkpoints/1-1").iterdir()
    assert snapshot(final) == {**trees[1], **trees[0]}, output


def test_every_machine_rejects_checkpoint_that_does_not_fit_and_gives_reason(job, tmp_path):
    run = job(size="8Mi", pause=0)
    code, _, output = run.finish()
    assert code == 0, output
    for rank in (0, 1):
        refusals = [line[2] for line in said(tmp_path, rank, "refused")]
        assert refusals and all("memory is full: checkpoint.memory.size is 8 MiB" in line for line in refusals)


def test_job_does_not_resume_from_corrupt_memory_copy(job, tmp_path):
    run = job()
    wait_committed(run, 4)
    found = agents(run)
    wait_copied(found, 4)
    copy = found[1][1] / "memory/1-1/0/000004.step-4/deep/rank-0"
    data = copy.read_bytes()
    copy.write_bytes(data[:-1] + b"x")
    os.kill(found[0][0], signal.SIGKILL)
    (tmp_path / "go-4").touch()
    code, _, output = run.finish()
    assert code == 0, output
    assert "could not get machine 0's part of step-4: deep/rank-0 does not have the hash" in output
    assert said(tmp_path, 1, "begins")[-1][1] == "0", output


def test_commits_of_large_parts_follow_each_other_without_a_refusal(job, tmp_path):
    run = job(size="1Gi", part=100 << 20, pause=0, last=4)
    code, _, output = run.finish()
    assert code == 0, output
    for rank in (0, 1):
        assert [line[1] for line in said(tmp_path, rank, "committed")] == ["1", "2", "3", "4"], output
        assert not said(tmp_path, rank, "refused")
