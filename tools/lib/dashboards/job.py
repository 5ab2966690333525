"""The Job dashboard: one TrainingJob, its machines and ranks."""

from crd.core import CORE
from dashboards.gpu import gpus
from dashboards.grafana import (
    Query, Row, State, bar_gauge, dashboard, gauge, query_variable, stat, state_timeline,
    timeseries)
from dashboards.shared import (
    GOODPUT_COLORS, MACHINE_PHASES, RATE, goodput, goodput_by_state, lost_steps, mean, quantile,
    recovery_over_time, recovery_quantiles, restarts, restarts_of, time_between_failures)

WHERE = 'namespace="$namespace",trainingjob="$trainingjob"'

# In the order of core::CoordinatorPhase.
GANG_PHASES = [
    State("Gathering", "#8F8F8F"), State("Fencing", "purple"), State("Backoff", "orange"),
    State("Preparing", "light-blue"), State("Starting", "blue"), State("Running", "green"),
    State("Stopping", "red"), State("Held", "yellow"), State("Verdict", "dark-green"),
    State("Done", "dark-green")]
# The parts of a step that the built-in trainer reports; a program may report them as well.
STEP_PARTS = "data|forward|backward|collective_wait|optimizer|checkpoint"
# Names under which the agent, too, takes no figure of a program's own.
NO_FIGURE = "|".join(["gpu_.*", ".*_seconds", ".*_bytes", ".*_hertz",
                      *(figure["reported"] for figure in CORE["figures"])])


def job():
    of_namespace = 'label_values(lockstep_gang_phase{namespace="$namespace"}, trainingjob)'
    return dashboard(
        "lockstep-job", "Lockstep / Job", "One TrainingJob: its gang, machines and ranks.",
        [query_variable("namespace", "Namespace", "label_values(lockstep_gang_phase, namespace)"),
         query_variable("trainingjob", "Job", of_namespace)],
        [_now(), _state(), _training(), _checkpoints(), _recovery(), _machines(), gpus(WHERE)])


def _now():
    step = f"max(lockstep_rank_step{{{WHERE}}})"
    total = f"max(lockstep_rank_total_steps{{{WHERE}}})"
    pace = (f"sum(rate(lockstep_step_seconds_sum{{{WHERE}}}[5m]))"
            f" / (sum(rate(lockstep_step_seconds_count{{{WHERE}}}[5m])) > 0)")
    return Row("Now", [
        stat("Gang", "Phase of the gang, as machine 0 reports it.", "none",
             Query(_code("lockstep_gang_phase", GANG_PHASES)), mappings=_numbered(GANG_PHASES),
             width=3),
        gauge("Progress", "Steps done, as a share of all steps of the job.",
              Query(f"{step} / {total}"), width=3),
        stat("Time left", "Time for the remaining steps at the pace of the last five "
             "minutes, without restarts.", "s", Query(f"({total} - {step}) * ({pace})"), width=3),
        stat("Loss", "Mean of the losses that the ranks reported last.", "short",
             Query(f"avg(lockstep_rank_loss{{{WHERE}}})"), decimals=3, width=3),
        stat("Tokens/s", "Tokens per second of all ranks together.", "short",
             Query(f"sum(lockstep_rank_tokens_per_second{{{WHERE}}})"), width=3),
        gauge("Goodput", "Share of the job's time in this range that went into new "
              "steps. Empty if no step was reported.", Query(goodput(WHERE)), width=3,
              thresholds=GOODPUT_COLORS),
        stat("Checkpoint age", "Time since the last commit was granted. A restart loses the "
             "work since then.", "s", Query(f"min(lockstep_checkpoint_age_seconds{{{WHERE}}})"),
             width=3, noValue="none yet"),
        stat("Ranks up", "Processes that run now.", "short",
             Query(f"sum(lockstep_rank_up{{{WHERE}}})"), width=3),
    ])


