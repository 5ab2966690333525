"""The Fleet dashboard: all jobs of a Prometheus, and the operator."""

from dashboards.grafana import (
    Query, Row, State, bar_gauge, dashboard, gauge, query_variable, stat, state_timeline, table,
    timeseries)
from dashboards.shared import (
    GOODPUT, GOODPUT_COLORS, MACHINE_PHASES, PRODUCTIVE, RANGE, RATE, goodput_by_state, lost_steps,
    quantile, recovery_over_time, recovery_quantiles, restarts, share)

WHERE = 'namespace=~"$namespace"'
JOB = "namespace, trainingjob"
CALLS = "lockstep_operator_api_calls_total"
# Answers that are part of normal work: not there (yet), there already, changed meanwhile, a watch
# that is too old. Without an answer `code` is the kind of error.
FAILED = 'code!~"[23]..|404|409|410"'
JOB_STATES = {"Pending": "yellow", "Queued": "light-yellow", "Starting": "blue",
              "Running": "green", "Restarting": "orange",
              "Stopping": "light-blue", "Suspended": "purple", "Succeeded": "dark-green",
              "Failed": "red"}
LEADING = "on (instance) group_left () (lockstep_operator_leader == 1)"


def fleet():
    return dashboard(
        "lockstep-fleet", "Lockstep / Fleet",
        "All TrainingJobs, and the operator that looks after them.",
        [query_variable("namespace", "Namespace", "label_values(lockstep_gang_phase, namespace)",
                        all_value=True)],
        [_now(), _jobs(), _start(), _restarts(), _goodput(), _operator()])


