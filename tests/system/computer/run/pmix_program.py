"""pmix_program.py FOLDER: one rank, by the client library of OpenPMIx and without an MPI. It puts its
card, reads all others' after a fence, leaves what it found in FOLDER, and waits in a second fence
for a file `go`. A file `abort` makes rank 3 give up with code 7, once; with a file `spawn` each rank
tries to spawn a process."""

import ctypes
import os
import pathlib
import sys
import time

SUCCESS, ALL = 0, 2**32 - 2  # PMIX_RANK_WILDCARD
BOOL, STRING, UINT32 = 1, 3, 14
GLOBAL = 3


class Proc(ctypes.Structure):
    _fields_ = [("space", ctypes.c_char * 256), ("rank", ctypes.c_uint32)]


class Value(ctypes.Structure):  # the union takes 24 bytes at most
    _fields_ = [("type", ctypes.c_uint16), ("data", ctypes.c_uint64 * 8)]


class Info(ctypes.Structure):
    _fields_ = [("key", ctypes.c_char * 512), ("flags", ctypes.c_uint32), ("value", Value)]


class App(ctypes.Structure):
    _fields_ = [("command", ctypes.c_char_p), ("argv", ctypes.c_void_p), ("env", ctypes.c_void_p),
                ("folder", ctypes.c_char_p), ("processes", ctypes.c_int), ("info", ctypes.c_void_p),
                ("infos", ctypes.c_size_t)]


folder = pathlib.Path(sys.argv[1])
library = ctypes.CDLL(os.environ.get("LIBPMIX", "libpmix.so.2"))
me = Proc()


def do(function, *arguments):
    status = getattr(library, function)(*arguments)
    assert status == SUCCESS, f"{function}: {status}"


def fence(collect):
    info = Info(b"pmix.collect")
    info.value.type = BOOL
    info.value.data[0] = collect
    do("PMIx_Fence", None, 0, ctypes.byref(info), ctypes.c_size_t(1))


def get(key, rank):
    value = ctypes.POINTER(Value)()
    status = library.PMIx_Get(ctypes.byref(Proc(me.space, rank)), key, None, ctypes.c_size_t(0),
                              ctypes.byref(value))
    if status != SUCCESS:
        return None
    if value.contents.type == STRING:
        return ctypes.cast(value.contents.data[0], ctypes.c_char_p).value.decode()
    return value.contents.data[0] & 0xFFFFFFFF


do("PMIx_Init", ctypes.byref(me), None, ctypes.c_size_t(0))
size = get(b"pmix.job.size", ALL)
assert (me.rank, size) == (int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])), (me.rank, size)
assert get(b"pmix.local.size", ALL) == int(os.environ["LOCAL_WORLD_SIZE"])
card = f"{os.environ['LOCKSTEP_GENERATION']}:" + "x" * 5000
text = ctypes.create_string_buffer(card.encode())
value = Value(STRING)
value.data[0] = ctypes.addressof(text)
do("PMIx_Put", GLOBAL, b"card", ctypes.byref(value))
do("PMIx_Commit")
fence(collect=True)
cards = {get(b"card", rank) for rank in range(size)}
assert cards == {card}, cards
name = f"{os.environ['LOCKSTEP_GENERATION']}-{me.rank}"
(folder / f"new-{name}").write_text(me.space.decode())
(folder / f"new-{name}").rename(folder / f"rank-{name}")
if (folder / "spawn").exists():
    space = ctypes.create_string_buffer(256)
    assert library.PMIx_Spawn(None, ctypes.c_size_t(0), ctypes.byref(App(b"true", processes=1)),
                              ctypes.c_size_t(1), space) != SUCCESS
while not (folder / "go").exists():
    if me.rank == 3 and (folder / "abort").exists():
        (folder / "abort").unlink()
        library.PMIx_Abort(7, b"no more of it", None, ctypes.c_size_t(0))
        os._exit(0)  # what its process says then does not count
    time.sleep(0.01)
fence(collect=False)
if (folder / "no-finalize").exists():
    os._exit(0)
do("PMIx_Finalize", None, ctypes.c_size_t(0))
