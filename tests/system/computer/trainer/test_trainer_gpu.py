"""The built-in trainer on GPUs, as a job: on the fakes of driver, NCCL and cuBLASLt, whose kernels
are the trainer's own, run thread by thread."""

import os
import pathlib
import re
import signal
import subprocess

import pytest
import yaml
from paths import ROOT
from ports import free_port
from run import Run, pid_of
from tls import binary
from trainer import Trainer
from trainer_jobs import job, wait_commits, weights

FAKES = pathlib.Path(binary("lockstep-trainer")).parents[1] / "fake_nccl"
MODEL = {"modelShape": {"layers": 1, "heads": 1, "width": 64, "vocabulary": 256}, "sequenceLength": 32,
         "globalBatchSize": 4, "microBatchSize": 1, "precision": "Bf16", "device": "Cuda", "checkpointEvery": 4}
DATA = "/usr/share/common-licenses/GPL-3"
XIDS = [f"GPU 0000:f0:00.0: Xid {number}" for number in (31, 79)]  # that the stand-in tells
# For ranks by hand.
MODEL_OF_RANKS = ["--layers=1", "--heads=1", "--width=64", "--vocabulary=256", "--sequence-length=32",
                  "--global-batch-size=2", "--micro-batch-size=1"]


def gpu_job(folder, **options):
    folder.mkdir(exist_ok=True)
    return job(folder, env={"LD_LIBRARY_PATH": str(FAKES)}, **{**MODEL, **options})


def run_alone(folder, **options):
    code, _, output = Run(folder, gpu_job(folder, **options)).finish()
    assert code == 0, output
    return output


def train(*options, heads=1, **env):
    """The trainer by itself, with the fakes; `env`: more of its environment."""
    words = [binary("lockstep-trainer"), "train", "--data", DATA, "--layers=1", f"--heads={heads}",
             "--width=64", "--vocabulary=256", "--sequence-length=64", "--global-batch-size=4",
             "--micro-batch-size=1", "--log-every=0", *options]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=120,
                          env={**os.environ, "LD_LIBRARY_PATH": str(FAKES), **env})


def test_gpu_job_with_killed_rank_ends_with_weights_of_undisturbed_process(tmp_path):
    steps = 48
    run = Run(tmp_path / "killed", gpu_job(tmp_path / "killed", machines=1, steps=steps))
    wait_commits(tmp_path / "killed", 1)
    os.kill(pid_of(run.mark, 1), signal.SIGKILL)
    code, report, output = run.finish()
    assert code == 0, output
    failures = [generation["failure"] for generation in report["generations"]]
    assert [failure.get("rank") for failure in failures] == [1, None], (failures, output)
    assert "NCCL" in output and "cuBLASLt" in output
    alone = run_alone(tmp_path / "alone", machines=1, processes=1, steps=steps)
    assert weights(output) == weights(alone)


def test_scaling_measurement_on_gpus_does_not_change_weights(tmp_path):
    plain = run_alone(tmp_path / "plain", machines=1, steps=6)
    measured = run_alone(tmp_path / "measured", machines=1, steps=6, measureScaling=True)
    assert weights(measured) == weights(plain)
    assert "scaling efficiency " in measured and "scaling efficiency " not in plain


def test_trainer_resumes_gpu_checkpoint_on_cpu_and_cpu_checkpoint_on_gpu(tmp_path):
    folder = f"--checkpoint-dir={tmp_path}"
    for steps, device in ((2, "cuda"), (3, "cpu"), (4, "cuda")):
        done = train(f"--steps={steps}", f"--device={device}", folder, "--resume=auto")
        assert done.returncode == 0, done.stderr
        assert steps == 2 or f"resuming at step {steps - 1}" in done.stdout
    written = tmp_path / "step-00000002" / "model.safetensors"
    assert written.stat().st_size > 4 * 70000


def test_trainer_rejects_impossible_gpu_run_and_names_the_reason():
    nothing = train("--steps=1", "--device=cuda", LD_LIBRARY_PATH="")
    assert nothing.returncode == 2 and "no NVIDIA driver here" in nothing.stderr
    small = train("--steps=1", "--device=cuda", FAKE_MEMORY="20000000")
    assert small.returncode == 2 and "lower microBatchSize or sequenceLength" in small.stderr
    heads = train("--steps=1", "--device=cuda", heads=2)
    assert heads.returncode == 2 and "heads must be 64 wide" in heads.stderr
    server = train("--steps=1", "--device=cuda", "--sync=parameter-server")
    assert server.returncode == 2 and "write sync AllReduce, or device Cpu" in server.stderr


