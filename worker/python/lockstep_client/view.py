"""How a job looks: one line of text, or HTML that is replaced in place in a notebook."""

from __future__ import annotations

import html as _html
import sys
import time
from typing import Any, Callable, List, Optional, Tuple

from lockstep_client.packages import need
from lockstep_client.status import Status

REDRAW_SECONDS = 0.5
_MACHINES = 64  # that are drawn; the status itself lists the worst 100
_LAST_LINES = 20
_COLORS = {"Running": "#2e7d32", "Succeeded": "#2e7d32", "Finished": "#2e7d32", "Failed": "#c62828",
           "Lost": "#c62828", "Restarting": "#ef6c00", "Stopping": "#ef6c00"}
_STYLE = "border-collapse:collapse;text-align:left"


def line(name: str, status: Status) -> str:
    """The job in a line: `job gpt: Running, 2/2 machines, 1200/5000 24% eta 1h10m, 1 restart`."""
    return f"job {name}: " + ", ".join(value for _, value in _facts(status))


def html(name: str, status: Status) -> str:
    """The job as HTML: state, progress, machines and the last failure. All texts are escaped."""
    state = status.state or "Pending"
    parts = [f'<div class="lockstep"><b>{_text(name)}</b> '
             f'<b style="color:{_COLORS.get(state, "#616161")}">{_text(state)}</b>']
    percent = status.progress.percent if status.progress else None
    if percent is not None:
        parts.append(f'<progress max="100" value="{_text(percent)}" style="width:100%">'
                     "</progress>")
    rows = "".join(f"<tr><th style='padding-right:1em'>{_text(label)}</th>"
                   f"<td>{_text(value)}</td></tr>"
                   for label, value in _facts(status)[1:] + _details(status))
    parts.append(f'<table style="{_STYLE}">{rows}</table>' if rows else "")
    parts.append(_machines(status))
    failure = status.last_failure
    if failure is not None and failure.stderr:
        last = "\n".join(failure.stderr.splitlines()[-_LAST_LINES:])
        parts.append(f'<details {"open" if state == "Failed" else ""}><summary>last failure: '
                     f"{_text(failure.message or '')}</summary><pre>{_text(last)}</pre></details>")
    return "".join(parts) + "</div>"


def _facts(status: Status) -> List[Tuple[str, str]]:
    facts: List[Tuple[str, str]] = [("state", status.state or "Pending")]
    if status.state in ("Failed", "Queued", "Suspended", "Unknown") and status.reason:
        facts.append(("reason", status.reason))
    if status.state not in ("Succeeded", "Failed") and status.ready:
        facts.append(("ready", f"{status.ready} machines"))
    if status.progress_text:
        facts.append(("progress", status.progress_text))
    restarts = status.restarts.total if status.restarts else None
    if restarts:
        facts.append(("restarts", f"{restarts} restart{'s' if restarts > 1 else ''}"))
    return facts


def _details(status: Status) -> List[Tuple[str, str]]:
    details = []
    if status.gang_generation:
        details.append(("generation", status.gang_generation))
    for metric in (status.progress.metrics if status.progress else None) or []:
        details.append((metric.name or "", metric.value or ""))
    if status.ledger and status.ledger.goodput:
        details.append(("productive", status.ledger.goodput))
    return details


def _machines(status: Status) -> str:
    cells = []
    for machine in (status.machine_statuses or [])[:_MACHINES]:
        state = machine.state or ""
        where = f", node {machine.node}" if machine.node else ""
        cells.append(f'<span title="{_text(f"machine {machine.index}: {state}{where}")}" '
                     f'style="display:inline-block;width:1em;height:1em;margin:1px;'
                     f'background:{_COLORS.get(state, "#9e9e9e")}"></span>')
    return f"<div>{''.join(cells)}</div>" if cells else ""


def _text(value: object) -> str:
    """The value escaped, whatever its type: a status need not keep to its schema."""
    return _html.escape(str(value), quote=True)


class Live:
    """A view that is replaced in place. It shows nothing outside of a notebook."""

    def __init__(self) -> None:
        self._handle: Optional[Any] = None
        self._shown, self._next = "", 0.0
        self._on = in_notebook()

    def show(self, name: str, status: Callable[[], Status], last: bool = False) -> None:
        """Shows the status, if it has changed, at most twice a second. `last`: in any case."""
        if not self._on or (time.monotonic() < self._next and not last):
            return
        self._next = time.monotonic() + REDRAW_SECONDS
        text = html(name, status())
        if text == self._shown:
            return
        self._shown = text
        notebook = need("IPython.display", "ipython", "a view in a notebook")
        if self._handle is None:
            self._handle = notebook.display(notebook.HTML(text), display_id=True)
        else:
            self._handle.update(notebook.HTML(text))


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    module = sys.modules.get("IPython")  # a kernel has imported it
    shell = module.get_ipython() if module is not None else None
    return shell is not None and getattr(shell, "kernel", None) is not None
