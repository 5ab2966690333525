"""What the trainer leaves behind, read by the programs it is meant for, and the other way round."""

import hashlib
import os
import pathlib
import subprocess

import pytest
from paths import ROOT

BIN = pathlib.Path(os.environ.get("LOCKSTEP_BIN", ROOT / "build/release/bin"))
os.environ["HF_HUB_OFFLINE"] = "1"
# In the order of the trainer's flat array.
BLOCK = ["ln_1.weight", "ln_1.bias", "attn.c_attn.weight", "attn.c_attn.bias", "attn.c_proj.weight",
         "attn.c_proj.bias", "ln_2.weight", "ln_2.bias", "mlp.c_fc.weight", "mlp.c_fc.bias",
         "mlp.c_proj.weight", "mlp.c_proj.bias"]
TEXTS = ["plain text", "  blanks\tand\r\nlines\n", "Grüße, мир, 世界 🙂", "Ā is byte 0's character",
         "".join(map(chr, range(1, 0x250))), "<|endoftext|>"]


def files(*arguments):
    done = subprocess.run([BIN / "lockstep-trainer-files", *map(str, arguments)],
                          capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def names(layers):
    blocks = [f"transformer.h.{layer}.{name}" for layer in range(layers) for name in BLOCK]
    ends = ["transformer.ln_f.weight", "transformer.ln_f.bias"]
    return ["transformer.wte.weight", "transformer.wpe.weight", *blocks, *ends]


def digest(state, layers):
    """SHA-256 of the model's parameters as the trainer arranges them."""
    total = hashlib.sha256()
    for name in names(layers):
        total.update(state[name].float().contiguous().numpy().tobytes())
    return total.hexdigest()


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trainer") / "step-10"
    files("checkpoint", folder, 2, 2, 32, 256, 64)
    return folder


@pytest.fixture(scope="module")
def pipeline(checkpoint):
    transformers = pytest.importorskip("transformers")
    return transformers.pipeline("text-generation", str(checkpoint))


def test_safetensors_reads_model_and_optimizer(checkpoint):
    from safetensors import safe_open

    with safe_open(checkpoint / "model.safetensors", framework="np") as model:
        assert model.metadata() == {"format": "pt"}
        assert sorted(model.keys()) == sorted(names(2))
        assert model.get_tensor("transformer.h.1.attn.c_attn.weight").shape == (32, 96)
        assert abs(model.get_tensor("transformer.wte.weight").std() - 0.2) < 0.01
    with safe_open(checkpoint / "optimizer.safetensors", framework="np") as optimizer:
        moments = [f"{moment}.{name}" for moment in ("exp_avg", "exp_avg_sq") for name in names(2)]
        assert sorted(optimizer.keys()) == sorted(moments)


def test_transformers_loads_every_parameter(checkpoint):
    transformers = pytest.importorskip("transformers")
    model, info = transformers.GPT2LMHeadModel.from_pretrained(checkpoint, output_loading_info=True)
    assert {key: value for key, value in info.items() if value} == {}
    assert digest(model.state_dict(), 2) == files("model", checkpoint)[5]
    assert model.lm_head.weight is model.transformer.wte.weight


def test_tokenizer_maps_text_to_its_bytes_and_back(pipeline):
    for text in TEXTS:
        tokens = pipeline.tokenizer(text)["input_ids"]
        assert tokens == list(text.encode())
        assert pipeline.tokenizer.decode(tokens) == text
    assert pipeline.tokenizer.decode(list(range(1, 256))).startswith("\x01\x02")
    assert len(pipeline.tokenizer) == 256


def test_transformers_pipeline_continues_prompts(pipeline):
    import torch

    torch.manual_seed(0)
    greedy = pipeline("To be", do_sample=False)[0]["generated_text"]
    assert greedy.startswith("To be") and len(greedy) > len("To be")
    for result in pipeline("日本", max_new_tokens=8, do_sample=True, num_return_sequences=3):
        assert result["generated_text"].startswith("日本")


def test_trainer_reads_model_saved_by_transformers(checkpoint, tmp_path):
    transformers = pytest.importorskip("transformers")
    model = transformers.GPT2LMHeadModel.from_pretrained(checkpoint)
    model.save_pretrained(tmp_path / "head")
    model.transformer.save_pretrained(tmp_path / "body")
    expected = ["2", "2", "32", "256", "64", digest(model.state_dict(), 2)]
    assert files("model", tmp_path / "head") == expected
    assert files("model", tmp_path / "body") == expected


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_trainer_widens_half_precision_model_to_fp32(checkpoint, tmp_path, dtype):
    import torch

    transformers = pytest.importorskip("transformers")
    model = transformers.GPT2LMHeadModel.from_pretrained(checkpoint).to(getattr(torch, dtype))
    model.save_pretrained(tmp_path)
    assert files("model", tmp_path)[5] == digest(model.state_dict(), 2)


def test_checkpoint_with_gpt2_vocabulary_has_config_but_no_tokenizer(tmp_path):
    transformers = pytest.importorskip("transformers")
    files("checkpoint", tmp_path / "gpt2", 1, 2, 8, 50257, 32)
    config = transformers.GPT2Config.from_pretrained(tmp_path / "gpt2")
    assert (config.n_layer, config.n_head, config.n_embd) == (1, 2, 8)
    assert (config.vocab_size, config.n_positions, config.eos_token_id) == (50257, 32, 50256)
    assert not (tmp_path / "gpt2" / "tokenizer.json").exists()


def scalars(folder, tag="train/loss"):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    return [(event.step, event.value) for event in events.Scalars(tag)]


def test_tensorboard_reads_every_reported_step(tmp_path):
    files("events", tmp_path, 1, 300, 1000)
    assert scalars(tmp_path) == [(step, 1000 + step) for step in range(1, 301)]
    assert scalars(tmp_path, "train/lr")[0] == (1, 0.25)


def test_tensorboard_drops_old_steps_after_the_resume_point(tmp_path):
    files("events", tmp_path, 1, 50, 0)
    files("events", tmp_path, 31, 10, 100)  # within the same second, from the checkpoint of step 30
    files("events", tmp_path, 36, 5, 200)
    expected = [(step, step) for step in range(1, 31)]
    expected += [(step, 100 + step) for step in range(31, 36)]
    assert scalars(tmp_path) == expected + [(step, 200 + step) for step in range(36, 41)]


def test_tensorboard_ignores_record_cut_by_a_crash(tmp_path):
    files("events", tmp_path, 1, 20, 0)
    [path] = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-7])
    files("events", tmp_path, 20, 5, 100)
    expected = [(step, step) for step in range(1, 20)]
    assert scalars(tmp_path) == expected + [(step, 100 + step) for step in range(20, 25)]