def test_trainer_reports_xids_and_trains_without_nvml():
    broken = train("--steps=1", "--device=cuda", FAKE_NVML="xid")
    assert broken.returncode == 0 and broken.stderr.splitlines()[:2] == XIDS, broken
    without = train("--steps=1", "--device=cuda", LOCKSTEP_NVML_LIBRARY="/nowhere/libnvidia-ml.so.1")
    assert without.returncode == 0 and "Xid" not in without.stderr, without
    assert "no figures of the GPU: cannot open /nowhere/libnvidia-ml.so.1" in without.stdout


@pytest.mark.parametrize("lacks", [
    {"LOCKSTEP_CUBLASLT_LIBRARY": "/nowhere/libcublasLt.so.13"},
    {"FAKE_IMAGE": "209"},
], ids=["cuBLASLt", "kernels"])
@pytest.mark.parametrize("rank", [0, 1])
def test_ranks_all_use_cpus_or_all_fail_if_one_rank_cannot_use_its_gpu(tmp_path, rank, lacks):
    words = f"rank {rank}: " + ("cannot open /nowhere" if "LOCKSTEP_CUBLASLT_LIBRARY" in lacks
                                else "the driver loads no kernels")

    def run(device):
        with Trainer(tmp_path / device, world=2, steps=1, model=MODEL_OF_RANKS, arguments=[f"--device={device}"],
                     environment={"LD_LIBRARY_PATH": str(FAKES)}, environment_of={rank: lacks}) as made:
            return made.start().wait(), made.output, [
                (made.folder / f"{each}.err").read_text() for each in range(2)]

    codes, output, errors = run("auto")
    assert codes == [0, 0], errors
    assert words in output and "cuda" not in output
    codes, _, errors = run("cuda")
    assert codes == [2, 2]
    assert words in errors[0] and errors[0] == errors[1]


def test_each_rank_loads_the_kernels_once(tmp_path):
    with Trainer(tmp_path, world=2, steps=1, model=MODEL_OF_RANKS, arguments=["--device=cuda"],
                 environment={"LD_LIBRARY_PATH": str(FAKES), "FAKE_LOADS": "1"}) as made:
        assert made.start().wait() == [0, 0], made.errors


@pytest.mark.parametrize("fault, codes", [
    # In the check of what is there, at a step's first events, and at later ones.
    ({"LOST_AT": "2"}, [75, 76]), ({"LOST_AT": "140"}, [75, 76]), ({"LOST_AT": "200"}, [75, 76]),
    ({"ERROR_AT": "30"}, [75, 75]), ({"HANG_AT": "30"}, [75, 75]), ({"STUCK_AT": "30"}, [75, 75]),
], ids=lambda value: "-".join(next(iter(value.items()))) if isinstance(value, dict) else None)
def test_rank_failure_in_a_step_ends_all_ranks_with_expected_exit_codes(tmp_path, fault, codes):
    faults = {f"FAKE_{name}": value for name, value in fault.items()}
    with Trainer(tmp_path, world=2, steps=40, model=MODEL_OF_RANKS,
                 arguments=["--device=cuda", "--collective-timeout=6"],
                 environment={"LD_LIBRARY_PATH": str(FAKES)}, environment_of={1: faults}) as made:
        assert made.start().wait() == codes, made.errors


@pytest.mark.parametrize("enabled", [True, False])
def test_report_of_late_operation_includes_nccl_ras_if_enabled(tmp_path, enabled):
    ras = {"FAKE_RAS": "1"} if enabled else {}
    with Trainer(tmp_path, world=2, steps=40, model=MODEL_OF_RANKS,
                 arguments=["--device=cuda", "--collective-timeout=6"],
                 environment={"LD_LIBRARY_PATH": str(FAKES),
                              "NCCL_RAS_ADDR": f"localhost:{free_port()}", **ras},
                 environment_of={1: {"FAKE_STUCK_AT": "30"}}) as made:
        assert made.start().wait() == [75, 75], made.errors
        said = re.search(r"waits for \S+ \d+.*", made.errors)[0]
        assert bool(re.search("; NCCL's RAS: Communicator ranks have different operation counts, "
                              r"Rank 1 has launched up to operation 29, Rank 0 has launched", said)
                    ) == enabled, said
        assert ("RAS" in said) == enabled, said


