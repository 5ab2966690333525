"""HTTP/1.1 on asyncio streams: as much of it as a Kubernetes API server and its clients speak."""

import dataclasses

LIMIT = 1 << 24  # bytes of one body or line; nothing here comes near it


@dataclasses.dataclass
class Head:
    """The first line and the headers of a request or a response."""

    line: str
    headers: list  # of [name, value], in their order

    def get(self, name, default=""):
        for header, value in self.headers:
            if header.lower() == name:
                return value
        return default

    def without(self, *names):
        return [[name, value] for name, value in self.headers if name.lower() not in names]

    @property
    def method(self):
        return self.line.split(" ")[0]

    @property
    def target(self):
        return self.line.split(" ")[1]

    @property
    def status(self):
        return int(self.line.split(" ")[1])


async def read_head(reader):
    """None when the peer has no more to say."""
    data = await reader.readuntil(b"\r\n\r\n") if not reader.at_eof() else b""
    if not data:
        return None
    first, *lines = data.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    return Head(first, [list(line.split(": ", 1)) for line in lines])


async def read_body(reader, head):
    if head.get("transfer-encoding") == "chunked":
        return b"".join([chunk async for chunk in chunks(reader)])
    return await reader.readexactly(int(head.get("content-length", "0")))


async def chunks(reader):
    """The parts of a chunked body as they come."""
    while True:
        size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
        data = await reader.readexactly(size + 2)
        if size == 0:
            return
        yield data[:-2]


async def lines(reader):
    """The lines of a chunked body: a watch sends one event in each."""
    rest = b""
    async for chunk in chunks(reader):
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line


def message(line, headers, body=b""):
    """A whole message with its length."""
    return head(line, [*headers, ["Content-Length", len(body)]]) + body


def head(line, headers):
    text = [line, *(f"{name}: {value}" for name, value in headers), "", ""]
    return "\r\n".join(text).encode("latin-1")


def chunk(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"