def _state():
    return Row("State", [
        state_timeline("Gang", "Phases of the gang over time. The job trains in phase "
                       "Running.",
                       Query(_code("lockstep_gang_phase", GANG_PHASES), "gang"),
                       _numbered(GANG_PHASES), height=4),
        state_timeline("Machines", "Phase of each machine. A gap means that the machine did not "
                       "answer.",
                       Query(_code("lockstep_machine_phase", MACHINE_PHASES, "machine"),
                             "machine {{machine}}"), _numbered(MACHINE_PHASES), height=8),
    ])


def _training():
    of_rank = f"lockstep_rank_step_seconds_sum{{{WHERE}}}[{RATE}]"
    steps_of_rank = f"lockstep_rank_step_seconds_count{{{WHERE}}}[{RATE}]"
    return Row("Training", [
        timeseries("Steps", "The last step that the ranks reported. It goes back when a restart "
                   "resumes from a checkpoint.", "short",
                   Query(f"max(lockstep_rank_step{{{WHERE}}})", "furthest rank"),
                   Query(f"min(lockstep_rank_step{{{WHERE}}})", "slowest rank")),
        timeseries("Loss", "Mean, lowest and highest loss of the ranks. Also the loss on held-out "
                   "data, if the program reports it as the built-in trainer does.", "short",
                   Query(f"avg(lockstep_rank_loss{{{WHERE}}})", "mean"),
                   Query(f"min(lockstep_rank_loss{{{WHERE}}})", "lowest"),
                   Query(f"max(lockstep_rank_loss{{{WHERE}}})", "highest"),
                   Query(f"avg(lockstep_trainer_validation_loss{{{WHERE}}})", "held-out data"),
                   from_zero=False),
        timeseries("Reported figures", "Figures that the program reports under names of its own, "
                   "such as an accuracy, as a mean over the ranks. Times and sizes are left out.",
                   "short",
                   Query(f'avg by (name) (lockstep_reported{{name!~"{NO_FIGURE}",{WHERE}}})',
                         "{{name}}"), from_zero=False, noValue="none"),
        timeseries("Tokens per second", "Sum over the ranks of each machine.", "short",
                   Query(f"sum by (machine) (lockstep_rank_tokens_per_second{{{WHERE}}})",
                         "machine {{machine}}"), stacked="normal"),
        timeseries("Model FLOP/s", "Sum over the ranks, if they report `teraflops` as the built-in "
                   "trainer does. The model takes 6 FLOP for each parameter and token, plus its "
                   "attention.", "flops",
                   Query(f'sum(lockstep_reported{{name="teraflops",{WHERE}}}) * 1e12',
                         "all ranks")),
        timeseries("Model FLOP/s utilization (MFU)", "Model FLOP/s as a share of the GPUs' peak, "
                   "if their type is known. Mean and lowest of the ranks.", "percentunit",
                   Query(f'avg(lockstep_reported{{name="mfu",{WHERE}}})', "mean"),
                   Query(f'min(lockstep_reported{{name="mfu",{WHERE}}})', "lowest")),
        timeseries("Scaling efficiency", "Tokens per second of a rank, divided by those of a rank "
                   "alone. 1 means no loss. Needs `measureScaling`.", "percentunit",
                   Query(f"avg(lockstep_trainer_scaling_efficiency{{{WHERE}}})", "rank 0")),
        timeseries("Step time", "Time between two reported steps of a rank.", "s",
                   Query(mean("lockstep_step_seconds", WHERE), "mean"),
                   Query(quantile(0.95, "lockstep_step_seconds", WHERE), "95 %")),
        timeseries("Step time by part", "Parts of the last step, as a mean over the ranks, if the "
                   "program reports them as the built-in trainer does.", "s",
                   Query("avg by (name) (lockstep_reported"
                         f'{{name=~"({STEP_PARTS})_seconds",{WHERE}}})', "{{name}}"),
                   stacked="normal"),
        timeseries("Collective wait, ten longest", "The ranks that waited longest for "
                   "communication that the backward pass did not hide. The slow rank waits least.",
                   "s",
                   Query("topk(10, max by (rank) (lockstep_reported"
                         f'{{name="collective_wait_seconds",{WHERE}}}))', "rank {{rank}}")),
        timeseries("Straggler", "The machine that comes last to the collectives in nine of ten "
                   "rounds, and the share of each step that the others wait for it. 0: there is "
                   "none, or the ranks do not report how long they wait.", "percentunit",
                   Query("max by (straggler)"
                         f" (lockstep_straggler_wait_ratio{{{WHERE}}})", "machine {{straggler}}"),
                   max=1),
        timeseries("Slowest ranks", "The ten ranks with the longest mean step.", "s",
                   Query(f"topk(10, sum by (rank) (rate({of_rank}))"
                         f" / (sum by (rank) (rate({steps_of_rank})) > 0))", "rank {{rank}}")),
        timeseries("Time since a report", "The ten ranks whose last report is oldest. A hang "
                   "shows as a rising line.", "s",
                   Query("topk(10, max by (rank)"
                         f" (lockstep_rank_progress_age_seconds{{{WHERE}}}))", "rank {{rank}}")),
        timeseries("Heartbeats", "Time from a heartbeat of machine 0 to the machine's answer.",
                   "s",
                   Query(quantile(0.5, "lockstep_heartbeat_round_trip_seconds", WHERE), "median"),
                   Query(quantile(0.99, "lockstep_heartbeat_round_trip_seconds", WHERE), "99 %")),
    ])


