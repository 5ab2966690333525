"""PyTorch in a parked interpreter: the same bits, its loaders, and no work while it waits."""

import subprocess
import time

import pytest
from parking import Environment
from test_park import wait_asleep, woken

pytestmark = pytest.mark.slow

PYTHON = "/usr/bin/python3"
TRAIN = """
import hashlib, os, sys
os.environ["TOKENIZERS_PARALLELISM"] = "false"
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        return torch.full((8,), float(i)) / 64


def main(method):
    torch.manual_seed(7)
    dist.init_process_group("gloo")
    layers = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Linear(32, 1))
    model = DistributedDataParallel(layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(
        Numbers(), batch_size=8, shuffle=True, num_workers=1, multiprocessing_context=method)
    for batch in loader:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
    state = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
    print(hashlib.sha256(state).hexdigest(), torch.get_num_threads(), torch.initial_seed())
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
"""
LATE = {"MASTER_ADDR": "127.0.0.1", "TORCHELASTIC_RESTART_COUNT": "1"}


@pytest.fixture
def torch(tmp_path):
    ask = "import importlib.util as u; raise SystemExit(u.find_spec('torch') is None)"
    if subprocess.run([PYTHON, "-c", ask], check=False).returncode != 0:
        pytest.skip(f"{PYTHON} has no torch")
    environment = Environment(PYTHON, tmp_path)
    environment.python = PYTHON
    return environment


def of(rank):
    # At a busy computer a plain start may end between the removal of a semaphore and the word of it.
    shared = {"WORLD_SIZE": "2", "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo",
              "PYTHONWARNINGS": "ignore::UserWarning:multiprocessing.resource_tracker"}
    return {**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}


def train(environment, words, port, mode=None):
    """Both ranks' results, of a plain or recording start."""
    late = {**LATE, "MASTER_PORT": str(port)}
    ranks = [environment.start(*words, mode=mode, extra={**of(r), **late}) for r in range(2)]
    return [rank.result() for rank in ranks]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_parked_start_trains_torch_model_to_same_bits_as_plain_start(torch, method):
    from ports import free_port

    words = [torch.program("train.py", TRAIN), method]
    plain = train(torch, words, free_port(), mode="record")
    assert plain == train(torch, words, free_port()) and plain[0][0] == 0, plain
    with torch.park(*words, extra=of(0)) as one, torch.park(*words, extra=of(1)) as two:
        for process in (one, two):
            ready = process.ready()
            assert ready["failed"] == [] and "torch" in torch.learnt()
        port = str(free_port())
        for process in (one, two):
            process.go(**LATE, MASTER_PORT=port)
        assert [one.result(), two.result()] == plain


def test_parked_interpreter_with_torch_imported_sleeps(torch):
    torch.learn("torch", "torch.distributed", "numpy")
    with torch.park("-c", "import torch; print(torch.__version__ > '')") as process:
        process.ready()
        before = wait_asleep(process.pid)
        time.sleep(3)
        assert woken(process.pid) == before
        process.go()
        assert process.result() == (0, "True\n", "")
