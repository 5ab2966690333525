"""tools/lib/testing/cost.py: what each part of a run of tools/test costs."""

import subprocess
import sys
import time

from paths import ROOT

sys.path.insert(0, str(ROOT / "tools/lib/testing"))

from cost import Cost, Meter, table

BUSY = "import time\nwhile time.process_time() < 0.7: pass"
WITH_A_BUSY_CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BUSY!r}])"


def test_a_meter_counts_the_processor_time_of_children_and_of_their_children():
    costs = []
    with Meter("part", costs):
        subprocess.run([sys.executable, "-c", WITH_A_BUSY_CHILD], check=True)
    [cost] = costs
    assert cost.cpu >= 0.7 and cost.seconds >= 0.7 and 0 <= cost.idle <= 1


def test_a_meter_counts_no_processor_time_while_nothing_runs():
    costs = []
    with Meter("wait", costs):
        time.sleep(0.01)
    assert costs[0].cpu == 0 and costs[0].seconds >= 0.01


def test_the_table_has_a_line_for_each_part_in_the_order_of_their_starts():
    lines = table([Cost("all", 0, 100, 150, 0.25), Cost("late", 50, 50, 60, 0.5),
                   Cost("early", 0, 50, 80, 0), Cost("nothing to build", 50, 0.1, 0.1, 0)])
    assert [line.split()[-1] for line in lines[1:]] == ["all", "early", "late"]
    assert lines[1].split() == ["0", "100.0", "150.0", "25%", "all"]
