"""pmi_program.py FOLDER: one rank that speaks PMI-1 as MPICH 5 does, strictly, and nothing else. It
puts its card, reads all others' after a barrier, leaves what it found in FOLDER, and waits in a
second barrier for a file `go`. A file `abort` makes rank 3 give up with code 7, once."""

import os
import pathlib
import socket
import sys
import time

folder = pathlib.Path(sys.argv[1])
host, port = os.environ["PMI_PORT"].rsplit(":", 1)
link = socket.create_connection((host, int(port))).makefile("rw", newline="\n")


def hear(command):
    line = link.readline().rstrip("\n")
    fields = dict(each.split("=", 1) for each in line.split(" "))
    assert fields.pop("cmd") == command, line
    return fields


def ask(line, command):
    link.write(line + "\n")
    link.flush()
    return hear(command) if command else None


assert ask(f"cmd=initack pmiid={os.environ['PMI_ID']}", "initack") == {"rc": "0"}
size, rank = int(hear("set")["size"]), int(hear("set")["rank"])
assert hear("set") == {"debug": "0"}
assert (rank, size) == (int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
assert ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init") == {
    "pmi_version": "1", "pmi_subversion": "1", "rc": "0"}
assert int(ask("cmd=get_maxes", "maxes")["vallen_max"]) >= 1024
assert ask("cmd=get_appnum", "appnum") == {"appnum": "0"}
table = ask("cmd=get_my_kvsname", "my_kvsname")["kvsname"]
mapping = ask(f"cmd=get kvsname={table} key=PMI_process_mapping", "get_result")["value"]
assert ask(f"cmd=get kvsname={table} key=card-{rank}", "get_result")["rc"] == "-1", "an old table"
card = f"{os.environ['LOCKSTEP_GENERATION']}:" + "x" * 200
assert ask(f"cmd=put kvsname={table} key=card-{rank} value={card}", "put_result")["rc"] == "0"
ask("cmd=barrier_in", "barrier_out")
cards = {ask(f"cmd=get kvsname={table} key=card-{each}", "get_result")["value"]
         for each in range(size)}
assert cards == {card}, cards
name = f"{os.environ['LOCKSTEP_GENERATION']}-{rank}"
(folder / f"new-{name}").write_text(mapping)
(folder / f"new-{name}").rename(folder / f"rank-{name}")
while not (folder / "go").exists():
    if rank == 3 and (folder / "abort").exists():
        (folder / "abort").unlink()
        ask("cmd=abort exitcode=7 message=no more of it", None)
        sys.exit(0)  # what its process says then does not count
    time.sleep(0.01)
ask("cmd=barrier_in", "barrier_out")
if not (folder / "no-finalize").exists():
    assert ask("cmd=finalize", "finalize_ack") == {"rc": "0"}
