"""ray_cluster.py PROGRAM [ARGUMENT...]: runs PROGRAM on a Ray cluster of all machines of the job.

    lockstep run examples/ray.yaml

Machine 0 starts Ray's head, waits until all nodes have joined and runs PROGRAM. The job ends with
PROGRAM (`successPolicy: Machine0`). The other machines are nodes until they are stopped. If PROGRAM
fails or the processes of a node die, the gang restarts with a new cluster.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import ray

RAY = shutil.which("ray", path=os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"])


def wait_until(true, what, patience=120):
    deadline = time.monotonic() + patience
    while not true():
        if time.monotonic() > deadline:
            sys.exit(f"waited {patience} s for {what}")
        time.sleep(0.2)


def listens(host, port):
    try:
        socket.create_connection((host, port), 1).close()
    except OSError:
        return False
    return True


def main() -> None:
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    head = f"{host}:{port}"
    cpus = os.environ.get("CPUS", str(len(os.sched_getaffinity(0))))
    if os.environ["NODE_RANK"] != "0":
        # Without this a stopped node would ask the head for 30 s, although the head has ended.
        os.environ.setdefault("RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S", "0")
        wait_until(lambda: listens(host, port), f"Ray's head on {head}")
        os.execv(RAY, [RAY, "start", "--address", head, "--num-cpus", cpus, "--block"])

    # A socket's path has at most 107 bytes. Ray's own part takes 63.
    folder = tempfile.gettempdir()
    folder = folder if len(folder) <= 44 else "/tmp/ray"
    subprocess.run([RAY, "start", "--head", "--node-ip-address", host, "--port", str(port),
                    "--num-cpus", cpus, "--include-dashboard=false", "--temp-dir", folder],
                   check=True)
    os.environ["RAY_ADDRESS"] = head  # ray.init() reads it
    ray.init(log_to_driver=False)
    machines = int(os.environ["PET_NNODES"])
    wait_until(lambda: sum(node["Alive"] for node in ray.nodes()) == machines,
               f"{machines} nodes of Ray")
    ray.shutdown()
    sys.exit(subprocess.run([sys.executable, *sys.argv[1:]], check=False).returncode)


if __name__ == "__main__":
    main()
