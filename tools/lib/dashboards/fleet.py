"""The Fleet dashboard: all jobs that a Prometheus scrapes, and the operator."""

from dashboards.grafana import (
    Query, Row, State, bar_gauge, dashboard, gauge, query_variable, stat, state_timeline, table,
    timeseries)
from dashboards.shared import (
    GOODPUT_COLORS, MACHINE_PHASES, RANGE, RATE, goodput, goodput_by_state, lost_steps, quantile,
    recovery_over_time, recovery_quantiles, restarts, restarts_of)

WHERE = 'namespace=~"$namespace"'
JOB = "namespace, trainingjob"
CALLS = "lockstep_operator_api_calls_total"
# 404, 409 and 410 are part of normal work: not found, exists or was changed meanwhile, a watch is
# too old. Without an answer `code` is the kind of error.
FAILED = 'code!~"[23]..|404|409|410"'
JOB_STATES = {"Pending": "yellow", "Queued": "light-yellow", "Starting": "blue",
              "Running": "green", "Restarting": "orange",
              "Stopping": "light-blue", "Suspended": "purple", "Succeeded": "dark-green",
              "Failed": "red"}
LEADING = "on (instance) group_left () (lockstep_operator_leader == 1)"


def fleet():
    return dashboard(
        "lockstep-fleet", "Lockstep / Fleet",
        "All TrainingJobs, and the operator that manages them.",
        [query_variable("namespace", "Namespace", "label_values(lockstep_gang_phase, namespace)",
                        all_value=True)],
        [_now(), _jobs(), _start(), _restarts(), _nodes(), _goodput(), _operator()])


def _now():
    return Row("Now", [
        stat("Jobs running",
             "TrainingJobs in state Running, in all namespaces.", "short",
             Query(f'max(lockstep_operator_jobs{{state="Running"}} * {LEADING})')),
        stat("Ranks up", "Training processes that run now.", "short",
             Query(f"sum(lockstep_rank_up{{{WHERE}}})")),
        stat("Machines with ranks down",
             "Machines (pods) that answer but do not run all of their processes.",
             "short", Query(f"count(min by ({JOB}, machine) (lockstep_rank_up{{{WHERE}}}) == 0)"
                            " or vector(0)"),
             thresholds=[(None, "green"), (1, "orange")]),
        gauge("Goodput",
              "Share of the jobs' time in this range that went into new steps.",
              Query(goodput(WHERE)), thresholds=GOODPUT_COLORS),
        stat("Failing API calls",
             "Share of the operator's requests to the API server that failed. 404, 409 and 410 "
             "are no failures, because they are part of normal work.", "percentunit",
             Query(_failing()), thresholds=[(None, "green"), (0.01, "orange"), (0.1, "red")],
             decimals=1),
        stat("Leaders",
             "Operators that hold the Lease: one, except for seconds during a change. Without a "
             "leader, jobs continue and heal process failures, but no lost machine is replaced.",
             "short",
             Query("sum(lockstep_operator_leader) or vector(0)"),
             thresholds=[(None, "red"), (1, "green"), (2, "red")]),
    ])


def _failing():
    return (f"(sum(rate({CALLS}{{{FAILED}}}[{RATE}])) or vector(0))"
            f" / (sum(rate({CALLS}[{RATE}])) > 0)")


def _jobs():
    columns = [
        ("Ranks up", "short", f"sum by ({JOB}) (lockstep_rank_up{{{WHERE}}})"),
        ("Step", "short", f"max by ({JOB}) (lockstep_rank_step{{{WHERE}}})"),
        ("Progress", "percentunit", f"max by ({JOB}) (lockstep_rank_step{{{WHERE}}})"
         f" / max by ({JOB}) (lockstep_rank_total_steps{{{WHERE}}})"),
        ("Last report", "s", f"max by ({JOB}) (lockstep_rank_progress_age_seconds{{{WHERE}}})"),
        ("Tokens/s", "short", f"sum by ({JOB}) (lockstep_rank_tokens_per_second{{{WHERE}}})"),
        ("Goodput", "percentunit", goodput(WHERE, JOB)),
        ("Restarts", "short", restarts_of(WHERE, JOB)),
    ]
    # Without the data source the Job dashboard would take its own default.
    job = ("/d/lockstep-job?var-datasource=${datasource}&var-namespace=${__data.fields.Namespace}"
           "&var-trainingjob=${__data.fields.Job}&${__url_time_range}")
    return Row("Jobs", [
        timeseries("Jobs by state", "TrainingJobs in all namespaces by status.state, as the "
                   "leading operator reports them.", "short",
                   Query(f"max by (state) (lockstep_operator_jobs * {LEADING})", "{{state}}"),
                   width=12, stacked="normal", decimals=0, colors=JOB_STATES),
        timeseries("Machines by phase",
                   "Phases of the jobs' machines, as their agents report them. A machine that "
                   "does not answer is not counted.", "short",
                   Query(f"sum by (phase) (lockstep_machine_phase{{{WHERE}}})", "{{phase}}"),
                   width=12, stacked="normal", decimals=0,
                   colors={phase.name: phase.color for phase in MACHINE_PHASES}),
        table("Jobs", "One line for each job whose agents answer. The name of a job links to its "
              "dashboard.", columns, {"namespace": "Namespace", "trainingjob": "Job"},
              link=("Open the Job dashboard", job)),
    ])


