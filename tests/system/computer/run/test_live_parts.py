"""Parts of worker/python/lockstep_live.py that need torch, and no process group."""

import sys

import pytest
from paths import MODULES

torch = pytest.importorskip("torch")
sys.path.insert(0, str(MODULES))

import lockstep_live  # noqa: E402


class Noisy(torch.utils.data.Dataset):
    """A sample costs a random number, and says that it was made."""

    def __init__(self):
        self.made = []

    def __len__(self):
        return 20

    def __getitem__(self, index):
        self.made.append(index)
        return index + torch.rand(1)


def loader(data):
    return torch.utils.data.DataLoader(data, batch_size=4, shuffle=True)


def test_loader_without_workers_passes_over_batches_and_does_not_make_them():
    torch.manual_seed(3)
    whole = [batch.long().flatten().tolist() for batch in loader(Noisy())]
    data = Noisy()
    again = loader(data)
    torch.manual_seed(3)
    rest = [batch.long().flatten().tolist() for batch in lockstep_live._passed_over(again, 3, True)]
    assert rest == whole[3:], "the order is the one that these random numbers give"
    assert len(data.made) == 8
    assert len(list(again)) == 5, "the next epoch is whole"


def test_any_other_iterable_is_passed_over_by_making_its_batches():
    assert list(lockstep_live._passed_over([1, 2, 3], 2, True)) == [3]
    assert list(lockstep_live._passed_over([1, 2, 3], 3, False)) == []


def test_state_goes_apart_from_its_tensors_and_comes_back_as_it_was():
    state = {"moments": [torch.ones(2, 3), {"step": torch.tensor(4.0)}], "betas": (0.9, 0.999), "none": None}
    data, tensors = lockstep_live._flatten(state)
    assert len(data) < 200 and [tuple(tensor.shape) for tensor in tensors] == [(2, 3), ()]
    back = lockstep_live._Unpickler(data, [tensor.clone() for tensor in tensors]).load()
    assert back["betas"] == (0.9, 0.999) and back["none"] is None
    assert torch.equal(back["moments"][0], torch.ones(2, 3)) and back["moments"][1]["step"] == 4


def test_random_state_brings_back_the_numbers_of_torch_python_and_numpy():
    import random

    numpy = pytest.importorskip("numpy")
    cpu = torch.device("cpu")
    state = lockstep_live._random_state(cpu)
    first = (torch.rand(1).item(), random.random(), numpy.random.rand())
    lockstep_live._set_random_state(state, cpu)
    assert (torch.rand(1).item(), random.random(), numpy.random.rand()) == first


@pytest.mark.parametrize("text, lost", [
    ("[../third_party/gloo/gloo/transport/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:7", True),
    ("Read error [127.0.0.1]:7: Connection reset by peer", True),
    ("NCCL communicator was aborted on rank 1.", True),
    ("mat1 and mat2 shapes cannot be multiplied (4x3 and 8x2)", False)])
def test_error_that_reads_like_a_lost_peer_is_asked_about(text, lost):
    assert lockstep_live._lost_a_peer(RuntimeError(text)) is lost
    outer = RuntimeError("a hook failed")
    outer.__cause__ = RuntimeError(text)
    assert lockstep_live._lost_a_peer(outer) is lost
    assert not lockstep_live._lost_a_peer(ValueError(text))


def test_module_that_is_wrapped_already_is_refused():
    class Wrapped(torch.nn.parallel.DistributedDataParallel):
        def __init__(self):
            torch.nn.Module.__init__(self)

    with pytest.raises(TypeError, match="give it the module"):
        lockstep_live.Live(Wrapped(), [])