def _now():
    return Row("Now", [
        stat("Jobs running",
             "TrainingJobs in state Running, in all namespaces.", "short",
             Query(f'max(lockstep_operator_jobs{{state="Running"}} * {LEADING})')),
        stat("Ranks up", "Processes of training that run now.", "short",
             Query(f"sum(lockstep_rank_up{{{WHERE}}})")),
        stat("Machines short",
             "Machines (pods) of jobs whose processes are not all up, of those that answer.",
             "short", Query(f"count(min by ({JOB}, machine) (lockstep_rank_up{{{WHERE}}}) == 0)"
                            " or vector(0)"),
             thresholds=[(None, "green"), (1, "orange")]),
        gauge("Goodput",
              "Share of the jobs' time in this range that went into steps never done before.",
              Query(share(GOODPUT, PRODUCTIVE, WHERE)), thresholds=GOODPUT_COLORS),
        stat("Failing API calls",
             "Share of the operator's requests to the API server that failed. Not counted: 404, "
             "409 and 410, which are part of normal work.", "percentunit",
             Query(_failing()), thresholds=[(None, "green"), (0.01, "orange"), (0.1, "red")],
             decimals=1),
        stat("Leaders",
             "Operators that hold the Lease: one, but for the seconds of a change. Without one, "
             "jobs run on and heal process failures, and no lost machine is replaced.", "short",
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
        ("Goodput", "percentunit", share(GOODPUT, PRODUCTIVE, WHERE, JOB)),
        ("Generations", "short", f"max by ({JOB}) (lockstep_generations_total{{{WHERE}}})"),
    ]
    # With the data source, or the Job dashboard would fall back to its own default.
    job = ("/d/lockstep-job?var-datasource=${datasource}&var-namespace=${__data.fields.Namespace}"
           "&var-trainingjob=${__data.fields.Job}&${__url_time_range}")
    return Row("Jobs", [
        timeseries("Jobs by state", "TrainingJobs by status.state, as the leading operator sees "
                   "them, in all namespaces.", "short",
                   Query(f"max by (state) (lockstep_operator_jobs * {LEADING})", "{{state}}"),
                   width=12, stacked="normal", decimals=0, colors=JOB_STATES),
        timeseries("Machines by phase",
                   "What the jobs' machines do, as their agents say. A machine that does not "
                   "answer is in none.", "short",
                   Query(f"sum by (phase) (lockstep_machine_phase{{{WHERE}}})", "{{phase}}"),
                   width=12, stacked="normal", decimals=0,
                   colors={phase.name: phase.color for phase in MACHINE_PHASES}),
        table("Jobs", "One line a job whose agents answer. The job's name leads to its own "
              "dashboard.", columns, {"namespace": "Namespace", "trainingjob": "Job"},
              link=("Open the Job dashboard", job)),
    ])


def _start():
    pods = "lockstep_operator_creation_to_pods_seconds"
    running = "lockstep_operator_creation_to_running_seconds"
    return Row("Start", [
        bar_gauge("Start latency",
                  "Of jobs that started in this time range: from a job's creation to its last "
                  "pod's, and to all ranks running.", "s",
                  *[Query(quantile(level, metric, over=RANGE), f"{what}, {name}", instant=True)
                    for metric, what in ((pods, "pods made"), (running, "ranks running"))
                    for level, name in ((0.5, "median"), (0.95, "95 %"))], width=12),
        timeseries("Starts",
                   "Jobs of which all ranks ran for the first time.", "short",
                   Query(f"sum(increase({running}_count[{RATE}]))", "started"),
                   width=12, bars=True, decimals=0),
    ])


def _restarts():
    return Row("Restarts and recovery", [
        restarts(WHERE),
        recovery_quantiles(WHERE),
        recovery_over_time(WHERE),
    ])


def _goodput():
    return Row("Goodput", [
        goodput_by_state(WHERE),
        bar_gauge("Goodput, the ten lowest",
                  "Share of a job's time in this range that went into steps never done before.",
                  "percentunit",
                  Query(f"bottomk(10, {share(GOODPUT, PRODUCTIVE, WHERE, JOB)})",
                        "{{namespace}}/{{trainingjob}}", instant=True),
                  max=1, thresholds=GOODPUT_COLORS),
        lost_steps(WHERE, "trainingjob"),
        timeseries("Machine time lost",
                   "Time of all jobs' machines that was not productive, by what it was lost to, "
                   "as the operator accounts for it in status.ledger: when the generation that it "
                   "belongs to has ended.", "s",
                   Query("sum by (to) (increase("
                         f"lockstep_operator_lost_machine_seconds_total[{RATE}]))", "{{to}}"),
                   width=24, bars=True, stacked="normal"),
    ])


def _operator():
    return Row("Operator", [
        timeseries("API calls",
                   "The operator's requests to the API server, by answer. Where there was none, "
                   "the kind of error stands in place of the code.", "reqps",
                   Query(f"sum by (code) (rate({CALLS}[{RATE}]))", "{{code}}"), stacked="normal"),
        timeseries("Failing API calls",
                   "Share of requests that failed; 404, 409 and 410 are part of normal work.",
                   "percentunit", Query(_failing(), "failing")),
        timeseries("API latency", "How long the API server took to answer, 95 % of calls.", "s",
                   Query(quantile(0.95, "lockstep_operator_api_call_seconds", by="verb"),
                         "{{verb}}")),
        timeseries("Decisions",
                   "99 % of jobs waited for their turn, and were decided, in less than this.", "s",
                   Query(quantile(0.99, "lockstep_operator_queue_wait_seconds"), "queue"),
                   Query(quantile(0.99, "lockstep_operator_reconcile_seconds"), "decision")),
        timeseries("Restarts by class",
                   "Gangs started again and machines replaced, as the operator charges them: to "
                   "maxRestarts (application), maxMachineReplacements (infrastructure), or to "
                   "nothing (stopped).", "short",
                   Query(f"sum by (cause) (increase(lockstep_operator_restarts_total[{RATE}]))",
                         "{{cause}}"), bars=True, stacked="normal", decimals=0),
        timeseries("Watches begun again",
                   "A watch ends every few minutes by itself; many a minute mean trouble with the "
                   "API server.", "short",
                   Query("sum by (resource)"
                         f" (increase(lockstep_operator_watch_restarts_total[{RATE}]))",
                         "{{resource}}"), bars=True, stacked="normal", decimals=0),
        state_timeline("Who leads", "Which operator holds the Lease.",
                       Query("max by (instance) (lockstep_operator_leader)", "{{instance}}"),
                       {0: State("follows", "#545766"), 1: State("leads", "green")}),
    ])
