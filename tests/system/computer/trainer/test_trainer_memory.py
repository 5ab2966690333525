"""The built-in trainer's checkpoints in memory under `lockstep run`: whatever is lost, the weights at
the end are those of a job left alone."""

import os
import pathlib
import re
import signal

import processes
from run import Run, ranks
from trainer_jobs import STEPS, job, wait_commits, weights, weights_alone
from waiting import wait_until


def machines(run, but_not_in=None):
    """The agents' (pid, run folder), in the order of machines, once their two ranks each run."""
    found = run.wait_ranks(4, but_not_in)
    folders = [pathlib.Path(processes.environment(found[rank][0])["LOCKSTEP_SOCKET"]).parent for rank in (0, 2)]
    return [(processes.parent(found[rank][0]), folder) for rank, folder in zip((0, 2), folders)]


def generation(run):
    return {generation for _, generation in ranks(run.mark).values()}.pop()


def in_memory(folder, generation):
    """(number, step) of a generation's checkpoints that an agent has: machine 0's part, which is all of
    it, or a copy of that."""
    return sorted(tuple(map(int, part.name.split(".step-")))
                  for part in folder.glob(f"memory/{generation}/0/0*.step-*"))


def wait_in_memory(folder, generation):
    """Until there is a second one: by then every machine holds the first. How soon that comes depends on what
    the first cost, where the job does not say."""
    wait_until(lambda: any(number > 1 for number, _ in in_memory(folder, generation)), "checkpoints in memory", 90)


def steps_on_disk(folder):
    return sorted(int(path.name.rpartition("-")[2]) for path in folder.glob("checkpoints/checkpoints/*/0*"))


def resumed(output):
    return [int(step) for step in re.findall(r"resuming at step (\d+)", output)]


def test_job_without_disk_resumes_from_memory_after_killed_rank_and_lost_machine(tmp_path):
    run = Run(tmp_path, "-v", job(tmp_path, steps=STEPS, memoryEvery=5, checkpoint={"memory": {"size": "64Mi"}}))
    (_, folder), _ = machines(run)
    wait_in_memory(folder, "1-1")
    os.kill(run.wait_ranks(4)[3][0], signal.SIGKILL)
    (agent, _), (_, next_folder) = machines(run, but_not_in="1-1")
    # Machine 0's part is lost with it, but for the copy.
    wait_in_memory(next_folder, generation(run))
    os.kill(agent, signal.SIGKILL)
    code, report, output = run.finish()
    assert code == 0, output
    assert len(resumed(output)) == 2 and len(report["generations"]) == 3, output
    assert weights(output) == weights_alone()


def test_ranks_kept_in_place_still_write_memory_checkpoints_for_lost_machine(tmp_path):
    run = Run(tmp_path, "-v", job(tmp_path, steps=STEPS, memoryEvery=5, recovery="InPlace",
                                  checkpoint={"memory": {"size": "64Mi"}}))
    (agent, folder), (_, copies) = machines(run)
    wait_in_memory(folder, "1-1")
    os.kill(run.wait_ranks(4)[3][0], signal.SIGKILL)
    wait_in_memory(copies, "1-2")
    os.kill(agent, signal.SIGKILL)
    code, report, output = run.finish()
    assert code == 0, output
    assert [generation.get("kept", 0) for generation in report["generations"]] == [0, 3, 0], output
    assert len(resumed(output)) == 1 and resumed(output)[0] > 5, output
    assert weights(output) == weights_alone()


def test_job_resumes_from_disk_and_reports_lost_memory_checkpoint(tmp_path):
    steps = 1000  # many after the only checkpoint on disk
    run = Run(tmp_path, "-v", job(tmp_path, steps=steps, checkpointEvery=steps // 2, memoryEvery=7, checkpoint={
        "memory": {"size": "64Mi", "replicas": 0}, "persistEvery": "0s", "path": str(tmp_path / "checkpoints")}))
    (agent, folder), _ = machines(run)
    wait_commits(tmp_path)
    wait_until(lambda: 7 <= (in_memory(folder, "1-1") or [(0, 0)])[-1][1] - steps_on_disk(tmp_path)[-1] < 600,
               "newer ones in memory", 90)
    os.kill(agent, signal.SIGKILL)
    # Both: nobody is left who could say what was lost.
    processes.kill_all([agent for agent, _ in machines(run, but_not_in="1-1")])
    code, _, output = run.finish()
    assert code == 0, output
    assert re.search(r"checkpoint step-\d+ in memory is lost with machine 0, because no machine holds a copy of its part",
                     output), output
    assert resumed(output) and all(step == steps // 2 for step in resumed(output)), output
    assert weights(output) == weights_alone(steps)


def test_job_without_disk_restarts_from_scratch_if_all_memory_copies_are_lost(tmp_path):
    run = Run(tmp_path, "-v", job(tmp_path, steps=STEPS, memoryEvery=5, checkpoint={"memory": {"size": "64Mi"}}))
    both = machines(run)
    wait_in_memory(both[1][1], "1-1")
    processes.kill_all([agent for agent, _ in both])
    code, _, output = run.finish()
    assert code == 0 and not resumed(output), output
    assert weights(output) == weights_alone()


def test_stopped_job_resumes_from_disk_at_another_world_size(tmp_path):
    checkpoint = {"memory": {"size": "64Mi"}, "path": str(tmp_path / "checkpoints")}
    run = Run(tmp_path, job(tmp_path, steps=STEPS, checkpointEvery=0, memoryEvery=5, checkpoint=checkpoint))
    wait_in_memory(machines(run)[0][1], "1-1")
    run.process.send_signal(signal.SIGINT)
    code, _, output = run.finish()
    assert code != 0
    stopped = int(re.search(r"stopped on request after step (\d+)", output)[1])
    code, _, output = Run(tmp_path, job(tmp_path, machines=1, steps=STEPS, checkpoint=checkpoint)).finish()
    assert code == 0 and resumed(output) == [stopped], output
    assert weights(output) == weights_alone()


def test_job_reports_too_small_memory_once_and_succeeds(tmp_path):
    code, _, output = Run(tmp_path, job(tmp_path, steps=60, memoryEvery=5,
                                        checkpoint={"memory": {"size": "64Ki"}})).finish()
    assert code == 0, output
    assert output.count("checkpoint not kept: machine 0: memory is full") == 1, output
