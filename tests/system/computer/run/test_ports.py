"""What workers of TensorFlow are told of each other: addresses, and ports that are free."""

import json
import os
import pathlib
import signal
import sys

from run import Run
from waiting import wait_until

PROGRAM = pathlib.Path(__file__).parent / "tf_config.py"


def told(folder, generation):
    """Every worker's endpoint, of which all have been told the same."""
    left = [json.loads((folder / f"{generation}.{rank}").read_text()) for rank in range(4)]
    assert all(each["cluster"] == left[0]["cluster"] for each in left), left
    return left[0]["cluster"]["worker"]


def wait_told(folder, generation):
    wait_until(lambda: len(list(folder.glob(f"{generation}.?"))) == 4, "workers to meet", 60)
    return told(folder, generation)


def test_workers_on_one_computer_get_distinct_ports_and_new_ports_after_restart(tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    held = os.open(gate, os.O_RDWR)
    run = Run(tmp_path, "-m", "2", "-p", "2", "--framework", "TensorFlow", "--", sys.executable,
              str(PROGRAM), str(tmp_path), "0.0.0.0")
    first = run.wait_ranks(4)
    before = wait_told(tmp_path, first[0][1])
    ports = [int(each.rsplit(":", 1)[1]) for each in before]
    assert ports == list(range(ports[0], ports[0] + 4)), "each its own, of all the computer"
    os.kill(first[3][0], signal.SIGKILL)
    again = run.wait_ranks(4, but_not_in=first[3][1])
    after = wait_told(tmp_path, again[0][1])
    assert not set(before) & set(after)
    hosts = [each.rsplit(":", 1)[0] for each in before]
    assert [each.rsplit(":", 1)[0] for each in after] == hosts
    (tmp_path / "open").touch()
    (tmp_path / "open").rename(gate)  # in one step, for a worker may be about to open it
    os.close(held)
    code, report, output = run.finish()
    assert code == 0, output
    assert len(report["generations"]) == 2, report


def test_machines_on_separate_computers_use_the_same_worker_ports(gang, tmp_path):
    made = gang(machines=2, processes=2, framework="TensorFlow",
                command=[sys.executable, str(PROGRAM), str(tmp_path)])
    made.start()
    assert made.verdict(60)["exitCode"] == 0
    workers = told(tmp_path, "1-1")
    hosts, ports = zip(*(each.rsplit(":", 1) for each in workers), strict=True)
    assert list(hosts) == [made.address(0)] * 2 + [made.address(1)] * 2
    assert ports[:2] == ports[2:] and int(ports[1]) == int(ports[0]) + 1
