"""versions.py DIR: lists the sites in DIR, newest first, in DIR/versions.json for their version menu; DIR
itself leads to the newest release or, without one, to `latest`."""

import json
import pathlib
import re
import sys


def order(name):
    return [int(part) for part in re.findall(r"\d+", name)]


folder = pathlib.Path(sys.argv[1])
names = sorted((path.parent.name for path in folder.glob("*/index.html")), key=order, reverse=True)
releases = [name for name in names if order(name)]
entries = [{"version": name, "title": name, "aliases": []} for name in names]
(folder / "versions.json").write_text(json.dumps(entries, indent=1) + "\n")
newest = (releases or names)[0]
(folder / "index.html").write_text(
    f'<!doctype html><meta http-equiv="refresh" content="0; url={newest}/index.html">\n')
