"""The licence of each Debian source package, project or Go module, whose code may be in a shipped program.

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
    "github.com/cespare/xxhash/v2": "MIT",
    "github.com/dustin/go-humanize": "MIT",
    "github.com/google/uuid": "BSD-3-Clause",
    "github.com/klauspost/compress": "Apache-2.0 AND BSD-3-Clause AND MIT",
    "github.com/klauspost/cpuid/v2": "MIT",
    "github.com/klauspost/crc32": "BSD-3-Clause",
    "github.com/minio/crc64nvme": "Apache-2.0",
    "github.com/minio/md5-simd": "Apache-2.0 AND BSD-3-Clause",
    "github.com/minio/minio-go/v7": "Apache-2.0",
    "github.com/philhofer/fwd": "MIT",
    "github.com/rs/xid": "MIT",
    "github.com/tinylib/msgp": "MIT",
    "github.com/zeebo/xxh3": "BSD-2-Clause",
    "glibc": "LGPL-2.1-or-later",
    "gloo": "BSD-3-Clause",
    "go": "BSD-3-Clause",
    "go.yaml.in/yaml/v3": "Apache-2.0 AND MIT",
    "golang.org/x/crypto": "BSD-3-Clause",
    "golang.org/x/crypto/x509roots/fallback": "BSD-3-Clause",
    "golang.org/x/net": "BSD-3-Clause",
    "golang.org/x/sys": "BSD-3-Clause",
    "golang.org/x/text": "BSD-3-Clause",
    "gopkg.in/ini.v1": "Apache-2.0",
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
