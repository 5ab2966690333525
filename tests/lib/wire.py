"""The gang's messages as docs/reference/protocol.md writes them, for what no agent would ever say."""

import struct

MAGIC = b"LKSTEP\x00\x01"


def string(text):
    data = text.encode()
    return struct.pack(">H", len(data)) + data


def frame(body):
    return struct.pack(">I", len(body)) + body


def hello(gang, **changes):
    """HELLO of an agent that has seen nothing yet."""
    field = {"job_uid": gang.job_uid, "machine": 1, "attempt": 1, "machines": gang.machines,
             "processes": gang.processes, "machine0_attempt": gang.agents[0].attempt,
             "predecessor_dead": True, "draining": False, **changes}
    numbers = ("machine", "attempt", "machines", "processes", "machine0_attempt")
    report = (struct.pack(">IIB?3q?B", 0, 0, 0, False, 0, 0, 0, False, 0) + string("")
              + struct.pack(">HH?qI", 0, 0, False, 0, 0) + string("")
              + struct.pack(">q??HHH", 0, False, False, 0, 0, 0))
    return (b"\x01" + string(field["job_uid"])
            + struct.pack(">5I", *(field[name] for name in numbers))
            + struct.pack(">??", field["predecessor_dead"], field["draining"])
            + struct.pack(">3q", 0, 0, 0) + struct.pack(">10I", *[0] * 10) + report
            + string("127.0.0.1"))


def messages(data):
    """The bodies of the frames in what an agent said."""
    while data:
        (length,) = struct.unpack(">I", data[:4])
        yield data[4 : 4 + length]
        data = data[4 + length :]
