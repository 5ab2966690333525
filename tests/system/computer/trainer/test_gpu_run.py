"""tests/system/gpu/run, so that it works on the day there is a GPU: here on the fakes, at tiny sizes."""

import json
import os
import pathlib
import subprocess
import tarfile

import pytest
from paths import ROOT
from tls import binary

BUILD = pathlib.Path(binary("lockstep-trainer")).parents[1]
RUN = ROOT / "tests/system/gpu/run"
MIB = 1 << 20


def run(*arguments, **env):
    return subprocess.run([RUN, *map(str, arguments)], capture_output=True, text=True, check=False,
                          timeout=320, env={**os.environ, **env})


def lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    file = tmp_path_factory.mktemp("pack") / "gpu.tar.xz"
    done = run("--pack", file, "--build", BUILD, "--fake")
    assert done.returncode == 0, done.stderr
    return file


@pytest.fixture(scope="module")
def ran(packed):
    """What both halves said, from the pack alone."""
    return {half: run("--half", half, "--build", packed, "--fake") for half in (1, 2)}


def test_the_pack_has_the_programs_and_their_libraries_in_less_than_64_mib(packed):
    with tarfile.open(packed) as archive:
        members = {member.name: member.size for member in archive}
    assert {"bin/lockstep-trainer", "bin/gpu_check", "lib/libtimed.so"} <= set(members)
    assert any(name.startswith("lib/libgloo") for name in members)
    assert not any("libc.so" in name for name in members)
    assert packed.stat().st_size < 64 * MIB and sum(members.values()) < 96 * MIB


@pytest.mark.parametrize("half, steps", [
    (1, ["versions", "start-up again", "products against double precision",
         "kernels against double precision", "copies", "all GPUs at once", "losses on GPU and CPU",
         "checkpoints from GPU to CPU and back", "killed and resumed"]),
    (2, ["speed", "time by kernel", "the same bits twice", "two ranks make the bits of one",
         "two ranks share a model with the bits of one", "new communicators",
         "a job goes on in place", "a rank gets SIGKILL", "a rank gets SIGSTOP"])])
def test_every_step_passes_except_steps_that_need_a_gpu(ran, half, steps):
    found = lines(ran[half].stdout)
    assert ran[half].returncode == 0, ran[half].stdout + ran[half].stderr
    passed = {line["step"] for line in found if line.get("passed") and "step" in line}
    assert set(steps) <= passed
    assert found[-1]["failed"] == []
    assert found[-1]["left_out"] == {1: ["memcheck", "racecheck"], 2: ["torch.compile"]}[half]


def test_surviving_process_makes_new_communicator_after_each_killed_peer(ran):
    rounds = [line for line in lines(ran[2].stdout) if line.get("check") == "again"]
    assert [line["round"] for line in rounds] == [0, 1, 2, 3, 4]
    assert all("rank 1" in line["said"] for line in rounds)


def test_run_reports_step_time_by_kernel_and_matrix_product(ran):
    rows = {line["kernel"]: line for line in lines(ran[2].stdout) if line.get("check") == "time by kernel"}
    assert {"attention_bf16", "adamw_bf16", "product 64 x 192 x 64, bf16"} <= set(rows)
    assert sum(row["share"] for row in rows.values()) == pytest.approx(1)
    # 2 x 32 tokens of 64: the six products of one block's forward pass are counted as they are.
    product = rows["product 64 x 64 x 192, bf16"]
    assert product["calls"] == 1
    assert product["flops"] == 5 * 2 * 64 * 64 * 192


def test_run_names_failed_steps_and_continues_with_other_steps(packed):
    done = run("--half", 1, "--build", packed, "--fake", FAKE_CAPABILITY="75")
    summary = lines(done.stdout)[-1]
    assert done.returncode == 1
    assert "start-up again" in summary["failed"] and "killed and resumed" in summary["failed"]
    assert summary["passed"] >= 2
    why = [line["why"] for line in lines(done.stdout) if line.get("step") == "kernels against double precision"]
    assert "Ampere" in why[0]


def test_run_writes_report_after_mark_of_page_and_rejects_page_without_mark(ran, tmp_path):
    said, page = tmp_path / "lines", tmp_path / "gpu.md"
    said.write_text(ran[1].stdout + ran[2].stdout + '{"step": "cut off')
    page.write_text("# GPUs\n\nHow to.\n\n<!-- report -->\nOld.\n")
    assert run("--page", page, said).returncode == 0
    text = page.read_text()
    assert text.startswith("# GPUs\n\nHow to.\n\n<!-- report -->\n") and "Old" not in text
    assert "say nothing about a GPU" in text
    assert "### Time by kernel" in text and "| attention_bf16 | 1 |" in text
    assert "torch.compile | left out: it needs a GPU" in text
    page.write_text("# No mark\n")
    refused = run("--page", page, said)
    assert refused.returncode == 1 and "has no line <!-- report -->" in refused.stderr
    assert page.read_text() == "# No mark\n"


def test_run_without_gpu_fails_and_names_only_the_gpu(tmp_path):
    (tmp_path / "python3").symlink_to("/usr/bin/python3")
    done = run("--build", BUILD, PATH=f"{tmp_path}")
    assert (done.returncode, lines(done.stdout)[-1]["failed"]) == (1, ["GPU"]), done.stderr
