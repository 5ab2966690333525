"""What NVML, NVIDIA's management library, tells of one GPU, for lockstep.report().

    gpu = lockstep_gpu.Gpu(local_rank)
    lockstep.report(step=step, **gpu.figures())

lockstep_torch.watch() does that by itself, every few seconds. It needs the driver's libcuda.so.1 and
libnvidia-ml.so.1, and nothing else of NVIDIA's; without them there are no figures.
"""

import ctypes
from typing import Dict

__all__ = ["Gpu"]

_SUCCESS = 0
_SM_CLOCK = 1  # nvmlClockType_t
# Bits of nvmlDeviceGetCurrentClocksEventReasons, as nvml.h has them.
_POWER = 0x4 | 0x80  # a cap, a brake
_HEAT = 0x20 | 0x40  # by software, by hardware
_HARDWARE = 0x8


class Gpu:
    """The GPU that CUDA numbers so in this process."""

    def __init__(self, ordinal: int) -> None:
        """Raises OSError where there is no driver, no NVML or no such GPU."""
        self._nvml = ctypes.CDLL("libnvidia-ml.so.1")
        address = _pci_address(ordinal)
        self._device = ctypes.c_void_p()
        find = self._nvml.nvmlDeviceGetHandleByPciBusId_v2
        if self._nvml.nvmlInit_v2() != _SUCCESS:
            raise OSError("nvmlInit failed")
        if find(address, ctypes.byref(self._device)) != _SUCCESS:
            raise OSError(f"NVML does not know the GPU at {address.decode()}")

    def figures(self) -> Dict[str, float]:
        """By the names of docs/guides/programs.md; what this GPU does not tell is left out."""
        told: Dict[str, float] = {}
        index, clock, most = ctypes.c_uint(), ctypes.c_uint(), ctypes.c_uint()
        bits = ctypes.c_ulonglong()
        if self._ask(("nvmlDeviceGetIndex",), ctypes.byref(index)):
            told["gpu_index"] = index.value
        if self._ask(("nvmlDeviceGetClockInfo",), _SM_CLOCK, ctypes.byref(clock)):
            told["gpu_sm_clock_hertz"] = clock.value * 1e6
        if self._ask(("nvmlDeviceGetMaxClockInfo",), _SM_CLOCK, ctypes.byref(most)):
            told["gpu_max_sm_clock_hertz"] = most.value * 1e6
        reasons = ("nvmlDeviceGetCurrentClocksEventReasons",
                   "nvmlDeviceGetCurrentClocksThrottleReasons")  # until CUDA 12.2
        if self._ask(reasons, ctypes.byref(bits)):
            for by, mask in (("power", _POWER), ("heat", _HEAT), ("hardware", _HARDWARE)):
                told[f"gpu_slowed_by_{by}"] = 1 if bits.value & mask else 0
        return told

    def _ask(self, names, *arguments) -> bool:  # type: ignore[no-untyped-def]
        for name in names:
            function = getattr(self._nvml, name, None)
            if function is not None:
                return function(self._device, *arguments) == _SUCCESS
        return False


def _pci_address(ordinal: int) -> bytes:
    cuda = ctypes.CDLL("libcuda.so.1")
    attributes = []
    device = ctypes.c_int()
    if cuda.cuInit(0) != _SUCCESS or cuda.cuDeviceGet(ctypes.byref(device), ordinal) != _SUCCESS:
        raise OSError(f"CUDA shows no GPU {ordinal}")
    for attribute in (50, 33, 34):  # CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, _BUS_ID, _DEVICE_ID
        value = ctypes.c_int()
        if cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, device) != _SUCCESS:
            raise OSError(f"CUDA does not tell where GPU {ordinal} is")
        attributes.append(value.value)
    return "{:04x}:{:02x}:{:02x}.0".format(*attributes).encode()