@pytest.mark.parametrize("xids, code", [("31", 1), ("31,79", 76)])
def test_fatal_xid_decides_that_machine_is_replaced_after_failed_launch(xids, code):
    launch_failed = {"FAKE_LOST_AT": "8", "FAKE_LOST_AS": "719"}
    broken = train("--steps=2", "--device=cuda", FAKE_NVML="xid", FAKE_XIDS=xids, **launch_failed)
    assert broken.returncode == code and "step 1/" not in broken.stdout, broken
    told = [f"GPU 0000:f0:00.0: Xid {number}" for number in xids.split(",")]
    assert broken.stderr.splitlines()[:len(told)] == told, broken
    reason = "GPU 0000:f0:00.0 reported Xid 79 (it has fallen off the bus), so the machine must be replaced"
    assert (reason in broken.stderr) == (code == 76), broken


def test_trainer_reports_xids_if_watchdog_ends_the_rank(tmp_path):
    stuck = {"FAKE_NVML": "xid", "FAKE_STUCK_AT": "10"}
    with Trainer(tmp_path, world=2, steps=40, model=MODEL_OF_RANKS,
                 arguments=["--device=cuda", "--collective-timeout=6"],
                 environment={"LD_LIBRARY_PATH": str(FAKES)}, environment_of={0: stuck}) as made:
        assert made.start().wait() == [76, 75], made.errors
        errors = (made.folder / "0.err").read_text().splitlines()
        assert "step 1/" not in made.output and errors[:2] == XIDS, errors


@pytest.mark.parametrize("code, words", [
    ("999", "a GPU of this machine is lost or broken"),
    ("802", "so the machine must be replaced: its GPUs are not ready")])
def test_trainer_fails_on_broken_gpu_or_driver_instead_of_using_cpus(code, words):
    broken = train("--steps=1", FAKE_START=code)
    assert broken.returncode == 76, broken.stderr
    assert words in broken.stderr


def test_trainer_rejects_reduce_option_that_device_does_not_support():
    ring = train("--steps=1", "--device=cuda", "--reduce=ring")
    assert ring.returncode == 2 and "Ring needs Gloo: write reduce Tree" in ring.stderr
    nccl = train("--steps=1", "--device=cpu", "--reduce=nccl")
    assert nccl.returncode == 2 and "write backend Gloo and reduce Tree" in nccl.stderr
    assert "cuda" not in train("--steps=1", "--reduce=ring").stdout
    assert "cuda Stand-in GPU" in train("--steps=1", "--reduce=nccl").stdout


def test_generate_writes_same_text_on_gpu_and_cpus(tmp_path):
    assert train("--steps=8", "--device=cpu", "--learning-rate=1e-2",
                 f"--checkpoint-dir={tmp_path}").returncode == 0

    def generate(device, **env):
        # More than the context of 64 holds.
        words = [binary("lockstep-trainer"), "generate", f"--checkpoint-dir={tmp_path}", "--prompt=This",
                 "--prompt=", f"--prompt={'x' * 60}", "--tokens=40", "--temperature=0", f"--device={device}"]
        return subprocess.run(words, capture_output=True, check=False, timeout=120,
                              env={**os.environ, "LD_LIBRARY_PATH": str(FAKES), **env})

    on_cpus, on_gpu = generate("cpu"), generate("cuda")
    assert (on_gpu.returncode, on_gpu.stdout) == (0, on_cpus.stdout), on_gpu.stderr
    assert len(set(on_cpus.stdout)) > 3
    lost = generate("auto", FAKE_LOST_AT="9")
    assert lost.returncode == 76, lost.stderr
    assert b"no NVIDIA driver here" in generate("cuda", LD_LIBRARY_PATH="").stderr
    assert generate("auto", LD_LIBRARY_PATH="").stdout == on_cpus.stdout
    old = generate("auto", FAKE_CAPABILITY="75")
    assert old.stdout == on_cpus.stdout and b"on CPUs: GPU Stand-in GPU has compute capability 7.5" in old.stderr


