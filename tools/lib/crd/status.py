"""status: the fields that core/status/status.h writes. Only the operator writes a status, so its
limits are wide. Only the keys of lists are required.
"""

from crd.core import names_of, spelled
from crd.schema import boolean, choice, integer, listing, mapping, struct, text, time

_MOST = 2147483647
_TEXT = 256 * 4  # bytes of 256 characters


def _count(description):
    return integer(description, 0, _MOST)


def _words(description, longest=_TEXT):
    return text(description, longest=longest)


def _attempts(description):
    return listing(description, struct("", {
        "attempt": integer("Epoch in which their pods were made.", 0, None),
        "machines": _words("Indices of machines, as in 0-3,7.", 16384)}), most=4096)


def _conditions():
    return listing("Ready, Reconciling, Stalled, PodsReady, Running, Admitted, TopologyAligned, "
                   "PreflightPassed, MetricBroken, HangSuspected, Straggler, OnSickNode, "
                   "RanksNeverMet, Shrunk, Suspended, Complete, Failed and NameConflict, as far as they apply.", struct("", {
                       "type": _words("Name of the condition.", 316),
                       "status": choice("Whether the condition holds."),
                       "reason": _words("The reason in one word.", 1024),
                       "message": _words("The reason in a sentence.", 32768),
                       "observedGeneration": integer("metadata.generation that it describes.", 0,
                                                     None),
                       "lastTransitionTime": time("When its status last changed."),
                   }, required=["type", "status"]), most=16, kind="map", keys=["type"])


def _failure():
    return struct("The root cause of the last failure.", {
        "time": time("When it happened."),
        "epoch": integer("Epoch of the gang.", 0, None),
        "generation": _words("Generation that the failure ended."),
        "machine": integer("Machine that caused the failure. -1: none.", -1, _MOST),
        "node": _words("Node of the machine."),
        "rank": integer("Rank that caused the failure. -1: none.", -1, _MOST),
        "exitCode": integer("Exit code of the process.", -1, _MOST),
        "signal": integer("Signal that killed the process.", 0, _MOST),
        "cause": _words("What happened, in one word: ProcessExit, MachineLost, Hang, ..."),
        "message": _words("What happened, in a sentence.", 4096),
        "stderr": _words("The process's last lines of stderr.", 4096),
        "step": integer("With cause BrokenMetric: the first step whose value broke the rule.", 0, None),
    })


def _history():
    return listing("The last ten generations that did not succeed. The newest is last.",
                   struct("", {
                       "generation": _words("The generation that ended."),
                       "cause": _words("The cause of its end."),
                       "machine": integer("Machine that caused its end. Absent: none.", -1, _MOST),
                       "detected": time("When its end was detected."),
                       "respawned": time("When every rank of the next generation was started."),
                       "firstStep": time("When the next generation reported its first step."),
                       "lostSteps": integer("Steps to repeat: from the first reported step of the "
                                            "next generation to the furthest of this one.", 0,
                                            None),
                       "reason": _words("Who asked for its end and why, if it was restarted on "
                                        "request. Or the sick nodes that machines left."),
                       "code": _words("Digest of the code that it ran. Absent: not synced."),
                   }), most=10)


def _ledger_sums():
    return {
        "machineMilliseconds": mapping(
            "Time of the machines by activity, in milliseconds of one machine: Productive, Unknown, "
            "WaitingForNodes, WaitingForMachines, Spawn, StartUp, WarmStartUp, CheckpointLoad, "
            "Redone, Hang, Detect and Stop. The sum is all time.", integer("", 0, None), most=16),
        "lostTo": mapping("Time that was lost, by the cause of the restart that lost it. "
                          "None: the job's first start.", integer("", 0, None), most=32),
    }


def _ledger():
    return struct("How the time of the machines was spent.", {
        "since": time("When the first pods were made."),
        "through": time("End of the time that is accounted for."),
        "elapsedMilliseconds": integer("Time from since to through, without suspensions.", 0,
                                       None),
        **_ledger_sums(),
        "goodput": _words("The productive share of all time, as in 97.3%. "
                          "unknown: no step is known."),
        "furthestStep": integer("The furthest step that any generation reached.", 0, None),
        "settled": _words("The last generation whose time is final."),
        "open": struct("The part of the sums since the last generation ended. Its activities may "
                       "still change.", {
                           "since": time("When the last generation ended."),
                           "cause": _words("The cause of its end."),
                           "generation": _words("The generation that followed."),
                           "lastStep": integer("The last step of that generation.", 0, None),
                           "nodesMilliseconds": integer("Time in which a machine had no node.",
                                                        0, None),
                           **_ledger_sums(),
                       }),
    })


