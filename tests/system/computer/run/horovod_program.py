"""horovod_program.py FOLDER: one rank that speaks to Horovod's rendezvous as its Gloo controller
does: in each of its three scopes it puts its own addresses, waits for the others' and says that it
is done; twice, as a program that shuts Horovod down and begins again. Then it waits for `go`."""

import http.client
import os
import pathlib
import sys
import time

folder = pathlib.Path(sys.argv[1])
mine = {name.removeprefix("HOROVOD_").lower(): value for name, value in os.environ.items()
        if name.startswith("HOROVOD_")}
assert (mine["controller"], mine["cpu_operations"]) == ("gloo", "gloo")
rank, size = int(mine["rank"]), int(mine["size"])
assert (rank, size) == (int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
generation = os.environ["LOCKSTEP_GENERATION"]


def ask(method, path, body=None):
    # Its client makes a connection for each request.
    link = http.client.HTTPConnection(mine["gloo_rendezvous_addr"],
                                      int(mine["gloo_rendezvous_port"]))
    link.request(method, path, body)
    answer = link.getresponse()
    return answer.status, answer.read()


for turn in range(2):
    for scope, member, members in (
            ("global", rank, size),
            (f"local_{mine['hostname']}", int(mine["local_rank"]), int(mine["local_size"])),
            (f"cross_{mine['local_rank']}", int(mine["cross_rank"]), int(mine["cross_size"]))):
        card = f"{generation} {turn} {scope}".encode() + b"\0\xff"
        assert ask("PUT", f"/{scope}/{member}", card)[0] == 200
        for other in range(members):
            while (answer := ask("GET", f"/{scope}/{other}"))[0] == 404:
                time.sleep(0.01)
            assert answer == (200, card), (answer, card)
        ask("PUT", f"/{scope}/ready-{member}", b"x")
        for other in range(members):
            while ask("GET", f"/{scope}/ready-{other}")[0] == 404:
                time.sleep(0.01)
        # Whoever is last empties it; nobody begins the next turn before.
        assert ask("DELETE", f"/{scope}/{member}")[0] == 200
        while ask("GET", f"/{scope}/{member}")[0] == 200:
            time.sleep(0.01)
(folder / f"rank-{generation}-{rank}").touch()
while not (folder / "go").exists():
    time.sleep(0.01)