def test_trainer_uses_gpu_by_default_only_if_all_gpu_libraries_exist(tmp_path):
    assert "cuda Stand-in GPU" in train("--steps=1").stdout
    assert "cuda" not in train("--steps=1", "--device=cpu").stdout
    (tmp_path / "libcuda.so.1").symlink_to(FAKES / "libcuda.so.1")
    driver_alone = train("--steps=1", LD_LIBRARY_PATH=str(tmp_path))
    assert driver_alone.returncode == 0
    assert "on CPUs: cannot open libcublasLt.so.13" in driver_alone.stdout
    assert "on CPUs: the NVIDIA driver is here but shows no GPU" in train("--steps=1", FAKE_GPUS="0").stdout
    assert "on CPUs: no NVIDIA driver is here" in train("--steps=1", LD_LIBRARY_PATH="").stdout


def test_ranks_of_two_machines_report_network_of_nccl_and_one_rank_of_each_warns_of_tcp_beside_rdma(tmp_path):
    def run(folder, prefix=(), **environment):
        with Trainer(tmp_path / folder, world=2, steps=1, model=MODEL_OF_RANKS, arguments=["--device=cuda"],
                     environment={"LD_LIBRARY_PATH": str(FAKES), "NCCL_DEBUG": "", **environment}) as made:
            made.command[:0] = prefix
            codes = made.start().wait()
            errors = [(made.folder / f"{rank}.err").read_text() for rank in range(2)]
            assert codes == [0, 0], errors
            return made.output, errors

    direct, errors = run("direct", FAKE_NET="IB/GDRDMA")
    assert "(Stand-in GPU), between machines by IB with GPUDirect RDMA; micro-batches" in direct, direct
    assert errors == ["", ""]
    asked, _ = run("asked", NCCL_DEBUG="WARN")
    assert "between machines" not in asked, "the job's own log is left alone"
    one, _ = run("one", LOCAL_WORLD_SIZE="2")
    assert "between machines" not in one
    if os.geteuid() != 0:
        pytest.skip("mounts what a machine with RDMA shows")
    tcp, errors = run("tcp", ("unshare", "--mount", str(ROOT / "tests/lib/rdma.sh")))
    assert "(Stand-in GPU), between machines by TCP; micro-batches" in tcp, tcp
    assert errors[0] == (
        "lockstep-trainer: warning: NCCL moves data between machines by TCP, but this machine has RDMA (mlx5_0): "
        "this container has no device of it. Ask for it in resourcesPerMachine, as in rdma/hca: 1 "
        "(examples/infiniband.yaml)\n")
    assert errors[1] == "", "its LOCAL_RANK is 1"


def example(folder, gpus, *options):
    """`lockstep run` of examples/gpt-gpu.yaml with a model for the fakes, on a machine that shows so
    many GPUs."""
    job = yaml.safe_load((ROOT / "examples/gpt-gpu.yaml").read_text())
    job["spec"]["trainer"].update(modelShape=MODEL["modelShape"], steps=6, globalBatchSize=4, microBatchSize=1,
                                  sequenceLength=32, checkpointEvery=4)
    job["spec"]["checkpoint"]["path"] = str(folder / "checkpoints")
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump(job))
    return subprocess.run(
        ["unshare", "--mount", ROOT / "tests/lib/gpus.sh", str(gpus), binary("lockstep"), "run",
         *options, file], capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "LD_LIBRARY_PATH": str(FAKES)})


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts what a machine with GPUs shows")
def test_example_ends_with_same_weights_on_one_gpu_and_two_gpus(tmp_path):
    said = {}
    for processes, options in ((2, []), (1, ["--processes", "1"])):
        folder = tmp_path / str(processes)
        folder.mkdir()
        done = example(folder, processes, *options)
        said[processes] = done.stdout + done.stderr
        assert done.returncode == 0, said[processes]
        assert "cuda Stand-in GPU" in said[processes]
    assert "NCCL" in said[2] and weights(said[1]) == weights(said[2])


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts what a machine with GPUs shows")
def test_run_rejects_example_with_fewer_gpus_than_processes(tmp_path):
    done = example(tmp_path, 1)
    assert done.returncode == 2, done.stderr
    assert "spec.resourcesPerProcess.gpu" in done.stderr and "this computer has 1" in done.stderr
