"""The licence of each Debian source package, or project, whose code may be in a shipped program.

Someone has read the copyright file of each. A package that is missing here stops sbom.py and notice.py.
"""

from errors import PackageError

# SPDX expressions, for what gets into programs; build scripts and tests of a package can differ.
LICENCES = {
    "c-ares": "MIT",
    "cli11": "BSD-3-Clause",
    "curl": "curl",
    "fmtlib": "MIT",
    "gcc-12": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "glibc": "LGPL-2.1-or-later",
    "gloo": "BSD-3-Clause",
    "hwloc": "BSD-3-Clause",
    "libevent": "BSD-3-Clause",
    "llvm-toolchain-19": "Apache-2.0 WITH LLVM-exception",
    "nlohmann-json3": "MIT",
    "node-preact": "MIT",
    "onednn": "Apache-2.0",
    "openssl": "Apache-2.0",
    "pmix": "BSD-3-Clause",
    "prometheus-cpp": "MIT",
    "re2": "BSD-3-Clause",
    "simdjson": "Apache-2.0",
    "spdlog": "MIT",
    "yaml-cpp": "MIT",
    "zlib": "Zlib",
}


class Unknown(PackageError):
    """A package that nobody has judged."""


def of(name):
    try:
        return LICENCES[name]
    except KeyError:
        raise Unknown(f"{name} is linked into a program, and tools/lib/package/licences.py does not "
                      f"have its licence. Read the package's copyright file, then add it there or "
                      f"do not link it.") from None
