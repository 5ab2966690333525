"""The report of tests/system/gpu/run as Markdown."""

MARK = "<!-- report -->"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell).replace("|", "/") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def number(value, digits=3):
    return "" if value is None else f"{value:,.{digits}g}" if abs(value) < 1000 else f"{value:,.0f}"


def share(value):
    return "" if value is None else f"{value:.0%}"


def milliseconds(seconds):
    return number(seconds * 1e3)


def machine(steps, lines):
    found = steps.get("machine", {})
    rows = [(name, value) for gpu in found.get("gpus", []) for name, value in gpu.items()]
    rows += [(name, found[name]) for name in ("trainer", "libnccl.so.2", "libcublasLt.so.13")
             if name in found]
    for line in lines:
        if line.get("check") == "device":
            rows += [(name, line[name]) for name in ("device", "capability", "driver", "cublaslt")]
            break
    return table(["", ""], rows)


def of(lines, check):
    return [line for line in lines if line.get("check") == check]


def speed(steps):
    ours, theirs = steps.get("speed", {}), steps.get("torch.compile", {})
    if not ours.get("passed"):
        return "The run failed; see the steps."
    rows = [("tokens a second", number(ours["tokens_per_second"]), number(theirs.get("tokens_per_second"))),
            ("a step, ms", milliseconds(ours["step_seconds"]),
             milliseconds(theirs["step_seconds"]) if theirs.get("passed") else ""),
            ("memory, MB", number(ours["memory"] / 1e6), number(theirs["peak_bytes"] / 1e6)
             if theirs.get("passed") else ""),
            ("MFU", share(ours["mfu"]), "")]
    said = (f"\n\nLockstep to PyTorch {theirs['torch']}: {theirs['lockstep_to_torch']}."
            if theirs.get("passed") else
            f"\n\nBeside PyTorch: {theirs.get('left_out') or theirs.get('why') or 'not run'}.")
    return (f"{ours['batch']} sequences of {ours['context']} tokens a step, bf16, {ours['steps']} steps; "
            f"loss {number(ours['first_loss'], 5)} to {number(ours['last_loss'], 5)}.\n\n"
            + table(["", "Lockstep", "torch.compile"], rows) + said)


def kernels(lines):
    rows = of(lines, "time by kernel")
    if not rows:
        return "Not measured."
    cells = [(row["kernel"], number(row["calls"]), milliseconds(row["seconds"]), share(row["share"]),
              number(row["bytes_per_second"] / 1e9), share(row.get("share_of_memory_limit")),
              number(row["flops_per_second"] / 1e12), share(row.get("share_of_matrix_limit")))
             for row in rows]
    return ("Events around each launch of the steps behind the first ones; bytes and flops are what the kernel needs at least. How far "
            "the longest five are from a limit is the greater of their two shares.\n\n"
            + table(["kernel", "calls a step", "ms a step", "share", "GB/s", "of memory's limit",
                     "TFLOP/s", "of the matrix limit"], cells))


def report(lines):
    steps = {line["step"]: line for line in lines if "step" in line}
    summaries = [line for line in lines if "summary" in line]
    passed = sum(line["passed"] for line in summaries)
    failed = [name for line in summaries for name in line["failed"]]
    fake = steps.get("machine", {}).get("fake")
    parts = [
        "Made by `tests/system/gpu/run --page`."
        + (" **On the fakes: the figures say nothing about a GPU.**" if fake else "")
        + f" {passed} steps passed, {len(failed)} failed{': ' + ', '.join(failed) if failed else ''}.",
        "### The machine\n\n" + machine(steps, lines),
        "### GPT-2 124M\n\n" + speed(steps),
        "### Time by kernel\n\n" + kernels(lines),
        "### Start-up\n\n" + table(["part", "s", ""], [
            (line["part"], number(line["seconds"]), line["error"]) for line in of(lines, "start")]),
        "### Products\n\n" + table(["product", "TFLOP/s", "error", "same bits"], [
            (line["product"], number(line["tflops"]), number(line["error"]),
             "yes" if line["same_bits"] else "**no**") for line in of(lines, "product")]),
        "### Kernels against double precision\n\n" + table(["kernel", "error", ""], [
            (line["kernel"], number(line["error"]), line["wrong"]) for line in of(lines, "kernel")]),
        "### A rank is lost, and the other makes a new communicator\n\n" + table(
            ["round", "connected in, s", "aborted in, s"],
            [(line["round"], number(line["connect_seconds"]), number(line["abort_seconds"]))
             for line in of(lines, "again")]),
        "### All steps\n\n" + table(["step", "", "s"], [
            (name, "left out: " + line["left_out"] if "left_out" in line
             else "passed" if line["passed"] else "**failed**: " + line["why"].replace("\n", " "),
             line.get("seconds", "")) for name, line in steps.items()]),
    ]
    return "\n\n".join(parts) + "\n"


def put(file, lines):
    """Behind the page's mark; a page that is not there is the report alone."""
    text = file.read_text() if file.exists() else MARK
    head, mark, _ = text.partition(MARK)
    if not mark:
        raise SystemExit(f"{file} has no line {MARK}, behind which the report goes")
    file.write_text(f"{head}{MARK}\n{report(lines)}")