def _checkpoints():
    return Row("Checkpoints", [
        timeseries("Checkpoint age", "Time since the last commit was granted.", "s",
                   Query(f"min(lockstep_checkpoint_age_seconds{{{WHERE}}})", "age"), width=12),
        timeseries("Commits", "Requests to commit a checkpoint. A request is refused if "
                   "its generation has ended.", "short",
                   Query("sum by (result)"
                         f" (increase(lockstep_commits_total{{{WHERE}}}[{RATE}]))", "{{result}}"),
                   width=12, bars=True, stacked="normal", decimals=0),
    ])


def _recovery():
    budget = "max by (budget) (lockstep_restart_budget_{}{{{}}})"
    return Row("Recovery", [
        restarts(WHERE),
        recovery_quantiles(WHERE),
        recovery_over_time(WHERE),
        goodput_by_state(WHERE),
        lost_steps(WHERE, "trainingjob"),
        bar_gauge("Lost machine time", "Lost machine time since machine 0 began, by "
                  "activity. status.ledger has the whole job, also by cause. WarmStartUp: every "
                  "process came from a parked interpreter. CheckpointLoad: as the slowest process "
                  "reports it.", "s",
                  Query("sum by (activity) (lockstep_machine_time_seconds"
                        f'{{activity!~"Productive|Unknown",{WHERE}}}) > 0', "{{activity}}", instant=True)),
        stat("Restarts", "Restarts of the gang and of ranks alone, in the whole life of the job, "
             "as in status.restarts.total.", "short", Query(restarts_of(WHERE), instant=True),
             width=8, height=8, decimals=0),
        time_between_failures(WHERE),
        bar_gauge("Budgets", "Failures since the budget was last full, as a share of the limit: "
                  "maxRestarts (application) and maxMachineReplacements (infrastructure). At "
                  "100 % the next failure ends the job.", "percentunit",
                  Query(f"{budget.format('used', WHERE)} / ({budget.format('limit', WHERE)} > 0)",
                        "{{budget}}", instant=True), max=1,
                  thresholds=[(None, "green"), (0.5, "orange"), (0.9, "red")]),
    ])


