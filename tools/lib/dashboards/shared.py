"""Panels that both dashboards have, for the jobs that match the label selector `where`."""

from dashboards.grafana import Query, State, bar_gauge, stat, timeseries

RATE = "$__rate_interval"
RANGE = "$__range"


def quantile(share, histogram, where="", by="", over=RATE):
    """Estimated from a histogram's buckets; `by`: labels that tell the lines apart."""
    labels = f"{by}, le" if by else "le"
    return (f"histogram_quantile({share}, sum by ({labels})"
            f" (rate({histogram}_bucket{{{where}}}[{over}])))")


def mean(name, where="", by="", over=RATE):
    """Of a histogram or a summary: sum over count. Absent where nothing was observed."""
    return (f"sum by ({by}) (increase({name}_sum{{{where}}}[{over}]))"
            f" / (sum by ({by}) (increase({name}_count{{{where}}}[{over}])) > 0)")


def share(counter, part, where, by="", over=RANGE):
    """Of a counter: how much of it grew under `part`."""
    grouping = f" by ({by})" if by else ""
    return (f"sum{grouping} (increase({counter}{{{part},{where}}}[{over}]))"
            f" / (sum{grouping} (increase({counter}{{{where}}}[{over}])) > 0)")


def goodput(where, by="", over=RANGE):
    """The productive share. Absent for jobs of which no step was ever reported."""
    def grown(state):
        grouping = f" by ({by})" if by else ""
        return f'sum{grouping} (increase({GOODPUT}{{state="{state}",{where}}}[{over}]))'
    on = f"on ({by})" if by else "on ()"
    return (f"{share(GOODPUT, PRODUCTIVE, where, by, over)}"
            f" unless {on} ({grown('unknown')} > 0 and {on} {grown('productive')} == 0)")


def restarts_of(where, by=""):
    """As in status.restarts.total: of gangs, and of ranks alone, under every machine 0."""
    grouping = f" by ({by})" if by else ""
    return (f"clamp_min(max{grouping} (lockstep_generations_total{{{where}}}) - 1, 0)"
            f" + max{grouping} (lockstep_rank_restarts_total{{{where}}})")


# In the order of core::MemberPhase.
MACHINE_PHASES = [
    State("Joining", "#8F8F8F"), State("Idle", "light-blue"), State("Starting", "blue"),
    State("Running", "green"), State("Finished", "dark-green"), State("Stopping", "red"),
    State("Stopped", "orange"), State("Exiting", "purple")]

GOODPUT = "lockstep_goodput_seconds_total"
PRODUCTIVE = 'state="productive"'
GOODPUT_STATES = {"productive": "green", "unknown": "#8F8F8F", "lost": "red", "restart": "orange",
                  "waiting": "yellow", "checkpoint": "blue"}
GOODPUT_COLORS = [(None, "red"), (0.8, "orange"), (0.95, "green")]


def restarts(where, width=8):
    return timeseries(
        "Restarts by cause",
        "Restarts of gangs, by the cause that ended the previous generation, and of ranks alone. "
        "StopRequested is a suspend, a drain or a new size. It is no failure. A restart that "
        "began with another machine 0 has no cause here.", "short",
        Query(f"sum by (cause) (increase(lockstep_restarts_total{{{where}}}[{RATE}])) > 0",
              "{{cause}}"),
        Query(f"sum (increase(lockstep_rank_restarts_total{{{where}}}[{RATE}])) > 0",
              "rank alone"),
        width=width, bars=True, stacked="normal", noValue="none", decimals=0)


def time_between_failures(where, width=8):
    failures = f'increase(lockstep_restarts_total{{cause!="StopRequested",{where}}}[{RANGE}])'
    return stat(
        "Time between failures",
        "MTBF: the job's time in this range, divided by its restarts without a request.",
        "s",
        Query(f"sum(increase({GOODPUT}{{{where}}}[{RANGE}])) / (sum({failures}) > 0)",
              instant=True), width=width, noValue="no failure")


def recovery_quantiles(where, width=8):
    return bar_gauge(
        "Recovery by phase",
        "Parts of the recoveries in this time range. detect: from the failure to the order to "
        "stop. stop: until all processes are dead. spawn: from the announcement of the next "
        "generation until all of its processes run. first_step: until the first step is reported. "
        "Waiting for a machine or a backoff is between stop and spawn; goodput counts it as "
        "waiting.", "s",
        Query(quantile(0.5, "lockstep_recovery_seconds", where, "phase", RANGE),
              "{{phase}}, median", instant=True),
        Query(quantile(0.95, "lockstep_recovery_seconds", where, "phase", RANGE),
              "{{phase}}, 95 %", instant=True), width=width)


def recovery_over_time(where, width=8):
    return timeseries(
        "Recovery over time",
        "Mean length of each part of the recoveries that ended at that time. Empty without a "
        "recovery.", "s",
        Query(mean("lockstep_recovery_seconds", where, "phase"), "{{phase}}"),
        width=width, bars=True, stacked="normal")


def goodput_by_state(where, width=8):
    return timeseries(
        "Where the time goes",
        "productive: new steps. unknown: no step was ever reported. lost: steps repeated after a "
        "restart. restart: stopping, starting and preparing the first step. waiting: a machine is missing, a backoff or an "
        "old lease has not ended, or the job is suspended. checkpoint: a process waits for the "
        "answer to its commit.", "percentunit",
        Query(f"sum by (state) (rate({GOODPUT}{{{where}}}[{RATE}]))"
              f" / ignoring (state) group_left sum (rate({GOODPUT}{{{where}}}[{RATE}]))",
              "{{state}}"),
        width=width, stacked="normal", max=1, colors=GOODPUT_STATES)


def lost_steps(where, by, width=8):
    return timeseries(
        "Lost steps",
        "Repeated steps, because their results were lost with a generation. The count is as exact "
        "as the reports are frequent.", "short",
        Query(f"sum by ({by}) (increase(lockstep_lost_steps_total{{{where}}}[{RATE}]))",
              f"{{{{{by}}}}}"), width=width, bars=True, decimals=0)