def _progress():
    figures = ["loss", "tokensPerSecond", *names_of("figures")]
    metric = struct("", {"name": _words("Name of the figure."),
                         "value": _words("Value of the figure, as text.")})
    return struct("Progress that the processes report.", {
        "step": integer("Steps done.", 0, None),
        "totalSteps": integer("All steps of the job.", 0, None),
        "percent": integer("Percentage of the steps that is done.", 0, 100),
        "etaSeconds": integer("Seconds until the last step at the present pace.", 0, None),
        "metrics": listing(f"Those of {spelled(figures, 'and')} that processes report. Rates are "
                           "summed over the ranks, the others are means.", metric, most=16),
        "source": _words("Reports if the processes report the step, Output if it is read from what "
                         "they print."),
        "lastUpdated": time("When the progress was reported."),
    })


def _counters():
    names = {
        "generations": "Generations announced.",
        "processFailures": "Failures of processes.",
        "processFailuresBase": "Failures of processes that resetAfter forgave.",
        "outOfMemory": "Machines that the job itself ended: killed for memory, or an init "
                       "container failed on several nodes.",
        "outOfMemoryBase": "Ends counted in outOfMemory that resetAfter forgave.",
        "replacements": "Machines replaced.",
        "replacementsBase": "Replacements that resetAfter forgave.",
        "leasesExpired": "Expired leases.",
        "stops": "Stops on request.",
        "alone": "Restarts of a rank alone. processFailures counts them too.",
    }
    return struct("Counts for the budgets. No operator or coordinator may lose them.",
                  {name: integer(words, 0, None) for name, words in names.items()})


def _machines():
    one = struct("", {
        "index": _count("Index of the machine."),
        "pod": _words("Its current pod."),
        "node": _words("The pod's node."),
        "state": _words("Lost, Failed, Absent, Pending, Starting, Draining, Stopping, Stopped, "
                        "Idle, Running, Finished or Succeeded."),
        "replacements": _count("Replacements of the machine since the gang was made. It begins "
                               "anew for a machine that was not listed."),
        "binding": _words("Binding of its processes: None, Partial, or as topology.bind asks."),
        "usage": struct("What its ranks used when the status was written.", {
            "cpuMillicores": integer("CPU of their processes, in thousandths of a core.", 0, None),
            "memoryBytes": integer("Resident memory of their processes.", 0, None),
            "receivedBytesPerSecond": integer("Bytes that its network received.", 0, None),
            "sentBytesPerSecond": integer("Bytes that its network sent.", 0, None),
        }),
    })
    return {
        "machines": struct("Numbers of machines.", {
            "desired": _count("Machines wanted."),
            "ready": _count("Machines whose pod is ready: its containers have started. After the "
                            "job's end 0."),
            "byState": mapping("Machines by state.", integer("", 0, _MOST), most=32),
            "spares": _count("Spare machines whose pod is ready. They do not count as machines."),
        }),
        "machineStatuses": listing("At most 100 machines, the worst first.", one, most=100),
        "attempts": _attempts("The current attempt of each machine."),
    }


def status():
    # The default shows that no operator has seen the job. kstatus takes a job for up to date unless
    # its status describes another generation.
    return {**_status(), "default": {"observedGeneration": -1}}