def _machines():
    return Row("Machines", [
        timeseries("Memory", "Memory of each machine's container, including page cache and "
                   "/dev/shm.", "bytes",
                   Query(f"max by (machine) (lockstep_memory_bytes{{{WHERE}}})",
                         "machine {{machine}}"),
                   Query(f"min(lockstep_memory_limit_bytes{{{WHERE}}})", "lowest limit")),
        timeseries("Memory, share of limit", "At 100 % the kernel first frees page cache, then "
                   "kills a process.", "percentunit",
                   Query(f"max by (machine) (lockstep_memory_bytes{{{WHERE}}}"
                         f" / lockstep_memory_limit_bytes{{{WHERE}}})", "machine {{machine}}"),
                   max=1, noValue="no limit"),
        timeseries("/dev/shm", "Used share of the shared memory. It counts as memory of the "
                   "container.", "percentunit",
                   Query(f"max by (machine) (lockstep_shared_memory_used_bytes{{{WHERE}}}"
                         f" / lockstep_shared_memory_size_bytes{{{WHERE}}})",
                         "machine {{machine}}"), max=1),
        timeseries("Memory of ranks", "The ten processes with the most resident memory.", "bytes",
                   Query("topk(10, max by (rank)"
                         f" (lockstep_rank_resident_memory_bytes{{{WHERE}}}))", "rank {{rank}}")),
        timeseries("CPUs in use", "CPU time of each machine's ranks, in CPUs.", "short",
                   Query("sum by (machine)"
                         f" (rate(lockstep_rank_cpu_seconds_total{{{WHERE}}}[{RATE}]))",
                         "machine {{machine}}"), stacked="normal"),
        timeseries("Network", "Bytes that each machine's interfaces receive, and send below zero. "
                   "The loopback is left out.", "Bps",
                   Query("sum by (machine) (rate(lockstep_machine_network_receive_bytes_total"
                         f"{{{WHERE}}}[{RATE}]))", "machine {{machine}} in"),
                   Query("-sum by (machine) (rate(lockstep_machine_network_transmit_bytes_total"
                         f"{{{WHERE}}}[{RATE}]))", "machine {{machine}} out"), from_zero=False),
        timeseries("RDMA", "Bytes that each machine's RDMA ports receive, and send below zero.",
                   "Bps",
                   Query("sum by (machine) (rate(lockstep_machine_rdma_receive_bytes_total"
                         f"{{{WHERE}}}[{RATE}]))", "machine {{machine}} in"),
                   Query("-sum by (machine) (rate(lockstep_machine_rdma_transmit_bytes_total"
                         f"{{{WHERE}}}[{RATE}]))", "machine {{machine}} out"),
                   from_zero=False, noValue="no RDMA ports"),
        timeseries("CPU throttled", "Share of time in which the CPU limit stopped a container's "
                   "threads. Above 100 % if it stopped several at once.", "percentunit",
                   Query("max by (machine)"
                         f" (rate(lockstep_cpu_throttled_seconds_total{{{WHERE}}}[{RATE}]))",
                         "machine {{machine}}")),
        state_timeline("Binding", "How each rank is bound to CPUs and memory. Partial is less "
                       "than topology.bind asks; every other value is as it asks.",
                       Query(_binding(), "rank {{rank}}"), _numbered(BINDINGS), width=12,
                       height=8),
        timeseries("Memory on other NUMA nodes", "The ten processes with the most memory outside "
                   "the nodes of their binding. Files are not counted.", "bytes",
                   Query('topk(10, max by (rank) (lockstep_rank_numa_memory_bytes'
                         f'{{locality="remote",{WHERE}}}))', "rank {{rank}}"),
                   noValue="one NUMA node"),
        timeseries("Dropped output", "Bytes of the ranks' output that were dropped, because the "
                   "console's reader was slow, or the files' disk was full or over its cap.", "Bps",
                   Query("sum by (sink)"
                         f" (rate(lockstep_log_dropped_bytes_total{{{WHERE}}}[{RATE}]))",
                         "{{sink}}"), width=12),
    ])


BINDINGS = [State("None", "#8F8F8F"), State("Partial", "orange"),
            *(State(mode, "green") for mode in (
                "Node", "Socket", "CoreComplex", "Exclusive", "Interleave", "Map"))]


def _binding():
    selected = [f'{i} * lockstep_rank_binding_info{{mode="{state.name}",{WHERE}}}'
                for i, state in enumerate(BINDINGS)]
    return f"max by (rank) ({' or '.join(selected)})"


def _code(metric, states, by=""):
    """The number of the one phase whose sample is 1."""
    selected = [f'{i} * {metric}{{phase="{state.name}",{WHERE}}}'
                for i, state in enumerate(states)]
    return f"max by ({by}) ({' or '.join(selected)})"


def _numbered(states):
    return dict(enumerate(states))
