"""tools/lib/include_direction.py: folders include only those above them."""

import subprocess
import sys

import pytest
from paths import ROOT

SCRIPT = ROOT / "tools/lib/include_direction.py"


def check(tmp_path, path, included):
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.write_text(f'// A file.\n#include <vector>\n#include "{included}"\n')
    run = subprocess.run(
        [sys.executable, SCRIPT, path], cwd=tmp_path, capture_output=True, text=True
    )
    return run.returncode, run.stdout


@pytest.mark.parametrize(
    "path, included",
    [
        ("core/plan/plan.cc", "base/result.h"),
        ("core/plan/plan.cc", "core/failure/failure.h"),
        ("worker/agent/agent.cc", "worker/topology/topology.h"),
        ("operator/controller/controller.cc", "operator/kube/watch/watch.h"),
        ("operator/controller/controller.cc", "operator/gang/gang_link.h"),
        ("cli/job/plan_text.cc", "worker/topology/topology.h"),
        ("worker/trainer/run/rank_run.cc", "worker/trainer/engine/engine.h"),
        ("worker/trainer/main.cc", "worker/trainer/commands/commands.h"),
        ("worker/trainer/run/setup.cc", "worker/trainer/collectives/group/connect.h"),
        ("cli/run/local_operator.cc", "operator/gang/gang_link.h"),
        ("tests/sim/sim_test.cc", "worker/agent/agent.h"),
        ("tests/sim/sim_test.cc", "tests/sim/network.h"),
        ("bench/main.cc", "worker/agent/agent.h"),
    ],
)
def test_includes_that_point_upwards_pass(tmp_path, path, included):
    assert check(tmp_path, path, included) == (0, "")


@pytest.mark.parametrize(
    "path, included",
    [
        ("base/time.cc", "core/model/spec.h"),
        ("core/plan/plan.cc", "worker/agent/agent.h"),
        ("worker/topology/binding/apply.cc", "worker/agent/processes/guard.h"),
        ("worker/agent/agent.cc", "operator/kube/watch/watch.h"),
        ("operator/policy/decide.cc", "worker/topology/topology.h"),
        ("operator/policy/decide.cc", "operator/kube/views.h"),
        ("operator/gang/gang_link.cc", "operator/kube/watch/watch.h"),
        ("cli/run/output/table.cc", "worker/agent/agent.h"),
        ("worker/trainer/engine/mesh.cc", "worker/trainer/run/setup.h"),
        ("worker/trainer/collectives/gloo/gloo.cc", "worker/trainer/collectives/nccl/nccl_comm.h"),
        ("worker/agent/logs/log_files.h", "worker/agent/ranks/local_ranks.h"),
        ("base/text/ascii.h", "base/net/connection.h"),
        ("worker/ras/nccl_ras.cc", "worker/trainer/collectives/collectives.h"),
        ("core/failure/failure.cc", "core/terms/members.h"),
        ("core/status/status.cc", "core/gang/protocol/messages.h"),
        ("core/failure/failure.cc", "core/model/spec.h"),
        ("core/plan/plan.cc", "tests/sim/network.h"),
        ("core/plan/plan.cc", "bench/helper.h"),
        ("core/plan/plan.cc", "plan.h"),
    ],
)
def test_check_names_file_and_line_of_include_in_wrong_direction(tmp_path, path, included):
    code, output = check(tmp_path, path, included)
    assert code == 1
    assert output.startswith(f"{path}:3: ")


def test_a_folder_without_a_floor_is_a_problem(tmp_path):
    code, output = check(tmp_path, "cli/attic/old.cc", "base/result.h")
    assert code == 1
    assert output.startswith("cli/attic/old.cc:1: attic has no place in cli")
