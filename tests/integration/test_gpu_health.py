"""GPUs that are slow, as NVML's stand-in tells of them: the one that holds a gang back is named with
its reason. On the fakes of driver, NCCL, cuBLASLt and NVML: nothing of a GPU is measured here."""

import pathlib

from gang import Gang
from tls import binary

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


def test_a_gpu_that_heat_slows_is_named_as_the_reason_of_its_machines_lateness(tmp_path):
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
