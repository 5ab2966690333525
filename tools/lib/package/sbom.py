"""Writes DIR/PROGRAM.spdx.json for each program: what is in it, as SPDX 2.3.

The linker's own list of files and the headers of the objects say what that is, or the modules that
a program in Go names. The same program
gives the same bytes; SOURCE_DATE_EPOCH is the time in them. A program that is a link is left out.
"""

import datetime
import hashlib
import json
import pathlib
import re
import urllib.parse

import licences
import linked
import staging

SUMMARY = "say what is in each program, as SPDX 2.3"

NAMESPACE = "https://lockstep.dev/spdx"  # a name, as SPDX asks for; nothing is loaded from there


def document(program, content, parts, number, seconds):
    """The document of `program`, whose bytes are `content` and which is of version `number`."""
    digest = hashlib.sha256(content).hexdigest()
    main = {
        "SPDXID": "SPDXRef-program", "name": program, "versionInfo": number,
        "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
        "licenseConcluded": "Apache-2.0", "licenseDeclared": "Apache-2.0",
        "copyrightText": "NOASSERTION", "primaryPackagePurpose": "APPLICATION",
        "checksums": [{"algorithm": "SHA256", "checksumValue": digest}],
    }
    created = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"{program}-{number}",
        "documentNamespace": f"{NAMESPACE}/{program}-{number}-{digest}",
        "creationInfo": {"created": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
                         "creators": [f"Tool: lockstep-sbom-{number}"]},
        "packages": [main, *(_package(part.package) for part in parts)],
        "relationships": [
            _relationship("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-program"),
            *(_relationship("SPDXRef-program", part.how, _id(part.package)) for part in parts)],
    }


def _id(package):
    name = package.name or package.source
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", f"package-{name}-{package.architecture}".rstrip("-"))


def _relationship(element, kind, other):
    return {"spdxElementId": element, "relationshipType": kind, "relatedSpdxElement": other}


def _package(package):
    licence = licences.of(package.source)
    return {
        "SPDXID": _id(package), "name": package.name or package.source,
        "versionInfo": package.version or package.source_version,
        "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
        "licenseConcluded": licence, "licenseDeclared": licence, "copyrightText": "NOASSERTION",
        "primaryPackagePurpose": "LIBRARY",
        "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                          "referenceLocator": _purl(package)}],
    }


def _purl(package):
    quoted = urllib.parse.quote
    if package.go:
        name = "stdlib" if package.source == "go" else package.source
        return f"pkg:golang/{quoted(name)}@{quoted(package.source_version, safe='')}"
    if not package.name:
        return f"pkg:generic/{quoted(package.source)}@{quoted(package.source_version, safe='')}"
    upstream = quoted(f"{package.source}@{package.source_version}", safe="")
    return (f"pkg:deb/debian/{quoted(package.name)}@{quoted(package.version, safe='')}"
            f"?arch={package.architecture}&distro=debian-12&upstream={upstream}")


def add_arguments(parser):
    linked.add_arguments(parser)
    parser.add_argument("--out", type=pathlib.Path, required=True, metavar="DIR")


def run(options):
    options.out.mkdir(parents=True, exist_ok=True)
    number, seconds = staging.version(), staging.source_date()
    for program in options.programs:
        file = options.build / "bin" / program
        if file.is_symlink():
            continue
        parts = linked.parts(options.build, program)
        made = document(program, file.read_bytes(), parts, number, seconds)
        path = options.out / f"{program}.spdx.json"
        path.write_text(json.dumps(made, indent=1) + "\n")
        print(path)
