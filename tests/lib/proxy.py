"""A TCP proxy between a member and machine 0 that can be cut: a network that fails on request."""

import selectors
import socket
import threading


class Proxy:
    """cut() drops nothing and forwards nothing, as a dead switch does; reset() ends connections."""

    def __init__(self, address, target):
        self._target = target
        self._listener = socket.create_server(address, backlog=64)
        self.address = "%s:%d" % self._listener.getsockname()
        self._wake, self._waker = socket.socketpair()
        self._lock = threading.Lock()
        self._cut = False
        self._reset = False
        self._closed = False
        self._peer = {}
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def cut(self):
        self._set(_cut=True)

    def heal(self):
        self._set(_cut=False)

    def reset(self):
        """Ends what is open; new connections are taken, unless it is cut."""
        self._set(_reset=True)

    def redirect(self, target):
        """New connections go there."""
        self._set(_target=target)

    def close(self):
        self._set(_closed=True)
        self._thread.join()

    def _set(self, **values):
        with self._lock:
            self.__dict__.update(values)
        self._waker.send(b"!")

    def _run(self):
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._wake, selectors.EVENT_READ)
            while not self._closed:
                ready = [key.fileobj for key, _ in selector.select()]
                if self._wake in ready:
                    self._wake.recv(64)
                    self._obey(selector)
                elif not self._cut:
                    for source in ready:
                        if source is self._listener or source in self._peer:
                            self._handle(selector, source)
            for end in list(self._peer):
                end.close()
            self._listener.close()

    def _obey(self, selector):
        # Cut, it looks at nothing but its orders, so that buffers fill as on a dead line.
        for end in [self._listener, *self._peer]:
            registered = end in selector.get_map()
            if self._cut and registered:
                selector.unregister(end)
            elif not self._cut and not registered:
                selector.register(end, selectors.EVENT_READ)
        if self._reset:
            self._reset = False
            for end in list(self._peer):
                if end in self._peer:  # not dropped with the one before it
                    self._drop(selector, end)

    def _handle(self, selector, source):
        if source is self._listener:
            client, _ = self._listener.accept()
            try:
                server = socket.create_connection(self._target, timeout=5)
            except OSError:
                client.close()
                return
            server.settimeout(None)
            self._peer[client], self._peer[server] = server, client
            selector.register(client, selectors.EVENT_READ)
            selector.register(server, selectors.EVENT_READ)
            return
        try:
            data = source.recv(65536)
            if data:
                self._peer[source].sendall(data)
                return
        except OSError:
            pass
        self._drop(selector, source)

    def _drop(self, selector, end):
        other = self._peer.pop(end, None)
        for closing in (end, other):
            if closing is None:
                continue
            self._peer.pop(closing, None)
            if closing in selector.get_map():
                selector.unregister(closing)
            closing.close()
