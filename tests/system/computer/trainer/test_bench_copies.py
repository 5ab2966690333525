"""`lockstep-trainer bench copies`, on the fake of the driver: how fast it is can't be seen there."""

import json
import os
import pathlib
import subprocess

from tls import binary

FAKES = pathlib.Path(binary("lockstep-trainer")).parents[1] / "fake_nccl"
NODES = [int(path.name[4:]) for path in pathlib.Path("/sys/devices/system/node").glob("node[0-9]*")]


def copies(*options, **env):
    return subprocess.run([binary("lockstep-trainer"), "bench", "copies", "-b", "1M", "-n", "3", *options],
                          capture_output=True, text=True, check=False, timeout=60,
                          env={**os.environ, "LD_LIBRARY_PATH": str(FAKES), "FAKE_GPUS": "2", **env})


def test_benchmark_measures_each_gpu_with_each_numa_node_in_both_directions():
    done = copies("--json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr
    assert [(row["gpu"], row["memory_node"]) for row in rows] == [(g, n) for g in (0, 1) for n in sorted(NODES)]
    assert {row["pci_address"] for row in rows} == {"0000:f0:00.0", "0000:f1:00.0"}
    for row in rows:
        assert row["to_gpu"] > 0 and row["from_gpu"] > 0
        assert row["placed"] == 1 and row["gpu_node"] is None
        assert (row["bytes"], row["iterations"]) == (1 << 20, 3)


def test_table_names_its_units_and_has_a_row_for_each_gpu_and_node():
    head, names, *rows = copies().stdout.splitlines()
    assert "1048576 bytes a copy, median of 3, in GB/s" in head
    assert names.split() == "GPU NAME ADDRESS ITS NODE MEMORY ON TO GPU FROM GPU PLACED".split()
    assert len(rows) == 2 * len(NODES) and all(row.endswith("100 %") for row in rows)


def test_benchmark_reports_missing_driver_gpu_or_gpu_memory_in_one_line():
    for env, said in (({"LD_LIBRARY_PATH": ""}, "no NVIDIA driver here"),
                      ({"FAKE_GPUS": "0"}, "shows no GPU"),
                      ({"FAKE_MEMORY": "1000"}, "CUDA_ERROR_OUT_OF_MEMORY")):
        done = copies(**env)
        assert done.returncode == 2 and done.stdout == "", done
        assert said in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
