"""A cluster comes up and goes, with everything of it in one folder:

    kubeconfig    cluster-admin by bearer token
    bin/          kubectl, helm
    log/          one file a program
    nodes/NODE/   what is /var on that node: images, containers, their logs
    audit.log     if asked for: every request, who sent it and the answer's code, one JSON a line
    cluster.json  what runs, so that a program can be started again
"""

import concurrent.futures
import os
import pathlib
import shutil
import time

import cgroups
import images
import network
import node
import parts
import programs
from control_plane import NOWHERE, ControlPlane
from network import Network
from programs import ClusterError, Programs


def bring_up(folder, say, nodes=0, fake_nodes=0, fake_pods=NOWHERE, audit=False, gangs=None):
    folder = pathlib.Path(folder).resolve()
    if nodes and os.geteuid() != 0:
        raise ClusterError("nodes are network namespaces: run this as root")
    _make_room(folder)
    groups = ["control-plane", *(["node", "containers", "coredns"] if nodes else [])]
    bins = {group: parts.build(group, say) for group in groups}
    started = time.monotonic()
    try:
        _bring_up(folder, bins, nodes, fake_nodes, fake_pods, audit, gangs)
    except BaseException:
        _stop(folder)
        raise
    say(f"up in {time.monotonic() - started:.1f} s; KUBECONFIG={folder}/kubeconfig")


def take_down(folder):
    """Afterwards nothing is left of it: no process, mount, network, cgroup, file."""
    folder = pathlib.Path(folder).resolve()
    _stop(folder)
    if (folder / "cluster.json").exists():
        shutil.rmtree(folder)


def restart(folder, program):
    """Kills one of the control plane's and starts it again as it was; the API server answers on
    return."""
    stop(folder, program)
    start(folder, program)


def stop(folder, program):
    programs.stop(pathlib.Path(folder).resolve(), program)


def start(folder, program):
    cluster = Programs(pathlib.Path(folder).resolve())
    cluster.load()
    cluster.start_again(program)
    ControlPlane(cluster).wait_until_served()


def nodes_of(folder):
    """The real nodes of a cluster that is up, in order."""
    cluster = Programs(pathlib.Path(folder).resolve())
    cluster.load()
    return node.all_of(cluster)


def load(folder, archives):
    """Images of docker-archives, for the containers of every node."""
    nodes = nodes_of(folder)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for archive in archives:
            list(pool.map(lambda each: each.load(archive), nodes))


def _bring_up(folder, bins, node_count, fake_node_count, fake_pods, audit, gangs):
    cluster = Programs(folder)
    control = bins["control-plane"]
    (folder / "bin").mkdir(parents=True)
    cluster.save()  # from here on the folder is ours to remove
    for name in ("kubectl", "helm"):
        (folder / "bin" / name).symlink_to(control / name)
    plane = ControlPlane(cluster)
    # First, for by this process a network is known to be in use.
    plane.start_etcd(control)
    nodes = _lay_out(cluster, node_count, bins) if node_count else []
    address = cluster.state.get("address", "127.0.0.1")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        booting = pool.map(node.Node.boot, nodes)
        plane.start_api_server(control, address, audit, gangs)
        plane.start_controllers(control, gangs)
        list(booting)
    for each in nodes:
        each.join()
    if nodes:
        plane.start_dns(bins["coredns"], address)
    if fake_node_count:
        plane.start_fake_nodes(control, fake_node_count, fake_pods)
    plane.wait_for_controllers()
    plane.wait_for_nodes([each.name for each in nodes])


def _lay_out(cluster, count, bins):
    """A network, and the nodes on it, without power as yet."""
    _remove_leftovers()
    net = Network.claim(cluster.folder)
    images.write_busybox(cluster.folder / "busybox.tar")
    cluster.state |= {"network": net.number, "address": net.address, "nodes": count,
                      "bins": {group: str(path) for group, path in bins.items()}}
    cluster.save()
    return node.all_of(cluster)


def _make_room(folder):
    if programs.running(folder):
        raise ClusterError(f"a cluster is up in {folder}; take it down first")
    _stop(folder)
    if (folder / "cluster.json").exists():
        shutil.rmtree(folder)
    elif folder.exists() and any(folder.iterdir()):
        raise ClusterError(f"{folder} holds what is no cluster's; name another folder")


def _stop(folder):
    node.stop_all(folder)
    programs.stop(folder)
    if network.exists(folder):
        network.remove(folder)
        cgroups.remove(network.name_for(folder))


def _remove_leftovers():
    """Networks of folders where nothing runs any more: what started them was killed."""
    for folder in network.unplugged():
        if not programs.running(folder):
            _stop(pathlib.Path(folder))
