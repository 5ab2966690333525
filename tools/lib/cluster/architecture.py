"""This machine's processor, as Go, Debian and Kubernetes call it: amd64, arm64."""

import platform

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
