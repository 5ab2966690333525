"""Records a program on a terminal: record.py [--size COLUMNSxLINES] OUT.cast -- COMMAND...

Writes asciicast v2 (a header, then [seconds, "o", text] a line), which cast2svg.py turns into a
picture. Exits with the command's exit code, 128 + signal if it died of one.
"""

import argparse
import codecs
import fcntl
import json
import os
import pty
import struct
import sys
import termios
import time


def record(command, columns, lines, out):
    child, terminal = pty.fork()
    if child == 0:
        os.environ["TERM"] = "xterm-256color"
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        try:
            os.execvp(command[0], command)
        except OSError as error:
            print(f"{command[0]}: {error.strerror}", file=sys.stderr)
            os._exit(127)
    start = time.monotonic()
    print(json.dumps({"version": 2, "width": columns, "height": lines}), file=out)
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    while data := read(terminal):
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
        print(json.dumps([round(time.monotonic() - start, 3), "o", decode(data)]), file=out)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status if status >= 0 else 128 - status


def read(terminal):
    try:
        return os.read(terminal, 65536)
    except OSError:  # EIO: the last process on the terminal has closed it
        return b""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", default="100x30", help="COLUMNSxLINES of the terminal")
    parser.add_argument("out")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    columns, lines = map(int, arguments.size.split("x"))
    with open(arguments.out, "w", encoding="utf-8") as out:
        sys.exit(record(arguments.command, columns, lines, out))


if __name__ == "__main__":
    main()
