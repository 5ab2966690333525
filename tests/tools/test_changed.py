"""tools/test --changed: which tests a change can affect, by the build that is there and by folder."""

import os
import pathlib
import subprocess

import pytest
from paths import ROOT
from testing import changed
from tls import binary

BUILD = pathlib.Path(binary("lockstep")).parents[1]
# But for this file, which names what it does not use.
TESTS = [str(each.relative_to(ROOT)) for each in sorted((ROOT / "tests").rglob("test_*.py"))
         if each.name != "test_changed.py"]
PRODUCT = ["lockstep", "lockstep-agent", "lockstep-operator", "lockstep-trainer"]


@pytest.fixture(scope="module")
def graph():
    return changed.BuildGraph(ROOT, BUILD)


@pytest.fixture(scope="module")
def python():
    return changed.PythonFiles(ROOT)


def shipped(graph, path):
    return {name for name in PRODUCT if graph.affected(f"bin/{name}", [path])}


def test_a_source_affects_the_programs_that_are_compiled_from_it(graph):
    assert shipped(graph, "operator/controller/controller.cc") == {"lockstep-operator"}
    assert "lockstep-trainer" not in shipped(graph, "operator/policy/decide.cc")
    assert shipped(graph, "worker/trainer/main.cc") == {"lockstep-trainer"}
    assert shipped(graph, "base/result.h") == set(PRODUCT)
    assert shipped(graph, "docs/reference/cli.md") == set()


def test_a_source_affects_the_links_to_its_program(graph):
    affected = graph.shipped(["cli/commands/ui.cc"])
    assert {"lockstep", "kubectl-lockstep"} <= affected
    assert "lockstep-operator" not in affected


def test_a_source_affects_the_unit_tests_that_are_compiled_from_it(graph):
    programs = {name: f"bin/{name}_test" for name in ("base", "core", "operator", "sim", "agent")}
    affected = changed.programs_affected(ROOT, graph, programs, ["operator/policy/decide.cc"])
    assert affected == {"operator", "sim"}


def test_a_document_affects_the_tests_that_name_it(graph, python):
    affected = python.affected(TESTS, ["docs/guides/migration.md"], set())
    assert affected == ["tests/system/computer/run/test_migration.py", "tests/tools/test_examples.py"]
    programs = {"agent": "bin/agent_test", "base": "bin/base_test"}
    assert changed.programs_affected(ROOT, graph, programs, ["docs/no-such-page.md"]) == set()


def test_a_python_module_affects_the_tests_that_import_it_or_its_importers(python):
    affected = python.affected(TESTS, ["tests/lib/kubelet_writer.py"], set())
    assert "tests/system/api-server/jobs/test_jobs.py" in affected
    assert "tests/system/faults/operator/test_operator.py" in affected
    assert "tests/system/computer/run/test_run.py" not in affected


def test_a_module_of_the_product_affects_the_tests_that_put_its_folder_on_the_path(python):
    affected = python.affected(TESTS, ["worker/python/lockstep.py"], set())
    assert "tests/system/computer/run/test_python_module.py" in affected
    assert "tests/system/api-server/chart/test_chart.py" not in affected


def test_a_changed_program_affects_the_tests_that_start_it(python):
    affected = python.affected(TESTS, [], {"lockstep-trainer"})
    assert "tests/system/computer/trainer/test_trainer.py" in affected
    assert "tests/system/nodes/test_lifecycle.py" in affected
    assert "tests/tools/test_rerun.py" not in affected


def test_data_in_a_folder_affects_its_tests_and_a_test_only_itself(python):
    chart = "tests/system/api-server/chart"
    golden = python.affected(TESTS, [f"{chart}/golden/all.yaml"], set())
    assert f"{chart}/test_chart.py" in golden and f"{chart}/test_rbac.py" in golden
    assert python.affected(TESTS, [f"{chart}/test_rbac.py"], set()) == [f"{chart}/test_rbac.py"]


def test_an_embedded_file_a_fake_library_and_a_seed_affect_their_tests(graph, python, tmp_path):
    assert "worker/agent/agent.cc" in changed.EMBEDDED.values()
    assert "lockstep-agent" in shipped(graph, "worker/agent/agent.cc")
    library = graph.sources("fake_nccl/libcuda.so.1")
    assert "tests/fakes/fake_nccl/fake_cuda.cc" in library
    affected = python.affected(TESTS, [], {"libcuda.so.1"})
    assert "tests/system/computer/trainer/test_trainer_gpu.py" in affected
    programs = {"yaml_fuzz": "bin/base_test", "frame_fuzz": "bin/base_test"}
    seed = ["tests/fuzz/corpus/yaml/plain"]
    assert changed.programs_affected(ROOT, graph, programs, seed) == {"yaml_fuzz"}


def test_the_runner_the_build_and_the_dependencies_affect_everything():
    for path in ("tools/deps", "cmake/Lockstep.cmake", "CMakeLists.txt", "tests/sim/CMakeLists.txt",
                 "tools/lib/testing/main.py"):
        assert changed.affects_everything(path)
    assert not changed.affects_everything("docs/reference/cli.md")


def test_committed_edited_and_new_files_since_the_base_are_changed(tmp_path):
    def git(*words):
        subprocess.run(["git", "-C", tmp_path, "-c", "user.name=t", "-c", "user.email=t@example.com",
                        *words], check=True, capture_output=True, env={**os.environ, "HOME": str(tmp_path)})

    git("init", "-q")
    for name in ("kept", "edited", "removed"):
        (tmp_path / name).write_text(name)
    git("add", "-A")
    git("commit", "-q", "-m", "base")
    git("tag", "base")
    (tmp_path / "committed").write_text("new")
    git("add", "-A")
    git("commit", "-q", "-m", "more")
    (tmp_path / "edited").write_text("otherwise")
    (tmp_path / "removed").unlink()
    (tmp_path / "added").write_text("new")
    assert changed.changed_files(tmp_path, "base") == ["added", "committed", "edited", "removed"]
