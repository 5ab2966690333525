"""The trainer's model against PyTorch: transformers' GPT-2 and torch's AdamW, from the same weights."""

import os
import pathlib
import subprocess

import pytest
from paths import ROOT

os.environ["HF_HUB_OFFLINE"] = "1"
np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

BIN = pathlib.Path(
    os.environ.get("LOCKSTEP_BIN", ROOT / "build/release/bin")
)
STEPS = 10


def reference(layers, heads, width, vocabulary, context):
    config = transformers.GPT2Config(
        n_layer=layers, n_head=heads, n_embd=width, vocab_size=vocabulary, n_positions=context,
        activation_function="gelu_new", resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)  # fmt: skip
    torch.manual_seed(1)
    model = transformers.GPT2LMHeadModel(config)
    with torch.no_grad():  # biases of 0 would hide mistakes
        for parameter in model.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    return model


def flat(model, of=lambda parameter: parameter):
    """As the trainer arranges them: in the order of the forward pass, which is Hugging Face's."""
    return torch.cat([of(parameter).detach().flatten() for parameter in model.parameters()]).numpy()


def learning_rate(step):
    if step < 2:
        return 1e-3 * step / 2
    return 1e-3 * (0.1 + 0.9 * 0.5 * (1 + np.cos(np.pi * (step - 2) / 8)))


def train(model, inputs, targets):
    """The losses of all steps, and the gradients of the first."""
    groups = [
        {"params": [p for p in model.parameters() if p.dim() == 2], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.dim() == 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), eps=1e-8)
    losses, gradients = [], None
    for step in range(1, STEPS + 1):
        logits = model(torch.from_numpy(inputs[step - 1]).long()).logits
        targets_now = torch.from_numpy(targets[step - 1]).long()
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets_now.flatten())
        optimizer.zero_grad()
        loss.backward()
        if gradients is None:
            gradients = flat(model, lambda parameter: parameter.grad)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step)
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses), gradients


class Ours:
    """What lockstep-trainer-steps makes of the same weights and tokens."""

    def __init__(self, folder, shape, batch, parameters, inputs, targets, precision):
        parameters.tofile(folder / "parameters")
        inputs.tofile(folder / "inputs")
        targets.tofile(folder / "targets")
        arguments = [folder, *shape, batch, STEPS, precision]
        command = [BIN / "lockstep-trainer-steps", *map(str, arguments)]
        subprocess.run(command, check=True, timeout=300)
        for name in ("logits", "gradients", "losses", "trained"):
            setattr(self, name, np.fromfile(folder / name, dtype=np.float32))


SHAPES = {"small": ((2, 3, 48, 101, 80), 3), "nano": ((4, 4, 192, 256, 128), 4)}


@pytest.fixture(params=SHAPES, scope="module")
def case(request):
    shape, batch = SHAPES[request.param]
    layers, heads, width, vocabulary, context = shape
    model = reference(*shape)
    start = flat(model)
    tokens = np.random.default_rng(5).integers(0, vocabulary, (STEPS, batch, context + 1))
    inputs = tokens[:, :, :-1].astype(np.int32)
    targets = tokens[:, :, 1:].astype(np.int32)
    with torch.no_grad():
        logits = model(torch.from_numpy(inputs[0]).long()).logits.flatten().numpy()
    losses, gradients = train(model, inputs, targets)
    return {
        "ours": lambda folder, precision="fp32": Ours(
            folder, shape, batch, start, inputs, targets, precision),
        "logits": logits,
        "losses": losses,
        "gradients": gradients,
        "trained": flat(model),
    }  # fmt: skip


def test_trainer_in_fp32_matches_pytorch(case, tmp_path):
    ours = case["ours"](tmp_path)
    assert np.abs(ours.logits - case["logits"]).max() < 1e-3
    assert abs(ours.losses[0] - case["losses"][0]) < 1e-5
    assert np.abs(ours.losses - case["losses"]).max() < 1e-4
    norm = np.linalg.norm(case["gradients"])
    assert np.linalg.norm(ours.gradients - case["gradients"]) < 1e-5 * norm
    moved = np.linalg.norm(case["trained"])
    assert np.linalg.norm(ours.trained - case["trained"]) < 1e-4 * moved


def test_trainer_in_bf16_has_losses_close_to_pytorch(case, tmp_path):
    if "avx512_bf16" not in pathlib.Path("/proc/cpuinfo").read_text():
        pytest.skip("no bf16 on this CPU")
    ours = case["ours"](tmp_path, "bf16")
    assert np.abs(ours.losses - case["losses"]).max() < 0.02
