"""What a rank on GPUs says, and exits with, where something is wrong: on the fakes of the driver and
NCCL (tests/fakes/fake_nccl)."""

import pathlib

import pytest
from tls import binary
from trainer import fails

FAKES = pathlib.Path(binary("lockstep-trainer")).parents[1] / "fake_nccl"
BENCH = ["allreduce", "--backend=nccl", "-e", "64K"]


@pytest.mark.parametrize("setting, code, words", [
    # CUDA_ERROR_NO_BINARY_FOR_GPU
    ({"FAKE_IMAGE": "209"}, 2, "rank 0: the driver loads no kernels on GPU"),
    ({"FAKE_CAPABILITY": "75"}, 2, "the kernels need 8.0 (Ampere) or newer"),
    ({"FAKE_GPUS": "0"}, 2, "shows no GPU"),
    ({"FAKE_GPUS": "1"}, 2, "rank 1: GPU 1 is needed, but this process sees 1"),
    ({"FAKE_MEMORY": "1000000"}, 2, "CUDA_ERROR_OUT_OF_MEMORY"),
    ({"FAKE_INIT": "interface"}, 2, "NCCL_SOCKET_IFNAME names no interface of this machine"),
    ({"FAKE_INIT": "shm"}, 75, "mount a larger /dev/shm (sharedMemory: 1Gi)"),
    ({"FAKE_LOST_AT": "9"}, 76, "a GPU of this machine is lost or broken, so the machine must be replaced"),
], ids=lambda value: "-".join(value) if isinstance(value, dict) else None)
def test_rank_names_gpu_or_nccl_fault_and_exits_with_matching_code(tmp_path, setting, code, words):
    environment = {"LOCKSTEP_CUDA_LIBRARY": str(FAKES / "libcuda.so.1"),
                   "LOCKSTEP_NCCL_LIBRARY": str(FAKES / "libnccl.so.2")}
    # Not both where each finds out by itself: the later would hear of the first.
    exited, said = fails(tmp_path, *BENCH, command="bench", world=2, environment=environment,
                         environment_of={0: setting, 1: setting if "FAKE_GPUS" in setting else {}})
    assert words in said
    assert exited == code
