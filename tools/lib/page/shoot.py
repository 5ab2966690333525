"""Remakes the pictures of the page in the documentation, from a real run with two restarts.

    .venv/bin/python tools/lib/page/shoot.py [OUT_DIR]

A program that only sleeps and reports runs on 4 machines x 4 processes of this computer; rank 9 is
slow, and two ranks are killed. Needs the programs in build/release/bin, and what tools/deps installs.
"""

import io
import os
import pathlib
import signal
import sys
import tempfile

from PIL import Image
from playwright.sync_api import sync_playwright

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / folder) for folder in ("tests/lib", "tools/lib/cluster", "tools/lib")]

from run import Run, pid_of  # noqa: E402
from run_output import Output  # noqa: E402

ADDRESS = r"http://127\.0\.0\.1:\d+/#[\w-]+"
KILLED = [(60, 11), (130, 6)]  # (at this step, this rank)
LAST = 200  # the step of the picture
COLOURS = 256  # of a picture: its colours are flat
PATIENCE = 300000  # milliseconds for one of these steps
# Steps of a tenth of a second, a third of which all but rank 9 wait.
PROGRAM = """
import math, os, pathlib, sys, time
import lockstep
rank = int(os.environ["RANK"])
newest = lockstep.latest()
first = int(pathlib.Path(newest, "step").read_text()) + 1 if newest else 1
print(f"begins at step {first}", flush=True)
print(f"rank {rank} found no cache of its data", file=sys.stderr, flush=True)
for step in range(first, 1001):
    time.sleep(0.1)
    loss = 2.1 + 8.7 * math.exp(-step / 160) + 0.1 * math.sin(step)
    lockstep.report(step=step, total_steps=1000, loss=loss, tokens=8192,
                    collective_wait_seconds=0.002 if rank == 9 else 0.03 + 0.003 * (rank % 4))
    if step % 20 == 0:
        print(f"step {step}  loss {loss:.4f}", flush=True)
    if step % 40 == 0 and rank == 0:
        folder = pathlib.Path(lockstep.checkpoint_dir(), f"step-{step}")
        folder.mkdir(parents=True)
        folder.joinpath("step").write_text(str(step))
        lockstep.commit(folder)
"""


def main(out):
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        folder = pathlib.Path(folder)
        program = folder / "train.py"
        program.write_text(PROGRAM)
        run = Run(folder, "--ui", "-m", "4", "-p", "4", "--name", "gpt-small", "--checkpoint",
                  str(folder / "checkpoints"), "--", sys.executable, str(program))
        address = Output(run).wait(ADDRESS, "the address of the page")[0]
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        light = opened(browser, address, "light", (1440, 900))
        dark = opened(browser, address, "dark", (1440, 900))
        for step, rank in KILLED:
            wait_for_step(light, step)
            os.kill(pid_of(run.mark, rank), signal.SIGKILL)
            print(f"rank {rank} was killed at step {step}", flush=True)
        wait_for_step(light, LAST)
        dark.keyboard.press("g")
        dark.keyboard.press("Home")
        for _ in range(9):
            dark.keyboard.press("ArrowRight")
        dark.get_by_label("colour").select_option("waitMs")
        dark.wait_for_selector(".log .line")
        take(light, out / "page-light.png")
        take(dark, out / "page-dark.png", full_page=True)
        run.process.send_signal(signal.SIGINT)
        run.process.wait(60)


def opened(browser, address, theme, size):
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=theme)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(address)
    return page


def wait_for_step(page, step):
    page.wait_for_function("""(step) => {
      const said = document.querySelector("h1")?.innerText.replaceAll(",", "");
      return Number(said?.match(/at step (\\d+)/)?.[1]) >= step;
    }""", arg=step)


def take(page, path, **options):
    picture = Image.open(io.BytesIO(page.screenshot(**options))).convert("RGB")
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    print(path, path.stat().st_size, "bytes", flush=True)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "docs/images"))
