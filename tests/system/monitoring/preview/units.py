"""Values as Grafana writes them, in the units that the dashboards use."""

import math

_SHORT = [(1e9, " Bil"), (1e6, " Mil"), (1e3, " K"), (1, "")]
_BYTES = [(2 ** 40, " TiB"), (2 ** 30, " GiB"), (2 ** 20, " MiB"), (2 ** 10, " KiB"), (1, " B")]
_SECONDS = [(86400, " days"), (3600, " hours"), (60, " mins"), (1, " s"), (1e-3, " ms"),
            (1e-6, " µs")]
_FLOPS = [(1e15, " PFLOP/s"), (1e12, " TFLOP/s"), (1e9, " GFLOP/s"), (1e6, " MFLOP/s"), (1, " FLOP/s")]
_SUFFIX = {"reqps": " req/s", "watt": " W", "celsius": " °C", "none": ""}


def text(value, unit, decimals=None):
    if value is None or math.isnan(value):
        return "no value"
    if unit == "percentunit":
        return _number(value * 100, decimals) + "%"
    if unit in _SUFFIX:
        return _number(value, decimals) + _SUFFIX[unit]
    steps = {"s": _SECONDS, "bytes": _BYTES, "Bps": _BYTES, "flops": _FLOPS}.get(unit, _SHORT)
    end = "/s" if unit == "Bps" else ""
    for size, suffix in steps:
        if abs(value) >= size:
            return _number(value / size, decimals) + suffix + end
    smallest = steps[-1][1] if value else {"s": " s", "bytes": " B", "Bps": " B"}.get(unit, "")
    return _number(value / (steps[-1][0] if value else 1), decimals) + smallest + end


def _number(value, decimals):
    if decimals is None:
        decimals = 0 if value == round(value) else 2 if abs(value) < 10 else 1 if abs(
            value) < 100 else 0
    return f"{value:.{decimals}f}"


def ticks(low, high, count, unit="none"):
    """Round values that cover low to high; at most `count` steps."""
    if high <= low:
        high = low + 1
    if unit in ("bytes", "Bps"):
        size = next(size for size, _ in _BYTES if high >= size or size == 1)
        return [size * mark for mark in ticks(low / size, high / size, count)]
    rough = (high - low) / count
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [step * i for i in range(first, last + 1)]