def _start():
    pods = "lockstep_operator_creation_to_pods_seconds"
    running = "lockstep_operator_creation_to_running_seconds"
    return Row("Start", [
        bar_gauge("Start latency",
                  "Time from the creation of a job to the creation of its last pod, and until all "
                  "ranks run. Jobs that started in this time range.", "s",
                  *[Query(quantile(level, metric, over=RANGE), f"{what}, {name}", instant=True)
                    for metric, what in ((pods, "pods created"), (running, "ranks running"))
                    for level, name in ((0.5, "median"), (0.95, "95 %"))], width=12),
        timeseries("Starts",
                   "Jobs whose ranks all ran for the first time.", "short",
                   Query(f"sum(increase({running}_count[{RATE}]))", "started"),
                   width=12, bars=True, decimals=0),
    ])


def _restarts():
    return Row("Restarts and recovery", [
        restarts(WHERE),
        recovery_quantiles(WHERE),
        recovery_over_time(WHERE),
    ])


def _nodes():
    # A counter begins with its first count, of which increase() shows nothing.
    seen = f"max_over_time(lockstep_operator_node_evidence_total[{RANGE}])"
    by_node = f"sum by (node) ({seen})"
    return Row("Nodes", [
        bar_gauge("Nodes with the most trouble",
                  "Share of all trouble that gangs had with nodes, of the ten worst: lost "
                  "machines, repeated failures, stragglers and slow machines, since their operator "
                  "started.", "percentunit",
                  Query(f"topk(10, {by_node}) / scalar(sum({seen}))", "{{node}}", instant=True),
                  max=1, width=12),
        timeseries("Trouble with nodes",
                   "What gangs saw of nodes, by evidence as in status.suspectNodes, since their "
                   "operator started.", "short",
                   Query("sum by (evidence) (lockstep_operator_node_evidence_total)",
                         "{{evidence}}"), width=12, decimals=0),
    ])


def _goodput():
    return Row("Goodput", [
        goodput_by_state(WHERE),
        bar_gauge("Goodput, ten lowest",
                  "Jobs with the smallest share of time in this range that went into new steps.",
                  "percentunit",
                  Query(f"bottomk(10, {goodput(WHERE, JOB)})",
                        "{{namespace}}/{{trainingjob}}", instant=True),
                  max=1, thresholds=GOODPUT_COLORS),
        lost_steps(WHERE, "trainingjob"),
        timeseries("Lost machine time",
                   "Time of all jobs' machines that was lost, by activity as in "
                   "status.ledger. It is counted when its generation has ended.", "s",
                   Query("sum by (to) (increase("
                         f"lockstep_operator_lost_machine_seconds_total[{RATE}]))", "{{to}}"),
                   width=24, bars=True, stacked="normal"),
    ])


def _operator():
    return Row("Operator", [
        timeseries("API calls",
                   "The operator's requests to the API server, by the code of the answer. Without "
                   "an answer the kind of error is shown.", "reqps",
                   Query(f"sum by (code) (rate({CALLS}[{RATE}]))", "{{code}}"), stacked="normal"),
        timeseries("Failing API calls",
                   "Share of requests that failed. 404, 409 and 410 are no failures.",
                   "percentunit", Query(_failing(), "failing")),
        timeseries("API latency", "95 % of calls were answered in less than this time.", "s",
                   Query(quantile(0.95, "lockstep_operator_api_call_seconds", by="verb"),
                         "{{verb}}")),
        timeseries("Decision time",
                   "99 % of jobs waited in the queue, and were decided, in less than this time.",
                   "s",
                   Query(quantile(0.99, "lockstep_operator_queue_wait_seconds"), "queue"),
                   Query(quantile(0.99, "lockstep_operator_reconcile_seconds"), "decision")),
        timeseries("Restarts by class",
                   "Restarts of gangs, and of ranks alone, by class of cause. application counts "
                   "against maxRestarts, infrastructure against maxMachineReplacements, and "
                   "stopped (on request) against no budget.", "short",
                   Query(f"sum by (cause) (increase(lockstep_operator_restarts_total[{RATE}]))",
                         "{{cause}}"), bars=True, stacked="normal", decimals=0),
        timeseries("Watch restarts",
                   "Every watch ends by itself after a few minutes. Many restarts a minute mean "
                   "trouble with the API server.", "short",
                   Query("sum by (resource)"
                         f" (increase(lockstep_operator_watch_restarts_total[{RATE}]))",
                         "{{resource}}"), bars=True, stacked="normal", decimals=0),
        state_timeline("Leader", "The operator that holds the Lease.",
                       Query("max by (instance) (lockstep_operator_leader)", "{{instance}}"),
                       {0: State("follows", "#545766"), 1: State("leads", "green")}),
    ])
