"""`lockstep run --checkpoint-url`: checkpoints that outlive a computer, in a real object store."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import threading

import processes
import pytest
from faulty_http import Answer, FaultyHttp, Hold, times
from object_store import SECRET, ObjectStore
from run import MARK, Run
from tls import binary
from trainer_jobs import STEPS, job, weights, weights_alone
from waiting import wait_until

MEMORY = {"memory": {"size": "64Mi"}, "persistEvery": "1s"}


@pytest.fixture
def store(tmp_path):
    if os.environ.get("LOCKSTEP_TEST_MINIO"):
        pytest.skip("looks at the objects as files")
    with ObjectStore(tmp_path / "store") as store:
        yield store


def start(folder, store, file, *arguments, **variables):
    folder.mkdir(exist_ok=True)
    return Run(folder, "-v", "--checkpoint-url", store.url, *arguments, file,
               variables={**store.variables, **variables})


def wait_commit(store, run, but_not=()):
    """Until one more checkpoint is in the store; all of them."""
    def there():
        assert run.process.poll() is None, run.process.communicate()[0]
        return set(store.keys("commits")) - set(but_not)

    wait_until(there, "a commit in the object store", 90)
    return store.keys("commits")


def lose_computer(run):
    """Every process dies at once, and with them all that their memory holds."""
    run.process.kill()
    for pid in processes.with_variable(MARK, run.mark):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    run.process.wait()
    wait_until(lambda: not processes.with_variable(MARK, run.mark), "all of the run to end")


def resumed(output):
    return [int(step) for step in re.findall(r"resuming at step (\d+)", output)]


def test_a_job_whose_computer_is_lost_goes_on_from_the_object_store_with_the_same_bits(tmp_path, store):
    file = job(tmp_path, steps=STEPS, memoryEvery=5, checkpoint=MEMORY)
    run = start(tmp_path / "first", store, file)
    commits = wait_commit(store, run)
    lose_computer(run)
    run = start(tmp_path / "second", store, file)
    code, report, output = run.finish()
    assert code == 0, output
    steps = [int(name.removesuffix(".json").rpartition("-")[2]) for name in commits]
    assert resumed(output) and resumed(output)[0] >= max(steps), (output, commits)
    assert weights(output) == weights_alone()
    assert report["generations"][0]["generation"] == "2-1"
    assert len(store.keys("commits")) <= 3
    assert SECRET not in output + json.dumps(report)
    assert not any(SECRET.encode() in (store.bucket / "run" / key).read_bytes() for key in store.keys())


def test_a_file_names_the_object_store_and_how_many_checkpoints_it_keeps(tmp_path, store):
    wanted = {**MEMORY, "url": store.url, "secret": "of-a-cluster", "keep": 1}
    file = job(tmp_path, 1, 1, steps=60, memoryEvery=5, checkpoint=wanted)
    code, _, output = Run(tmp_path, "-v", file, variables=store.variables).finish()
    assert code == 0 and "ignored on this computer: checkpoint.secret" in output, output
    assert [name.rpartition("-")[2] for name in store.keys("commits")] == ["00000055.json"], output
    (tmp_path / "more").mkdir()
    file = job(tmp_path, 1, 1, steps=80, memoryEvery=5, checkpoint={**wanted, "url": "s3://bucket/other"})
    code, _, output = start(tmp_path / "more", store, file).finish()
    assert code == 0 and resumed(output) == [55], output


def test_another_number_of_machines_goes_on_from_the_object_store(tmp_path, store):
    run = start(tmp_path / "first", store, job(tmp_path, steps=STEPS, memoryEvery=5, checkpoint=MEMORY))
    wait_commit(store, run)
    lose_computer(run)
    file = job(tmp_path, 1, 4, STEPS, memoryEvery=5, checkpoint=MEMORY)
    code, _, output = start(tmp_path / "second", store, file).finish()
    assert code == 0 and resumed(output), output
    assert weights(output) == weights_alone()


def test_a_job_that_ends_leaves_its_last_checkpoint_and_a_failing_store_does_not_stop_it(tmp_path, store):
    file = job(tmp_path, 1, 1, steps=40, memoryEvery=5, checkpoint={**MEMORY, "persistEvery": "0"})
    with FaultyHttp(store.address) as proxy:
        proxy.fault = lambda method, path, _: (
            Answer(403, "AccessDenied") if method == "PUT" and "/parts/" in path else None)
        run = start(tmp_path / "first", store, file, AWS_ENDPOINT_URL=proxy.endpoint)
        code, _, output = run.finish()
    assert code == 0 and "refuses the credentials" in output, output
    shutil.rmtree(re.search(r"is kept in memory, in (/\S+?):", output)[1])
    assert store.keys("commits") == []
    code, _, output = start(tmp_path / "second", store, file).finish()
    assert code == 0 and not resumed(output), output
    assert [name.rpartition("-")[2] for name in store.keys("commits")] == ["00000035.json"]


def test_an_upload_outlives_the_generation_of_its_checkpoint(tmp_path, store):
    file = job(tmp_path, steps=STEPS, memoryEvery=5, checkpoint=MEMORY)
    with FaultyHttp(store.address) as proxy:
        released = threading.Event()
        proxy.fault = times(1, Hold(released), "PUT", "/checkpoints/")
        run = start(tmp_path / "first", store, file, AWS_ENDPOINT_URL=proxy.endpoint)

        def uploads():
            # A process in the middle of exec has no command.
            return {pid for pid in processes.with_variable(MARK, run.mark) if "put-part" in processes.command(pid)}

        wait_until(lambda: any(method == "PUT" and "/checkpoints/" in path for method, path in proxy.requests),
                   "an upload", 60)
        before = uploads()
        os.kill(run.wait_ranks(4)[3][0], signal.SIGKILL)
        run.wait_ranks(4, but_not_in="1-1")
        assert before & uploads(), "the stop of the generation has ended the upload"
        released.set()
        code, _, output = run.finish()
    assert code == 0 and weights(output) == weights_alone(), output
    assert store.keys("commits")[-1].startswith("commits/1-2/"), store.keys("commits")


def test_a_checkpoint_that_cannot_be_fetched_is_not_passed_over(tmp_path, store):
    file = job(tmp_path, 1, 1, steps=40, memoryEvery=5, checkpoint={**MEMORY, "persistEvery": "0"})
    code, _, output = start(tmp_path / "first", store, file).finish()
    assert code == 0, output
    large = max((store.bucket / "run" / key for key in store.keys("checkpoints")), key=lambda each: each.stat().st_size)
    whole = large.read_bytes()
    large.write_bytes(whole[:-10])
    longer = job(tmp_path, 1, 1, steps=60, memoryEvery=5, checkpoint={**MEMORY, "persistEvery": "0"})
    run = start(tmp_path / "second", store, longer)
    wait_until(lambda: len(store.keys("generations")) > 3 or run.process.poll() is not None, "several tries", 60)
    assert run.process.poll() is None, run.process.communicate()[0]
    large.write_bytes(whole)
    code, _, output = run.finish()
    assert code == 0 and resumed(output) == [35], output
    assert "could not be prepared" in output and "bytes shorter than committed" in output, output


@pytest.mark.parametrize("checkpoint,url,arguments,words", [
    ({}, "", [], "spec.checkpoint.memory.size: is missing"),
    (MEMORY, "", ["--checkpoint", "ckpt"], "replaces the folder"),
    ({**MEMORY, "resume": "/tmp"}, "", [], "must be Auto or Never"),
    (MEMORY, "https://bucket", [], "s3://BUCKET/PREFIX"),
    (MEMORY, "s3://no-such-bucket/run", [], "no-such-bucket does not exist"),
], ids=["no-memory", "folder", "resume", "scheme", "bucket"])
def test_what_cannot_work_is_said_before_anything_runs(tmp_path, store, checkpoint, url, arguments, words):
    file = job(tmp_path, 1, 1, checkpoint=checkpoint or {"resume": "Auto"})
    run = Run(tmp_path, "--checkpoint-url", url or store.url, *arguments, file, variables=store.variables)
    output, _ = run.process.communicate(timeout=60)
    assert run.process.returncode not in (0, None) and words in output, output
    assert store.keys() == []


def test_a_computer_without_lockstep_s3_is_told_where_it_is(tmp_path, store):
    for name in ("lockstep", "lockstep-agent"):  # what a wheel has
        shutil.copy(binary(name), tmp_path)
    done = subprocess.run([tmp_path / "lockstep", "run", "--checkpoint-url", store.url, job(tmp_path, 1, 1, checkpoint=MEMORY)],
                          env={**store.variables, "PATH": "/usr/bin:/bin"}, capture_output=True, text=True)
    assert done.returncode != 0 and "lockstep-s3" in done.stderr, done.stderr
    assert "the wheel does not have it: install the package for Linux" in done.stderr
    assert store.keys() == []
