"""Parks a Python interpreter before its program begins, and learns what programs import.

The agent puts this folder first on PYTHONPATH and says in LOCKSTEP_PRESTART what is wanted. Python
imports `sitecustomize` when arguments, flags and standard streams stand and `__main__` does not
yet exist; what happens afterwards is the interpreter's own work. docs/guides/prestart.md has the protocol.

    probe:FD:NONCE:       answers on FD and exits: the agent learns that this Python obeys
    park:FD:NONCE:LIST    imports what LIST names, says so on FD and waits there for "go"
    park+record:...       likewise, and records after "go"
    record:-1::LIST       appends to LIST what the program imports, and runs it as ever

Needs Python 3.8 and imports nothing that a plain start has not imported, so that a program's own
queue.py or json.py is found as ever. An interpreter that is to be parked never runs on into its
program by mistake: whatever goes wrong here ends the process. One that runs its program now runs it
whatever goes wrong here; so the text is one that Python 2 can read, too.
"""

import os
import sys

_HERE = os.path.dirname(__file__)
_LOST = 70  # exit code: the hook itself failed
# What a process learns at "go" or finds different each generation; never recorded or replayed.
_LATE = ("LOCKSTEP_", "MASTER_", "PET_MASTER_", "TMPDIR", "TORCHELASTIC_")
_OWN = {"PYTHONPATH", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"}
_MOST_NAMES = 20000
# All ranks are as quick, and a rank of torch's that asks before rank 0 listens on MASTER_PORT asks
# again up to a second later. So the others wait until it listens, and look every _LOOK seconds. On
# a busy computer each look takes longer, as does rank 0: so looks are counted, not only seconds.
_LOOK, _MOST_LOOKS, _LISTENS_WITHIN = 0.005, 100, 2
# Each so many looks, all sockets are searched, though their number did not change.
_SEARCH = 20
# On another computer rank 0 has a head start, as in programs where it listened late this often in a
# row.
_HEAD_START, _OFTEN = 0.05, 3
_LISTENED_LATE, _LISTENED_EARLY = "late MASTER_PORT", "early MASTER_PORT"
_SECRETS = ("KEY", "KEYS", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIALS")
# A marker in the environment while a parked interpreter imports: who inherits it was started then.
_MARK = "LOCKSTEP_PARKED"
# Devices that are not to be open twice: what opens them counts GPUs, or takes memory of them.
_ACCELERATORS = ("/dev/nvidia", "/dev/kfd", "/dev/dri/", "/dev/accel", "/dev/vfio/", "/dev/neuron")
# How often a process is looked at while it becomes another program, and the seconds in between.
_EXEC_LOOKS, _EXEC_PAUSE = 2000, 0.001
_EVIDENCE_SIGNAL = 51  # as lockstep.py and the agent have it


def _unsupported():
    """Why this interpreter cannot be parked; empty: it can."""
    version = sys.version.split()[0]
    if sys.version_info < (3, 8):
        return "Python %s is older than 3.8" % version
    if sys.implementation.name != "cpython":
        return "%s is not CPython" % sys.implementation.name
    return ""


def _find_roots():
    """The folders of what came with Python or was installed, each with a slash at its end."""
    global _ROOTS, _SITES, _PathFinder
    site = sys.modules["site"]
    _SITES = site.getsitepackages()
    if site.ENABLE_USER_SITE:
        _SITES.append(site.getusersitepackages())
    folders = [os.path.dirname(os.__file__)] + _SITES
    _ROOTS = tuple({os.path.join(folder, "") for folder in folders})
    _PathFinder = sys.modules["_frozen_importlib_external"].PathFinder


def _installed(spec):
    """Whether a module came with Python or was installed, rather than written for this program."""
    if spec is None:
        return False
    if spec.origin in ("built-in", "frozen"):
        return True
    if spec.origin not in (None, "namespace"):
        return spec.origin.startswith(_ROOTS)
    folders = list(spec.submodule_search_locations or ())
    return bool(folders) and all((folder + "/").startswith(_ROOTS) for folder in folders)


def _top(name):
    return name.partition(".")[0]


def _on_path(name):
    """Whether a module is looked for in folders. Built-in and frozen ones are found before that."""
    return name not in sys.builtin_module_names and not __import__("_imp").is_frozen(name)


def _script_folder():
    """What Python puts in front of sys.path when the program begins: one entry, or none."""
    if getattr(sys.flags, "safe_path", False):
        return []
    script = sys.argv[0]
    if script in ("", "-", "-c", "-m"):
        return [os.getcwd()]
    if _PathFinder._path_hooks(script) is not None:  # a folder or a zip file
        return [script]
    return [os.path.dirname(os.path.realpath(script))]


def _state(path):
    """What changes when somebody edits, replaces or removes a file or a folder."""
    try:
        state = os.stat(path)
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size, state.st_dev, state.st_ino


def _where(spec):
    """What a search has found, for comparison with a later search."""
    return spec and (spec.origin, tuple(spec.submodule_search_locations or ()))


def _path_files(folder):
    """The files of a site-packages folder that change sys.path when Python starts."""
    try:
        return {name for name in os.listdir(folder) if name.endswith(".pth")}
    except OSError:
        return set()


class _Finds:
    """What this interpreter looked for while parked, and whether a fresh one would find the same.

    A name is searched for again only if a folder that decides about it has changed, so that a
    program's output beside its script costs one listing. Each state is noted before the file is
    read or the folder is searched: no later change is missed.
    """

    def __init__(self, learnt):
        self.learnt = learnt  # folders that the program itself puts in front of sys.path
        self.names = {}  # each name's search path (None: the program's), folders, what was found
        self.folders = {}  # their states
        self.files = {}
        self.front = self._front()
        for name in set(sys.modules) | {"sitecustomize", "usercustomize"}:
            if "." not in name and _on_path(name):
                self._keep(name, sys.path)
        self.path_files = {folder: _path_files(folder) for folder in _SITES}
        for folder, names in self.path_files.items():
            self.folders.setdefault(folder, _state(folder))
            for name in names:
                self._watch_file(os.path.join(folder, name))
        self._watch_file(sys.executable)
        self._watch_file(os.path.join(sys.prefix, "pyvenv.cfg"))

    def _front(self):
        return self.learnt + _script_folder()

    def _watch_file(self, path):
        if path not in self.files:
            self.files[path] = _state(path)

    def _keep(self, name, path):
        """Searches as the program would, and keeps the answer."""
        path = path if path is None else [each for each in path if isinstance(each, str)]
        searched = self.front + sys.path if path is None else path
        inner = []  # a folder of that name becomes a package by a file in it
        for folder in searched:
            if folder not in self.folders:
                self.folders[folder] = _state(folder or ".")
            inside = os.path.join(folder, name.rpartition(".")[2])
            if os.path.isdir(inside):
                self.folders.setdefault(inside, _state(inside))
                inner.append(inside)
        spec = _PathFinder.find_spec(name, searched)
        if spec is not None and isinstance(spec.origin, str) and spec.origin.startswith("/"):
            self._watch_file(spec.origin)
        self.names.setdefault(name, (path, inner, _where(spec)))  # the first answer was used
        return spec

    def note(self, name, path):
        """An import looks for this name now. What the program would find, if that is something
        else than is found here; None: the same."""
        spec = self._keep(name, path)
        if path is not None or not self.front or _PathFinder.find_spec(name, self.front) is None:
            return None
        return spec if _where(_PathFinder.find_spec(name)) != _where(spec) else None

    def complete(self):
        """Adds the files of modules that were loaded otherwise, and shared libraries."""
        for module in list(sys.modules.values()):
            file = getattr(getattr(module, "__spec__", None), "origin", None)
            if isinstance(file, str) and file.startswith("/"):
                self._watch_file(file)
        for line in _contents("/proc/self/maps").splitlines():
            words = line.split(None, 5)
            if len(words) == 6 and b".so" in os.path.basename(words[5]):
                self._watch_file(os.fsdecode(words[5]))

    def changed(self):
        """What a fresh interpreter would find otherwise, or None."""
        for file, state in self.files.items():
            if _state(file) != state:
                return file
        front = self._front()
        for folder in front:
            self.folders.setdefault(folder, ())
        held = {}  # of each folder that has changed, the names in it
        for folder, state in self.folders.items():
            if _state(folder or ".") == state:
                continue
            if folder in _SITES and (not state or _path_files(folder) != self.path_files[folder]):
                return folder
            try:
                held[folder] = {entry.partition(".")[0] for entry in os.listdir(folder or ".")}
            except OSError:
                return folder
        _forget_listings()
        for name, (path, inner, found) in self.names.items():
            searched = front + sys.path if path is None else path
            tail = name.rpartition(".")[2]
            if (
                (path is None and front != self.front)
                or any(folder in held for folder in inner)
                or any(tail in held.get(folder, ()) for folder in searched)
            ) and _where(_PathFinder.find_spec(name, searched)) != found:
                return name
        for folder in front:
            sys.path_importer_cache.pop(folder, None)
        return None


def _forget_listings():
    """Folders are listed anew, as importlib.invalidate_caches() does it; that one imports json."""
    for folder, finder in list(sys.path_importer_cache.items()):
        if finder is None:
            del sys.path_importer_cache[folder]
        elif hasattr(finder, "invalidate_caches"):
            finder.invalidate_caches()


# The list: a line each, "pkg.mod", "env NAME=value", "env NAME" (unset), "exclude TOP" (never
# imported while parked), "volatile NAME" (a variable that differed between two runs), "secret NAME"
# (one that the program sets, whose value no file is to hold), "path FOLDER" (that the program puts
# in front of sys.path), "late MASTER_PORT" (rank 0 listened long after it was let go), "early
# MASTER_PORT" (it did not, after it had).


def _read_list(path):
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            return [line[:-1] for line in file if line.endswith("\n")]
    except FileNotFoundError:
        return []


def _append(fd, lines):
    """One write, so that neither two ranks nor a kill can tear a line."""
    text = "".join(line + "\n" for line in lines)
    os.write(fd, text.encode("utf-8", "surrogateescape"))


def _env_line(name, value):
    if value is None:
        return "env " + os.fsdecode(name)
    escaped = os.fsdecode(value).replace("\\", "\\\\").replace("\n", "\\n")
    return "env %s=%s" % (os.fsdecode(name), escaped)


def _env_of(line):
    """An env line's name, and its value or None."""
    name, equals, text = line[4:].partition("=")
    parts = [part.replace("\\n", "\n") for part in text.split("\\\\")]
    return name, "\\".join(parts) if equals else None


def _words(lines, kind):
    return {line[len(kind) + 1 :] for line in lines if line.startswith(kind + " ")}


def _is_secret(name):
    return any(word.endswith(_SECRETS) for word in name.upper().split("_"))


def _out_of_the_way(fd):
    """Programs expect their own first file to be number 3."""
    for high in range(200, 256):
        try:
            os.fstat(high)
        except OSError:
            try:
                os.dup2(fd, high, inheritable=False)
            except OSError:
                return fd
            os.close(fd)
            return high
    return fd


class _Recorder:
    """Stands first on sys.meta_path and finds nothing: it notes what is looked for.

    A name is written when its module is whole, which the next search shows, so that the list has
    only what can be imported, each behind what it needs. Nothing is lost by SIGKILL but the last.
    """

    def __init__(self, path, cold):
        lines = _read_list(path)
        self.seen = {line for line in lines if " " not in line}
        self.said = {line for line in lines if " " in line}
        self.first = {}  # what an earlier run changed each variable to first
        for line in lines:
            if line.startswith("env "):
                self.first.setdefault(_env_of(line)[0], line)
        self.changed = set()
        self.cold = cold  # only then every change is seen where it happens
        self.open = []
        self.path = None
        self.first_path = frozenset(sys.path)
        self.own_folder = [""] + _script_folder()
        self.env = dict(os.environ._data)
        self.pid = os.getpid()
        self.fd = _out_of_the_way(
            os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        )
        self.file = self._identity()

    def _identity(self):
        file = os.fstat(self.fd)
        return file.st_dev, file.st_ino

    def find_spec(self, name, path=None, target=None):
        if os.getpid() == self.pid:
            try:
                self._note(name)
            except Exception:
                self.stop()
        return None

    def stop(self):
        """It stays where it is: importlib goes through sys.meta_path at this moment, and without
        this entry would pass over the next."""
        self.pid = None

    def _note(self, name):
        lines = []
        waiting, installing = self._completed(lines)
        self._environment(lines, installing)
        self._search_path(lines)
        self.open = [each for each in waiting if each != name] + [name]
        if lines:
            if self._identity() != self.file:  # the program has closed it and opened another
                return self.stop()
            _append(self.fd, lines)
        if len(self.seen) > _MOST_NAMES:
            self.stop()

    def _completed(self, lines):
        """Writes what is whole since the last search; the rest, and if any of that is installed."""
        waiting, installing = [], False
        main = getattr(sys.modules.get("__main__"), "__spec__", None)
        if main is not None:  # python -m: runpy runs it a second time if somebody imported it
            self._exclude(_top(main.name), lines)
        for name in reversed(self.open):  # the innermost were whole first
            module = sys.modules.get(name)
            spec = getattr(module, "__spec__", None)
            if spec is None:
                continue  # not found, failed, or replaced by something that is no module
            if getattr(spec, "_initializing", False):
                waiting.append(name)
                installing = installing or _installed(spec)
            elif not _installed(spec):
                if "." not in name:
                    self._exclude(name, lines)
            elif name not in self.seen:
                self.seen.add(name)
                lines.append(name)
        return waiting[::-1], installing

    def _exclude(self, top, lines):
        self._say("exclude " + top, lines)

    def _say(self, line, lines):
        if line not in self.said:
            self.said.add(line)
            lines.append(line)

    def _search_path(self, lines):
        """Folders that the program has put in front of those that Python starts with."""
        if sys.path == self.path:
            return
        self.path = list(sys.path)
        for folder in self.path:
            if folder in self.first_path:
                break
            if isinstance(folder, str) and folder not in self.own_folder and "\n" not in folder:
                self._say("path " + folder, lines)

    def _environment(self, lines, installing):
        """What the program changed since the last search. An installed module that is just being
        imported changes it again when it is imported in a parked interpreter."""
        now = os.environ._data
        if now == self.env:
            return
        before, self.env = self.env, dict(now)
        if installing:
            return
        for name in before.keys() | now.keys():
            same = before.get(name) == now.get(name)
            line = _env_line(name, now.get(name))
            name = os.fsdecode(name)
            if same or name.startswith(_LATE) or name in _OWN:
                continue
            if _is_secret(name):
                self._say("secret " + name, lines)
                continue
            first = self.first.get(name, line)
            if self.cold and name not in self.changed and first != line:
                line = "volatile " + name
            self.changed.add(name)
            self._say(line, lines)


_STARTS = "%s starts a process when it is imported"


class _Unparkable(Exception):
    """This interpreter is no longer what a plain start would be; `top` is why, if it is known."""

    def __init__(self, why, top=None):
        super().__init__(why)
        self.top = top


class _Gate:
    """Refuses what must not be imported while parked, and remembers that it had to: excluded
    packages, and modules that the program has a file of its own for."""

    def __init__(self, excluded, finds):
        self.excluded = excluded
        self.finds = finds
        self.refused = None

    def find_spec(self, name, path=None, target=None):
        # importlib.util.find_spec() only asks whether there is such a module, and which.
        asks = sys._getframe(2).f_code.co_name == "find_spec"
        own = self.finds.note(name, path) if _on_path(name) else None
        if asks:
            return own
        if own is not None or _top(name) in self.excluded:
            self.refused = name
            raise ModuleNotFoundError("No module named %r" % name, name=name)
        return None


class _Watched(dict):
    """The environment's own dict, which notes who asks for what comes only with "go", or from the
    program alone."""

    def __init__(self, variables):
        super().__init__(variables)
        self.asked = None
        self.secrets = set()

    def __missing__(self, name):
        text = os.fsdecode(name)
        if text.startswith(_LATE) or text in self.secrets:
            self.asked = text
        raise KeyError(name)


def _handlers():
    signals = __import__("_signal")
    return [signals.getsignal(number) for number in range(1, 65)]


def _process_state(path_length):
    """What an import should leave alone, by names for the message."""
    logging = sys.modules.get("logging")
    context = sys.modules.get("multiprocessing.context")
    root = getattr(logging, "root", None)
    return {
        "the working directory": os.getcwd(),
        "signal handlers": _handlers(),
        "the root logger": [list(root.handlers), root.level] if root else [[], 30],
        "multiprocessing's start method": context._default_context._actual_context
        if context
        else None,
        "the front of sys.path": sys.path[:path_length],
    }


def _files():
    """Those that this process has open: what each number stands for."""
    files = {}
    for fd in os.listdir("/proc/self/fd"):
        try:
            files[int(fd)] = os.readlink("/proc/self/fd/" + fd)
        except OSError:  # the listing's own
            continue
    return files


def _opened():
    """Accelerators that this process has open."""
    return {path for path in _files().values() if path.startswith(_ACCELERATORS)}


def _contents(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _socket_counts():
    """What changes when a socket of this network namespace begins to listen. A reader pays some 0.1
    ms. _listens() walks the kernel's table of all connections, and takes milliseconds of a core."""
    text = _contents("/proc/self/net/sockstat") + _contents("/proc/self/net/sockstat6")
    # The line "TCP: inuse 7 orphan ...", of which only the first number is of this namespace alone.
    return [line.split()[:3] for line in text.splitlines() if line.startswith((b"TCP:", b"TCP6:"))]


def _listens(port):
    """Whether a socket of this network namespace listens on a port."""
    for table in ("/proc/self/net/tcp", "/proc/self/net/tcp6"):
        for line in _contents(table).splitlines()[1:]:
            _, own, _, state = line.split(None, 4)[:4]
            if state == b"0A" and own.endswith(b":%04X" % port):
                return True
    return False


def _is_rank_0_here():
    """Whether rank 0 shares this process's network namespace, as far as is known."""
    address = os.environ.get("MASTER_ADDR", "")
    return os.environ.get("GROUP_RANK") == "0" or address.startswith(("127.", "localhost", "::1"))


class _Left:
    """What imports leave outside this process, or hold of its devices. Looked for once a package:
    only new processes are looked at, for each is a file to read."""

    def __init__(self, nonce):
        self.mine = _contents("/proc/self/environ")
        os.environ[_MARK] = "%s.%d" % (nonce, os.getpid())
        self.mark = os.fsencode("%s=%s" % (_MARK, os.environ[_MARK]))
        self.processes = set(os.listdir("/proc"))
        self.devices = _opened()
        self.top = None

    def check(self, top):
        """Before a package is imported: what the one before it has left."""
        before, self.top = self.top, top
        if before is None or before == top:
            return
        now = set(os.listdir("/proc"))
        new, self.processes = now - self.processes, now
        # A daemon is no child any more. One that was only forked has this process's own block.
        if any(pid.isdigit() and self._is_ours(pid) for pid in new):
            raise _Unparkable(_STARTS % before, before)
        for path in sorted(_opened() - self.devices):
            raise _Unparkable("%s opens %s when it is imported" % (before, path), before)

    def _is_ours(self, pid):
        environment = self._environment(pid)
        forked = bool(self.mine) and environment == self.mine
        return forked or self.mark in environment.split(b"\0")

    @staticmethod
    def _environment(pid):
        """A process that is just becoming another program has memory and neither command line nor
        environment, for a moment: it gets the environment last."""
        folder = "/proc/%s/" % pid
        for _ in range(_EXEC_LOOKS):
            named = _contents(folder + "cmdline")
            environment = _contents(folder + "environ")
            if environment or named or _contents(folder + "statm")[:2] in (b"", b"0 "):
                break
            __import__("time").sleep(_EXEC_PAUSE)
        return environment


class _Parked:
    """One parked interpreter: its socket, its list, and how it was before it imported anything."""

    def __init__(self, fd, nonce, path, record, environment):
        self.fd = fd
        self.nonce = nonce
        self.path = path
        self.record = record
        self.environment = environment  # as the agent made it, this hook's share included
        self.directory = os.getcwd()
        self.handlers = _handlers()
        self.files = set(_files())
        self.pid = os.getpid()
        self.line = b""
        self.names = 0
        self.gone = []
        self.late = 0  # generations in a row in which rank 0 listened late
        os.set_inheritable(fd, False)

    def say(self, text):
        text = text.encode("ascii") + b"\n"
        os.set_blocking(self.fd, True)
        while text:
            text = text[os.write(self.fd, text) :]

    def listen(self, wait):
        """Whether "go" is there. Without it the agent has let go of this process."""
        os.set_blocking(self.fd, wait)
        while not self.line.endswith(b"\n"):
            try:
                got = os.read(self.fd, 65536)
            except BlockingIOError:
                return False
            if not got:
                os._exit(0)
            self.line += got
        return True

    def preload(self):
        """Imports what the list names, until "go" comes; the environment is put back afterwards."""
        lines = _read_list(self.path)
        excluded, volatile = _words(lines, "exclude"), _words(lines, "volatile")
        for line in lines:
            if line in (_LISTENED_LATE, _LISTENED_EARLY):
                self.late = self.late + 1 if line == _LISTENED_LATE else 0
        self.finds = _Finds([line[5:] for line in lines if line.startswith("path ")])
        left = _Left(self.nonce)
        gate, plain = _Gate(excluded, self.finds), os.environ._data
        watched = _Watched(plain)
        sys.meta_path.insert(0, gate)
        os.environ._data = os.environb._data = watched
        replayed, found, state = {}, {}, _process_state(len(sys.path))
        for line in lines:
            if self.listen(wait=False):
                break
            if line.startswith("env "):
                name, value = _env_of(line)
                if name in volatile:
                    break  # what follows was imported with a value that nobody can know now
                self._replay(name, value, replayed)
                continue
            if line.startswith("secret "):
                self._replay(line[7:], None, replayed)  # whoever asks for it is found out
                watched.secrets.add(line[7:])
                continue
            if " " in line or line in sys.modules or _top(line) in excluded:
                continue
            if _top(line) not in found:
                found[_top(line)] = self._is_installed(_top(line))
            left.check(_top(line))
            if not found[_top(line)] or not self._import(line):
                self.gone.append(line)
                continue
            self._check(line, gate, watched, state)
        left.check(None)
        for name, value in replayed.items():  # as the program will find it, and set it itself
            self._replay(name, value, {})
        os.environ.pop(_MARK, None)
        plain.clear()
        plain.update(watched)
        os.environ._data = os.environb._data = plain
        sys.meta_path.remove(gate)
        self.names = sum(line in sys.modules for line in lines)

    def _is_installed(self, top):
        """Whether the program, too, would find the installed package."""
        if not _on_path(top):
            return True
        return self.finds.note(top, None) is None and _installed(_PathFinder.find_spec(top))

    @staticmethod
    def _replay(name, value, replayed):
        before = os.environ.get(name)
        if before == value:
            return
        replayed.setdefault(name, before)
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value

    def _import(self, name):
        """False if there is no such module any more. The list has only what could be imported."""
        try:
            __import__(name)
            return True
        except ModuleNotFoundError as error:
            if error.name == name:
                return False
            why = "needs %s" % error.name
        except BaseException as error:  # noqa: B902  sys.exit() and the like, too
            why = "raises %s" % type(error).__name__
        raise _Unparkable("%s %s when it is imported" % (name, why), _top(name))

    def _check(self, name, gate, watched, state):
        if os.getpid() != self.pid:
            os._exit(_LOST)  # a fork inside the import came back here
        if gate.refused:
            why = "%s imports %s, which is left to the program" % (name, gate.refused)
            raise _Unparkable(why, _top(name))
        if watched.asked:
            raise _Unparkable("%s reads %s when it is imported" % (name, watched.asked), _top(name))
        for what, value in _process_state(len(state["the front of sys.path"])).items():
            if value != state[what]:
                raise _Unparkable("%s changes %s when it is imported" % (name, what), _top(name))
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        raise _Unparkable(_STARTS % name, _top(name))

    def start_over(self, mode, why=""):
        """Runs this process's own command line anew: held again, or as the rank it is to be."""
        environment = dict(self.environment)
        environment[b"LOCKSTEP_PRESTART"] = os.fsencode(mode)
        for fd in _files().keys() - self.files:
            os.set_inheritable(fd, False)
        if mode.startswith("again"):
            os.set_inheritable(self.fd, True)
        else:
            for name, value in _assignments(self.line.decode()).items():
                environment.pop(os.fsencode(name), None)
                if value is not None:
                    environment[os.fsencode(name)] = os.fsencode(value)
        signals = __import__("_signal")
        for number, (before, now) in enumerate(zip(self.handlers, _handlers()), start=1):
            if now == signals.SIG_IGN != before:  # the one thing that exec would leave
                signals.signal(number, signals.SIG_DFL)
        os.chdir(self.directory)
        with open("/proc/self/cmdline", "rb") as file:
            words = file.read().split(b"\0")[:-1]
        program = words[0] if b"/" in words[0] else os.fsencode(sys.executable)
        if mode.startswith("again"):
            self.say('{"again": %s, "why": %s}' % (_quoted(self.nonce), _quoted(why)))
        os.execve(program, words, environment)

    def start_plain(self):
        self.start_over("record:-1::" + self.path if self.record else "")

    def give_up(self, error):
        """Another attempt without what made it impossible, or an end that says why."""
        lines = _read_list(self.path)
        if self.listen(wait=bool(self.line)):
            self.start_plain()
        line = "exclude %s" % error.top
        why = str(error)
        if error.top and line not in lines:
            self.learn(line)
            if "starts a process" not in why:
                again = "again+record" if self.record else "again"
                self.start_over("%s:%d:%s:%s" % (again, self.fd, self.nonce, self.path), why)
        self.say('{"cannot": %s, "why": %s}' % (_quoted(self.nonce), _quoted(why)))
        os._exit(0)

    def ready(self, seconds):
        states = self.finds.files.values()
        mark = "%s %s, %d files, newest %d" % (
            sys.executable,
            sys.version.split()[0],
            len(states),
            max(state[0] if state else 0 for state in states) // 10**9,
        )
        self.say(
            '{"ready": %s, "seconds": %.3f, "modules": %d, "failed": [%s], "fingerprint": %s}'
            % (
                _quoted(self.nonce),
                seconds,
                self.names,
                ", ".join(_quoted(name) for name in self.gone),
                _quoted(mark),
            )
        )

    def go(self, ready):
        """Becomes the rank: its late variables, and nothing of this hook. If a fresh interpreter
        would find something else, this same process starts plain."""
        if self.finds.changed() is not None:
            self.start_plain()
        for name, value in _assignments(self.line.decode()).items():
            if value is not None:
                os.environ[name] = value
            elif name in os.environ:
                del os.environ[name]
        os.close(self.fd)
        if ready and os.environ.get("RANK", "0") != "0":
            self.follow_rank_0()

    def follow_rank_0(self):
        """Lets rank 0 listen first. A program that listens late as a rule is not waited for."""
        time = __import__("time")
        port = os.environ.get("MASTER_PORT", "")
        if not port.isdigit() or not _is_rank_0_here():
            return time.sleep(_HEAD_START)
        as_a_rule = self.late >= _OFTEN
        if as_a_rule:
            time.sleep(_HEAD_START)
            listens = _listens(int(port))  # the computer was busy, and is not any more
        else:
            listens = self.await_listener(int(port), time)
        if self.record and listens and self.late:
            self.learn(_LISTENED_EARLY)
        elif self.record and not listens and not as_a_rule:
            self.learn(_LISTENED_LATE)

    @staticmethod
    def await_listener(port, time):
        """Whether rank 0 listened before this rank had looked long enough."""
        end = time.monotonic() + _LISTENS_WITHIN
        counts = None
        for look in range(_MOST_LOOKS):
            before, counts = counts, _socket_counts()
            if (counts != before or look % _SEARCH == 0) and _listens(port):
                return True
            if time.monotonic() >= end:
                break
            time.sleep(_LOOK)
        return False

    def learn(self, line):
        fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        _append(fd, [line])
        os.close(fd)


def _leave_path():
    """As if this folder had never been on it."""
    if _HERE in sys.path:
        sys.path.remove(_HERE)
    sys.path_importer_cache.pop(_HERE, None)
    mine, _, users = os.environ.get("PYTHONPATH", "").partition(":")
    if mine == _HERE and users:
        os.environ["PYTHONPATH"] = users
    elif mine == _HERE:
        del os.environ["PYTHONPATH"]


def _quoted(text):
    """A JSON string. json itself would have to be imported, and with it a dozen modules."""
    plain = (c if " " <= c <= "~" and c not in '"\\' else "\\u%04x" % ord(c) for c in _bmp(text))
    return '"%s"' % "".join(plain)


def _bmp(text):
    return "".join("?" if ord(c) > 0xFFFF or 0xD800 <= ord(c) < 0xE000 else c for c in text)


def _string(text, at):
    """The JSON string that opens at `at`, and where it ends."""
    out = []
    while True:
        at += 1
        c = text[at]
        if c == '"':
            whole = "".join(out)  # \ud83d\ude00 are two units of one character
            return whole.encode("utf-16", "surrogatepass").decode("utf-16"), at + 1
        if c == "\\":
            at += 1
            c = text[at]
            if c == "u":
                c = chr(int(text[at + 1 : at + 5], 16))
                at += 4
            else:
                c = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}.get(c, c)
        out.append(c)


def _assignments(line):
    """The variables of {"go": {"NAME": "value", "OTHER": null}}."""
    key, at = _string(line, line.index('"'))
    if key != "go":
        raise ValueError("the agent says %r" % key)
    values = {}
    at = line.index("{", at) + 1
    while True:
        while line[at] in " ,":
            at += 1
        if line[at] == "}":
            return values
        name, at = _string(line, at)
        while line[at] in " :":
            at += 1
        if line.startswith("null", at):
            values[name] = None
            at += 4
        else:
            values[name], at = _string(line, at)


def _park(parked):
    """Returns when this process is to be a rank; the error that the user's own hook raised."""
    import atexit
    import gc
    import time

    begin = time.process_time()  # its agent may stop it in between
    parked.say('{"held": %s}' % _quoted(parked.nonce))
    error = _users_own()
    collects = gc.isenabled()
    gc.disable()
    atexit.register(gc.unfreeze)  # frozen modules look like leaks to some libraries' exit
    try:
        parked.preload()
    except _Unparkable as reason:
        parked.give_up(reason)
    if collects:
        gc.enable()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    ready = not parked.listen(wait=False)
    parked.finds.complete()
    if ready:
        gc.collect()
        gc.freeze()  # a million objects that the rank's own collections need not look at
        parked.ready(time.process_time() - begin)
        parked.listen(wait=True)
    parked.go(ready)
    return error


class _Stacks:
    """Lets the agent ask where this process stands, as lockstep.py does, which takes over where the
    program imports it: faulthandler appends each thread's stack to a file of the agent's folder, on
    a signal that is sent only to who catches it. A child that is forked has a file of its own."""

    def __init__(self):
        self.fd = None
        self.signals = __import__("_signal")
        known = "faulthandler" in sys.modules
        self.faulthandler = __import__("faulthandler")
        if not known:
            del sys.modules["faulthandler"]  # as a plain start has it
        if self.arm():
            os.register_at_fork(after_in_child=self.arm)

    def arm(self):
        path = os.environ.get("LOCKSTEP_SOCKET")
        if not path or self.signals.getsignal(_EVIDENCE_SIGNAL) != self.signals.SIG_DFL:
            return False  # the program's own
        name = os.path.join(os.path.dirname(path), "stacks", str(os.getpid()))
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        old = self.fd
        try:
            if old is not None and not os.path.samestat(os.fstat(old), self.file):
                return False  # the program has closed it and opened another
            self.fd = _out_of_the_way(os.open(name, flags, 0o600))
            self.file = os.fstat(self.fd)
            os.write(self.fd, b"%d\n" % self.fd)
            self.faulthandler.register(_EVIDENCE_SIGNAL, file=self.fd, chain=False)
            if old is not None:
                os.close(old)
        except (AttributeError, OSError, RuntimeError, ValueError):
            return False
        return True


def _users_own():
    """Runs the user's or the distribution's own sitecustomize; what it raised."""
    me = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401
    except Exception as error:
        sys.modules["sitecustomize"] = me
        return error
    return None


def _answer(fd, nonce):
    """That this interpreter obeys, or why it cannot be parked."""
    if _unsupported():
        answer = '{"cannot": %s, "why": %s}\n' % (_quoted(nonce), _quoted(_unsupported()))
    else:
        answer = '{"probe": %s, "python": %s, "executable": %s, "prefix": %s}\n' % tuple(
            _quoted(text) for text in (nonce, sys.version.split()[0], sys.executable, sys.prefix)
        )
    os.write(fd, answer.encode("ascii"))
    os._exit(0)


def _attend(path, cold):
    """To a program that runs from here on, as far as that goes: it runs all the same."""
    try:
        _Stacks()
    except Exception:
        pass  # where it hangs is told less of
    if not path:
        return
    try:
        _find_roots()
        sys.meta_path.insert(0, _Recorder(path, cold))
    except Exception:
        pass  # a job without its list is a job that starts plain


def _hook(mode, fd, nonce, path):
    """What the user's own hook raised, once the program is to run."""
    if mode == "probe":
        _answer(int(fd), nonce)
    if mode in ("", "record"):
        _leave_path()
        error = _users_own()
        if not _unsupported():
            _attend(path if mode == "record" else "", cold=True)
        return error
    if mode not in ("park", "park+record", "again", "again+record"):
        raise ValueError("LOCKSTEP_PRESTART names no mode: %r" % mode)
    if _unsupported():
        raise RuntimeError(_unsupported())
    _find_roots()
    environment = dict(os.environ._data)
    _leave_path()
    record = mode.endswith("+record")
    error = _park(_Parked(int(fd), nonce, path, record, environment))
    _attend(path if record else "", cold=False)
    return error


_asked = (os.environ.pop("LOCKSTEP_PRESTART", "").split(":", 3) + [""] * 4)[:4]
try:
    _error = _hook(*_asked)
except SystemExit:
    raise  # the user's own sitecustomize ends the process, as ever
except BaseException:
    if _asked[0] in ("", "record"):
        raise
    import traceback

    traceback.print_exc()
    os._exit(_LOST)
# As if this file had never been found: `site` overlooks just this error, or reports the user's.
if _error is not None:
    raise _error