def _status():
    return struct("The observed state of the job, written by the operator.", {
        "state": choice("State of the job."),
        "reason": _words("Why the job is in this state, and what to do."),
        "ready": _words("Ready machines of those wanted, as in 3/4."),
        "processes": _count("World size: numMachines times processesPerMachine."),
        "progressText": _words("Steps done, as in 1200/5000 24% eta 1h10m."),
        "observedGeneration": integer("metadata.generation that the status describes. -1: no "
                                      "operator has seen the job.", -1, None),
        "conditions": _conditions(),
        "epoch": integer("Raised before pods are made. The attempt of a pod is the epoch in which "
                         "it was made.", 0, None),
        "createdEpoch": integer("All pods of epochs up to this one were created.", 0, None),
        "agent": struct("Image and versions of the job's agents, fixed at the first start.", {
            "image": _words("Image with the agent."),
            "planVersion": _count("Version of the plan by which pods are made."),
            "keyVersion": _count("Version of the master key."),
        }),
        "verdict": struct("How the job ended.", {
            "generation": _words("Generation that decided the end."),
            "exitCode": integer("Exit code of the job, as lockstep run returns it.", 0, 255),
            "cause": _words("Cause of a failure."),
        }),
        "counters": _counters(),
        "machineLostAfter": _words("The highest machineLostAfter that the job ever had."),
        "gangGeneration": _words("The current generation: attempt of machine 0, and number."),
        # Stored statuses have this field. The API server drops fields that the schema lacks.
        "generation": _words("Deprecated: the former name of gangGeneration. Read, never written."),
        "replicas": _count("Machines of the gang, for the scale subresource."),
        "selector": _words("Label selector of the job's pods."),
        **_machines(),
        "restarts": struct("Restarts of the gang and of ranks alone. A failure that ends the job is "
                           "not a restart.", {
            "total": _count("All restarts."),
            "application": _count("Restarts after failures of the application."),
            "infrastructure": _count("Restarts after lost machines."),
            "stopped": _count("Restarts after stops on request."),
        }),
        "lastFailure": _failure(),
        "history": _history(),
        "ledger": _ledger(),
        "prestart": struct("Parked interpreters for the next generation.", {
            "ready": _count("Parked interpreters that are ready."),
            "reason": _words("Why they are fewer than the job's processes."),
            "warm": _count("Generations whose ranks all came from parked interpreters."),
            "cold": _count("All other generations."),
            "savedMilliseconds": integer("CPU time of imports that warm generations saved, each on "
                                         "the machine that saved most.", 0, None),
            "counted": _words("The last generation that is counted."),
        }),
        "preflight": struct("Results of the preflight.", {
            "state": choice("Waiting (for machines), Measuring, Passed, or Slow: the job continues "
                            "with slow machines."),
            "typical": _words("Medians of the machines."),
            "slow": listing("Attempts of slow machines. The newest is last.", struct("", {
                "machine": integer("Index of the machine.", 0, _MOST),
                "attempt": integer("Attempt of the machine.", 0, None),
                "because": _words("The slow figure, and the figure it is compared with."),
                "replaced": boolean("true: another attempt replaces it. false: the job continues "
                                    "with it."),
            })),
        }),
        "progress": _progress(),
        "queue": struct("The job in a queue of Kueue.", {
            "workload": _words("The Workload that is queued for the job."),
            "clusterQueue": _words("The ClusterQueue that admitted the job."),
            "flavors": mapping("The ResourceFlavor of each resource.", _words(""), most=64),
        }),
        "elastic": struct("The members of an elastic gang.", {
            "members": _words("Machines of the next generation, if not of this one, as in 0-5,7.",
                              16384),
            "witnesses": _words("Machines whose agents can tell a new machine 0 that all earlier "
                                "ranks are dead.", 16384),
            "asked": _words("Machines that were asked to leave and have found no other node.",
                            16384),
            "silent": _attempts("Attempts that were lost for silence and whose charge is open. An "
                                "attempt is charged unless its node is lost too."),
            "withoutQuota": _words("Machines that returned their quota to the queue. They have no "
                                   "pods until the queue grants it again.", 16384),
            "since": time("When the members were decided. A return of quota sets it anew."),
            "reason": _words("Why they were decided."),
        }),
        "restart": struct("The last restart that was requested.", {
            "id": _words("The id of the request."),
            "reason": _words("Why."),
            "requestedBy": _words("Who asked, as the client said."),
            "atCommit": boolean("It waits for a commit."),
            "attempt": integer("Attempt of machine 0 that carries it out. 0: no gang was there.",
                               0, None),
            "asked": time("When it was recorded."),
            "done": time("When a younger generation had begun, or was to begin next. Absent: it "
                         "is not done."),
        }),
        "code": struct("The code in the ranks' folder.", {
            "digest": _words("Digest of the manifest of its files."),
            "files": integer("Number of its files.", 0, None),
            "by": _words("Who synced it."),
            "since": time("When it was put there."),
            "generation": _words("The first generation that runs it. Absent: the next one."),
        }),
        "suspectNodes": listing("Nodes that the gang had trouble with. The worst is first.",
                                struct("", {
            "node": _words("Name of the node."),
            "evidence": _words("Lost: a machine was lost there. Failed: ranks failed there, at "
                               "least twice. Straggler: the others waited for it. Slow: preflight "
                               "found it slow."),
            "count": _count("How often."),
            "last": time("When it was seen last."),
            "message": _words("What was seen last."),
        }), most=20),
        "podGroup": struct("The PodGroup by which a scheduler places the pods together.", {
            "name": _words("Name of the PodGroup."),
            "gang": choice("Kind of the PodGroup, as in spec.scheduling.gang."),
        }),
        "timings": struct("When the job reached each stage.", {
            "created": time("When pods were created."),
            "scheduled": time("When all pods were scheduled."),
            "started": time("When every rank ran."),
            "firstStep": time("When the first step was reported."),
            "finished": time("When the job ended."),
        }),
    })
