"""A home-made collective over sockets: which rank is named when one fails, and what is shown of it."""

import re

import pytest
from run import Run

# Rank 2 fails, cleans up for a while after its last words, and its peers, which find their
# connections ended, are gone before it.
PROGRAM = """
import atexit, os, socket, sys, time

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
where = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if rank == 0:
    server = socket.create_server(where)
    peers = [server.accept()[0] for _ in range(size - 1)]
else:
    while True:
        try:
            peers = [socket.create_connection(where)]
            break
        except ConnectionRefusedError:
            time.sleep(0.01)


def allreduce():
    for peer in peers:
        peer.sendall(b"x")
    for peer in peers:
        if peer.recv(1) == b"":
            raise {error}


allreduce()
if rank == 2:
    hook = sys.excepthook

    def hook_and_leave(*failure):
        hook(*failure)
        sys.stderr.flush()
        peers[0].close()
        time.sleep(0.15)

    sys.excepthook = hook_and_leave
    raise ValueError("bad shard")
allreduce()
"""


@pytest.mark.parametrize("error", ["RuntimeError('the ring is broken')", "ConnectionResetError()"])
def test_rank_that_failed_first_is_named_though_its_peers_are_gone_before_it(tmp_path, error):
    program = tmp_path / "ring.py"
    program.write_text(PROGRAM.replace("{error}", error))
    run = Run(tmp_path, "-p", "4", "--max-restarts", "0", "--", "python3", str(program))
    code, report, output = run.finish()
    failure = report["lastFailure"]
    assert code == 1 and failure["rank"] == 2, output
    assert failure["stderr"].endswith("ValueError: bad shard")
    # Its last lines stand below everything else, once more.
    assert output.rstrip().endswith("| ValueError: bad shard"), output
    assert "last words of the root cause, rank 2 on machine 0:" in output
    if error.startswith("Connection"):
        folded = re.findall(r"r(\d)\] lost a peer: ConnectionResetError.* \(\d+ lines are folded here\)", output)
        assert folded and "2" not in folded and output.count("Traceback") == 2, output
