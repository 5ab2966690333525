"""tools/package worker-cuda-image: which files of NVIDIA's wheels the image takes, and where it has them."""

import re
import sys
import zipfile

import pytest
from paths import ROOT

sys.path[:0] = [str(ROOT / "tools/lib" / folder) for folder in ("package", "")]

import cuda_image
from errors import PackageError

FILES = {"nvidia_cublas-13-py3-none-any.whl": [
             "nvidia/cu13/lib/libcublasLt.so.13", "nvidia/cu13/lib/libcublas.so.13", "nvidia/cu13/include/cublas.h",
             "nvidia_cublas-13.dist-info/licenses/License.txt"],
         "nvidia_nccl_cu13-2-py3-none-any.whl": [
             "nvidia/nccl/lib/libnccl.so.2", "nvidia_nccl_cu13-2.dist-info/licenses/License.txt"]}


@pytest.fixture
def wheels(tmp_path):
    for name, files in FILES.items():
        with zipfile.ZipFile(tmp_path / name, "w") as wheel:
            for file in files:
                wheel.writestr(file, file)
    return [tmp_path / name for name in FILES]


@pytest.mark.parametrize(("architecture", "folder"), [("amd64", "x86_64-linux-gnu"), ("arm64", "aarch64-linux-gnu")])
def test_image_has_two_libraries_in_the_folder_of_the_architecture_and_their_licences(
        wheels, tmp_path, architecture, folder):
    cuda_image.unpack(wheels, tmp_path / "root", architecture)
    found = {str(path.relative_to(tmp_path / "root")): path.read_text() for path in (tmp_path / "root").rglob("*")
             if path.is_file()}
    assert found == {
        f"usr/lib/{folder}/libcublasLt.so.13": FILES["nvidia_cublas-13-py3-none-any.whl"][0],
        f"usr/lib/{folder}/libnccl.so.2": FILES["nvidia_nccl_cu13-2-py3-none-any.whl"][0],
        "usr/share/doc/nvidia_cublas/License.txt": FILES["nvidia_cublas-13-py3-none-any.whl"][3],
        "usr/share/doc/nvidia_nccl_cu13/License.txt": FILES["nvidia_nccl_cu13-2-py3-none-any.whl"][1]}


def test_wheel_without_the_library_is_refused(wheels, tmp_path):
    with pytest.raises(PackageError, match=r"have no libnccl\.so\.2$"):
        cuda_image.unpack(wheels[:1], tmp_path / "root", "amd64")


def test_each_wheel_has_a_hash_for_each_architecture():
    lines = [line for line in cuda_image.LIBRARIES.read_text().splitlines() if not line.startswith("#")]
    assert len(lines) == 2
    for line in lines:
        assert len(re.findall(r" --hash=sha256:[0-9a-f]{64}(?= |$)", line)) == len(cuda_image.MACHINES), line
