"""tools/lib/cluster/up and down: a real control plane that comes and goes without a trace."""

import concurrent.futures
import os
import signal
import subprocess
import sys

import processes
from cluster import SCRIPTS, Cluster
from kubernetes.client import CoreV1Api
from waiting import wait_until

PATIENCE = 180


def up(folder, *options):
    return subprocess.run([SCRIPTS / "up", "--dir", folder, *options], capture_output=True,
                          text=True)


def down(folder):
    return subprocess.run([SCRIPTS / "down", "--dir", folder], capture_output=True, text=True)


def of_cluster(folder):
    return processes.with_variable("LOCKSTEP_TEST_CLUSTER", str(folder))


def test_two_clusters_are_isolated_and_leave_nothing_behind(tmp_path):
    folders = [tmp_path / "one", tmp_path / "two"]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for done in pool.map(up, folders):
            assert done.returncode == 0, done.stderr
    apis = [CoreV1Api(Cluster(folder).client()) for folder in folders]
    apis[0].create_namespace({"metadata": {"name": "only-in-one"}})
    names = [{each.metadata.name for each in api.list_namespace().items} for api in apis]
    assert "only-in-one" in names[0] - names[1]

    assert down(folders[0]).returncode == 0
    assert of_cluster(folders[1]) and apis[1].list_namespace().items

    assert down(folders[1]).returncode == 0
    for folder in folders:
        assert not of_cluster(folder) and not folder.exists()


HOLDS = """
import sys, time
sys.path.insert(0, sys.argv[1])
from cluster import cluster_in
with cluster_in(sys.argv[2]):
    print("up", flush=True)
    time.sleep(600)
"""


def test_cluster_of_a_program_that_is_stopped_goes_with_it(tmp_path):
    folder = tmp_path / "cluster"
    with subprocess.Popen([sys.executable, "-c", HOLDS, SCRIPTS, folder], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True) as program:
        assert program.stdout.readline() == "up\n" and of_cluster(folder)
        program.terminate()
    assert program.returncode == 128 + signal.SIGTERM
    assert not of_cluster(folder) and not folder.exists()


def test_pod_runs_on_fake_node_and_its_namespace_can_be_deleted(cluster):
    api = CoreV1Api(cluster.client())
    with cluster.namespace() as namespace:
        api.create_namespaced_pod(namespace, {
            "metadata": {"name": "pod"}, "spec": {"containers": [{"name": "c", "image": "none"}]}})
        wait_until(lambda: api.read_namespaced_pod("pod", namespace).status.phase == "Running",
                   "the pod to run", PATIENCE)
    wait_until(lambda: namespace not in [each.metadata.name for each in api.list_namespace().items],
               "the namespace to go", PATIENCE)


def test_kubectl_and_helm_reach_the_cluster(cluster):
    assert "Server Version: v1.36." in cluster.kubectl("version")
    assert cluster.helm("list", "--short") == ""


def test_up_rejects_folder_of_running_cluster(cluster):
    done = up(cluster.folder)
    assert done.returncode != 0 and "take it down first" in done.stderr


def test_up_and_down_leave_folder_with_foreign_files_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    assert "holds what is no cluster's" in up(tmp_path).stderr
    assert down(tmp_path).returncode == 0
    assert (tmp_path / "thesis.tex").read_text() == "mine"


def test_down_ends_programs_that_a_killed_up_started(tmp_path):
    folder = tmp_path / "cluster"
    starting = subprocess.Popen([SCRIPTS / "up", "--dir", folder], stderr=subprocess.DEVNULL)
    wait_until(lambda: of_cluster(folder), "its first program", PATIENCE)
    os.kill(starting.pid, signal.SIGKILL)
    starting.wait()
    assert down(folder).returncode == 0
    assert not of_cluster(folder) and not folder.exists()
