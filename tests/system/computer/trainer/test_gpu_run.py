"""tests/system/gpu/run, so that it works on the day there is a GPU: here on the fakes, at tiny sizes."""

import json
import os
import pathlib
import re
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
                          timeout=900, env={**os.environ, **env})


def lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    file = tmp_path_factory.mktemp("pack") / "gpu.tar.gz"
    done = run("--pack", file, "--build", BUILD, "--fake")
    assert done.returncode == 0, done.stderr
    return file


@pytest.fixture(scope="module")
def ran(packed):
    """What it said, from the pack alone."""
    return run("--build", packed, "--fake")


def test_the_pack_has_the_programs_and_their_libraries_in_less_than_64_mib(packed):
    with tarfile.open(packed) as archive:
        members = {member.name: member.size for member in archive}
    assert {"bin/lockstep-trainer", "bin/gpu_check", "lib/libtimed.so"} <= set(members)
    assert any(name.startswith("lib/libgloo") for name in members)
    assert not any("libc.so" in name for name in members)
    assert packed.stat().st_size < 64 * MIB and sum(members.values()) < 96 * MIB


def test_every_step_passes_except_steps_that_need_a_gpu(ran):
    found = lines(ran.stdout)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    passed = {line["step"] for line in found if line.get("passed") and "step" in line}
    assert {"start-up", "kernels against double precision", "speed", "the same bits twice", "time by kernel",
            "losses on GPU and CPU", "two ranks make the bits of one", "a job goes on in place",
            "new communicators", "a rank gets SIGKILL", "a rank gets SIGSTOP", "killed and resumed",
            "two ranks share a model with the bits of one", "all GPUs at once"} <= passed
    assert found[-1]["failed"] == []
    assert found[-1]["left_out"] == [
        "torch.compile", "ncu", "memcheck", "racecheck", "initcheck of training",
        "values, a rank on each GPU", "bench, a rank on each GPU"]


def test_libraries_are_found_where_driver_and_pytorch_put_them(ran):
    machine = next(line for line in lines(ran.stdout) if line.get("step") == "machine")
    assert "/nvidia/nccl/lib/" in machine["libnccl.so.2"]
    assert "/nvidia/cu13/lib/" in machine["libcublasLt.so.13"]
    assert re.search(r"/machine/driver(:|$)", machine["LD_LIBRARY_PATH"])


def test_surviving_process_makes_new_communicator_after_each_killed_peer(ran):
    rounds = [line for line in lines(ran.stdout) if line.get("check") == "again"]
    assert [line["round"] for line in rounds] == [0, 1, 2, 3, 4]
    assert all("rank 1" in line["said"] for line in rounds)


def test_run_reports_step_time_by_kernel_and_matrix_product(ran):
    rows = {line["kernel"]: line for line in lines(ran.stdout) if line.get("check") == "time by kernel"}
    assert {"attention_bf16", "adamw_bf16", "product 64 x 192 x 64, bf16"} <= set(rows)
    assert sum(row["share"] for row in rows.values()) == pytest.approx(1)
    # 2 x 32 tokens of 64: a product of one block's forward pass is made once a step.
    product = rows["product 64 x 64 x 192, bf16"]
    assert product["calls"] == 1
    assert product["flops"] == 2 * 64 * 64 * 192


def test_run_names_failed_steps_and_continues_with_other_steps(packed):
    done = run("--build", packed, "--fake", "--only", "^(machine|start-up|kernels .*|speed)$", FAKE_CAPABILITY="75")
    summary = lines(done.stdout)[-1]
    assert done.returncode == 1
    assert summary["failed"] == ["start-up", "kernels against double precision", "speed"]
    assert summary["passed"] == 1
    why = [line["why"] for line in lines(done.stdout) if line.get("step") == "kernels against double precision"]
    assert "Ampere" in why[0]


def test_run_writes_report_after_mark_of_page_and_rejects_page_without_mark(ran, tmp_path):
    said, page = tmp_path / "lines", tmp_path / "gpu.md"
    said.write_text(ran.stdout + '{"step": "cut off')
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


def test_steps_that_no_longer_fit_into_the_call_are_left_out():
    done = run("--build", BUILD, "--fake", "--seconds", "3", "--only", "^(machine|start-up)$")
    assert done.returncode == 0, done.stdout + done.stderr
    assert lines(done.stdout)[-1]["left_out"] == ["machine", "start-up"]
    assert "the 3 s of this call are over" in done.stdout


def test_run_without_gpu_fails_and_names_only_the_gpu(tmp_path):
    (tmp_path / "python3").symlink_to("/usr/bin/python3")
    done = run("--build", BUILD, PATH=f"{tmp_path}")
    assert (done.returncode, lines(done.stdout)[-1]["failed"]) == (1, ["GPU"]), done.stderr
