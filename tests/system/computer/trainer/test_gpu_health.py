"""GPUs that are slow or broken, as NVML's stand-in tells of them: the one that holds a gang back is
named with its reason, and preflight replaces the machine of one that must not be used. On the fakes
of driver, NCCL, cuBLASLt and NVML: nothing of a GPU is measured here."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
from gang import Gang
from paths import ROOT
from tls import binary
from waiting import wait_until

MODULES = ROOT / "worker/python"
TORCH = "/usr/bin/python3"  # the one that has torch
FAKES = pathlib.Path(binary("lockstep-trainer")).parents[1] / "fake_nccl"
DATA = "/usr/share/common-licenses/GPL-3"
ON_FAKES = {"LD_LIBRARY_PATH": str(FAKES), "FAKE_GPUS": "2"}
# Where a machine's GPUs are hot, each of their products takes longer.
TRAIN = f"""
if [ "$FAKE_NVML" = hot ]; then export FAKE_SLOW_PRODUCT_MS=20; fi
exec {binary("lockstep-trainer")} train --device=cuda --data={DATA} --steps=100000 --layers=1 \\
    --heads=1 --width=64 --vocabulary=256 --sequence-length=32 --global-batch-size=3 --micro-batch-size=1
"""


class OnFakes(Gang):
    def begin(self, machine, attempt, mood=""):
        self.epoch = max(self.epoch, attempt)
        self.start_agent(machine, attempt, prefix=("env", f"FAKE_NVML={mood}"))


def bench_gpus(**environment):
    done = subprocess.run([binary("lockstep-trainer"), "bench", "gpus", "--json"], check=False, timeout=120,
                          capture_output=True, text=True, env={**os.environ, **ON_FAKES, **environment})
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def test_gpu_benchmark_measures_all_gpus_and_reports_nvml_clocks_and_faults():
    code, gpus, errors = bench_gpus()
    assert code == 0, errors
    assert [(gpu["gpu"], gpu["pci_address"]) for gpu in gpus] == [(0, "0000:f0:00.0"), (1, "0000:f1:00.0")]
    for gpu in gpus:
        assert gpu["products"] > 0 and gpu["fault"] == "" and gpu["without"] == ""
        assert gpu["clock_hertz"] == 1755e6 and gpu["max_clock_hertz"] == 1980e6
    _, gpus, _ = bench_gpus(FAKE_NVML="ecc:1")
    assert [gpu["fault"] for gpu in gpus] == [
        "", "2 uncorrected errors of its memory since its driver was loaded"]
    _, gpus, _ = bench_gpus(FAKE_NVML="remap:0", FAKE_GPUS="1")
    assert gpus[0]["fault"] == "rows of its memory wait for a reset to be remapped"


@pytest.mark.parametrize("lacks, says", [
    ({"LOCKSTEP_NVML_LIBRARY": "/nowhere/libnvidia-ml.so.1"}, "libnvidia-ml"),
    ({"LOCKSTEP_CUBLASLT_LIBRARY": "/nowhere/libcublasLt.so.13"}, "libcublasLt")], ids=["NVML", "cuBLASLt"])
def test_gpu_benchmark_without_library_omits_its_figures_and_reports_no_fault(lacks, says):
    code, gpus, errors = bench_gpus(FAKE_GPUS="1", **lacks)
    assert code == 0, errors
    assert says in gpus[0]["without"] and gpus[0]["fault"] == ""
    assert (gpus[0]["products"] is None) == (says == "libcublasLt")


def test_gpu_benchmark_reports_missing_driver():
    code, gpus, errors = bench_gpus(LD_LIBRARY_PATH="")
    assert (code, gpus) == (2, []) and "no NVIDIA driver here" in errors


def test_straggler_report_names_gpu_slowed_by_heat_as_the_cause(tmp_path):
    command = ["sh", "-c", TRAIN.replace("$", "$$")]
    with OnFakes(tmp_path, machines=3, environment=ON_FAKES, command=command) as gang:
        for machine in range(3):
            gang.begin(machine, 1, "hot" if machine == 1 else "")
        late = gang.wait_status(lambda status: status.get("straggler"), "a straggler", patience=240)["straggler"]
        assert late["machine"] == 1, late
        assert late["because"] == ("GPU 0 (rank 1) is slowed by its temperature: 1200 of 1980 MHz, "
                                   "the median is 1755"), late
        told = {rank["rank"]: rank for rank in gang.status()["progress"]}
        assert told[1]["gpuClock"] == {"hertz": 1.2e9, "most": 1.98e9, "slowed": 2}, told


def python(program, words, **environment):
    done = subprocess.run([program, "-c", words], check=False, timeout=120, capture_output=True, text=True,
                          env={**os.environ, **ON_FAKES, "PYTHONPATH": str(MODULES),
                               "PYTHONDONTWRITEBYTECODE": "1", **environment})
    return done.stdout.splitlines() or done.stderr.splitlines()[-1:]


def test_python_module_reports_clock_and_slowdown_of_its_gpu():
    words = "import json, lockstep_gpu; print(json.dumps(lockstep_gpu.Gpu(1).figures()))"
    assert json.loads(python(sys.executable, words, FAKE_NVML="hot:1")[0]) == {
        "gpu_index": 1, "gpu_sm_clock_hertz": 1.2e9, "gpu_max_sm_clock_hertz": 1.98e9,
        "gpu_slowed_by_power": 0, "gpu_slowed_by_heat": 1, "gpu_slowed_by_hardware": 0}
    assert python(sys.executable, words, FAKE_NVML="bare") == ["{}"]
    assert python(sys.executable, words, FAKE_GPUS="1") == ["OSError: CUDA shows no GPU 1"]
    assert python(sys.executable, words, FAKE_NVML="lost") == ["OSError: nvmlInit failed"]
    assert "libnvidia-ml.so.1" in python(sys.executable, words, LD_LIBRARY_PATH="")[0]


def test_watched_model_reports_gpu_at_intervals_and_never_if_nvml_fails():
    if subprocess.run([TORCH, "-c", "import torch"], check=False, capture_output=True).returncode != 0:
        pytest.skip(f"{TORCH} has no torch")
    words = ("import lockstep_torch; watch = lockstep_torch._Watch(None, None, None)\n"
             "print(len(watch.figures(0)), len(watch.figures(0))); watch._gpu_due = 0\n"
             "print(len(watch.figures(0)))")
    assert python(TORCH, words) == ["6 0", "6"]
    assert python(TORCH, words, FAKE_NVML="lost") == ["0 0", "0"]


def test_preflight_names_gpu_with_memory_errors_and_replaces_its_machine(tmp_path):
    spec = {"preflight": {"enabled": True, "margin": 1}, "resourcesPerProcess": {"gpu": 2}}
    with OnFakes(tmp_path, machines=3, environment=ON_FAKES, **spec) as gang:
        for machine in range(3):
            gang.begin(machine, 1, "ecc:1" if machine == 2 else "")
        gang.agents[0].wait_log("preflight: machine 2 is slow, and to be replaced: GPU 1: 2 uncorrected errors", 90)
        table = gang.agents[0].log
        assert "machine 0 is slow" not in table and "machine 1 is slow" not in table, table
        assert not any(agent.ranks() for agent in gang.agents.values())
        rows = re.findall(r"preflight: (\d) +[\d.e+]+ +[\d.e+]+ +[\d.e+-]+ +([\d.e+-]+) +[\d.e-]+ to [\d.e-]+", table)
        assert len(rows) == 3 and all(float(link) > 0 for _, link in rows), table
        gang.agents[2].kill()
        gang.begin(2, 2)
        wait_until(lambda: all(len(agent.ranks()) == 1 for agent in gang.agents.values()),
                   lambda: f"every rank to run\n{gang.logs()}", 90)
        gang.open_gates()
        wait_until(lambda: not any(agent.running for agent in gang.agents.values()),
                   lambda: f"all agents to leave\n{gang.logs()}")
        assert gang.agents[0].termination["exitCode"] == 0
