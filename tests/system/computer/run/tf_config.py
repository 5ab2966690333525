"""tf_config.py FOLDER [ADDRESS]: a worker that takes TF_CONFIG at its word, as TensorFlow does. It
listens at its own port (of ADDRESS, or of its address alone), reaches every worker at theirs, and
is told by each which one that is. Then it leaves FOLDER/GENERATION.INDEX, with what it was told,
and reads FOLDER/gate, if there is one, to its end.
"""

import json
import os
import pathlib
import socket
import sys
import threading
import time

folder = pathlib.Path(sys.argv[1])
text = os.environ["TF_CONFIG"]
config = json.loads(text)
assert config.keys() == {"cluster", "task"} and config["cluster"].keys() == {"worker"}, text
assert config["task"] == {"type": "worker", "index": int(os.environ["RANK"])}, text
workers, own = config["cluster"]["worker"], config["task"]["index"]
assert len(workers) == int(os.environ["WORLD_SIZE"]), text


def place(worker):
    host, port = workers[worker].rsplit(":", 1)
    return host, int(port)


def answer(server):
    for _ in workers:
        connection, _ = server.accept()
        with connection:
            connection.sendall(str(own).encode())


def ask(worker):
    while True:
        try:
            with socket.create_connection(place(worker)) as connection:
                return int(connection.makefile().read())
        except ConnectionRefusedError:
            time.sleep(0.01)  # it has not come so far


host, port = place(own)
listener = socket.create_server((sys.argv[2] if len(sys.argv) > 2 else host, port))
answering = threading.Thread(target=answer, args=(listener,))
answering.start()
assert [ask(worker) for worker in range(len(workers))] == list(range(len(workers)))
answering.join()
(folder / f"new-{own}").write_text(text)
(folder / f"new-{own}").rename(folder / f"{os.environ['LOCKSTEP_GENERATION']}.{own}")
if (folder / "gate").exists():
    (folder / "gate").read_text()
