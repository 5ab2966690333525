"""status: what core/status/status.h writes. Only the operator writes it, so limits are its own and
wide; no field is required but what lists are told apart by.
"""

from crd.schema import boolean, choice, integer, listing, mapping, struct, text, time

_MOST = 2147483647
_TEXT = 256 * 4  # bytes of 256 characters


def _count(description):
    return integer(description, 0, _MOST)


def _words(description, longest=_TEXT):
    return text(description, longest=longest)


def _attempts(description):
    return listing(description, struct("", {
        "attempt": integer("Epoch that their pods were made in.", 0, None),
        "machines": _words("Indices, as in 0-3,7.", 16384)}), most=4096)


def _conditions():
    return listing("Ready, Reconciling, Stalled, PodsReady, Running, Admitted, TopologyAligned, "
                   "PreflightPassed, HangSuspected, Straggler, RanksNeverMet, Shrunk, Suspended, "
                   "Complete, Failed and NameConflict, as far as they apply.", struct("", {
                       "type": _words("Name of the condition.", 316),
                       "status": choice("Whether it holds."),
                       "reason": _words("Why, in one word.", 1024),
                       "message": _words("Why, in a sentence.", 32768),
                       "observedGeneration": integer("metadata.generation that it speaks of.", 0,
                                                     None),
                       "lastTransitionTime": time("When its status changed last."),
                   }, required=["type", "status"]), most=16, kind="map", keys=["type"])


def _failure():
    return struct("The last failure's root cause.", {
        "time": time("When it happened."),
        "epoch": integer("Epoch of the gang.", 0, None),
        "generation": _words("Generation that it ended."),
        "machine": integer("Machine to blame.", -1, _MOST),
        "node": _words("Its node."),
        "rank": integer("Rank to blame.", -1, _MOST),
        "exitCode": integer("Exit code of the process.", -1, _MOST),
        "signal": integer("Signal that the process died of.", 0, _MOST),
        "cause": _words("What happened, in one word: ProcessExit, MachineLost, Hang, ..."),
        "message": _words("What happened, in a sentence.", 4096),
        "stderr": _words("The process's last lines of standard error.", 4096),
    })


def _history():
    return listing("The last ten generations that did not succeed, the newest last.",
                   struct("", {
                       "generation": _words("The generation that ended."),
                       "cause": _words("Why it ended."),
                       "machine": integer("Machine to blame; absent: none.", -1, _MOST),
                       "detected": time("When its end was noticed."),
                       "respawned": time("When every rank of the next one was started."),
                       "firstStep": time("When the next one reported its first step."),
                       "lostSteps": integer("Steps to do again: from the one resumed at to "
                                           "the furthest reached.", 0, None),
                   }), most=10)


def _ledger_sums():
    return {
        "machineMilliseconds": mapping(
            "What the machines' time was spent for, in milliseconds of one machine: Productive, "
            "WaitingForNodes, WaitingForMachines, Spawn, StartUp, WarmStartUp, CheckpointLoad, "
            "Redone, Hang, Detect and Stop. Together they are all of it.", integer("", 0, None), most=16),
        "lostTo": mapping("All of that but the productive, by the cause of the restart that it "
                          "was lost to; None: the job's first start.", integer("", 0, None),
                          most=32),
    }


def _ledger():
    return struct("What became of the machines' time, and what it was lost to.", {
        "since": time("When the first pods were made."),
        "through": time("All time until then is accounted for."),
        "elapsedMilliseconds": integer("Time between the two, less what the job was suspended.", 0,
                                       None),
        **_ledger_sums(),
        "goodput": _words("Productive time of all, as in 97.3%."),
        "furthestStep": integer("The furthest step that any generation reached.", 0, None),
        "settled": _words("The last generation whose part is settled."),
        "open": struct("What the sums hold of the generation since, which may still turn out to "
                       "have been something else.", {
                           "since": time("When the last generation ended."),
                           "cause": _words("Why it did."),
                           "generation": _words("The generation that came after it."),
                           "lastStep": integer("Its last step.", 0, None),
                           "nodesMilliseconds": integer("Time in which some machine had no node.",
                                                        0, None),
                           **_ledger_sums(),
                       }),
    })


def _progress():
    metric = struct("", {"name": _words("Name of the figure."),
                         "value": _words("The figure, as text.")})
    return struct("What the processes report.", {
        "step": integer("Steps done.", 0, None),
        "totalSteps": integer("Steps in all.", 0, None),
        "percent": integer("Hundredths done.", 0, 100),
        "etaSeconds": integer("Seconds until the last step, at this pace.", 0, None),
        "metrics": listing("Figures, as in loss.", metric, most=16),
        "lastUpdated": time("When it was reported."),
    })


def _counters():
    names = {
        "generations": "Generations announced.",
        "processFailures": "Failures of processes.",
        "processFailuresBase": "Of those, forgiven after resetAfter.",
        "outOfMemory": "Machines that ended by the job's own doing: killed for memory, "
                       "an init container that fails on several nodes.",
        "outOfMemoryBase": "Of those, forgiven.",
        "replacements": "Machines replaced.",
        "replacementsBase": "Of those, forgiven.",
        "leasesExpired": "Leases that ran out.",
        "stops": "Stops on request.",
        "alone": "Ranks started again alone; processFailures counts them, too.",
    }
    return struct("What budgets go by; no operator or coordinator may forget it.",
                  {name: integer(words, 0, None) for name, words in names.items()})


def _machines():
    one = struct("", {
        "index": _count("Index of the machine."),
        "pod": _words("Its current pod."),
        "node": _words("The pod's node."),
        "state": _words("Lost, Failed, Absent, Pending, Starting, Draining, Stopping, Stopped, "
                        "Idle, Running, Finished or Succeeded."),
        "replacements": _count("How often it was replaced since the gang was made."),
        "binding": _words("How its processes are bound: None, Partial, or as topology.bind asked."),
    })
    return {
        "machines": struct("How many machines.", {
            "desired": _count("Wanted."),
            "ready": _count("Whose pod is ready: its containers have started."),
            "byState": mapping("By state.", integer("", 0, _MOST), most=32),
            "spares": _count("Spare machines whose pod is ready; none of them is a machine."),
        }),
        "machineStatuses": listing("Machines, the worst first; at most 100 of them.", one, most=100),
        "attempts": _attempts("The current attempt of each machine."),
    }


def status():
    # What an API server shows of a job that no operator has seen. kstatus takes a job for up to date
    # unless its status is of another generation.
    return {**_status(), "default": {"observedGeneration": -1}}


def _status():
    return struct("What became of it. Written by the operator.", {
        "state": choice("Where the job stands."),
        "reason": _words("Why it is in this state, in words to act on."),
        "ready": _words("Machines ready of those wanted, as in 3/4."),
        "processes": _count("World size: numMachines times processesPerMachine."),
        "progressText": _words("Steps done, as in 1200/5000 24% eta 1h10m."),
        "observedGeneration": integer("metadata.generation that this status speaks of; -1: no "
                                      "operator has seen the job.", -1, None),
        "conditions": _conditions(),
        "epoch": integer("Raised before pods are made; a pod's attempt is the epoch it was made "
                         "in.", 0, None),
        "createdEpoch": integer("Every pod of epochs up to this one was created.", 0, None),
        "agent": struct("What the job's agents are, fixed when the job was first started.", {
            "image": _words("Image with the agent."),
            "planVersion": _count("Version of the plan that pods are made by."),
            "keyVersion": _count("Version of the master key."),
        }),
        "verdict": struct("How the job ended.", {
            "generation": _words("Generation that decided it."),
            "exitCode": integer("Exit code of the job, the same as that of lockstep run.", 0, 255),
            "cause": _words("Cause of a failure."),
        }),
        "counters": _counters(),
        "machineLostAfter": _words("The highest machineLostAfter that was ever in force."),
        "gangGeneration": _words("The generation that runs: attempt of machine 0, and number."),
        # Kept in the schema for statuses that are stored: what it doesn't name, the API server drops.
        "generation": _words("Deprecated: what gangGeneration was called. Read, never written."),
        "replicas": _count("Machines of the gang; what the scale subresource reports."),
        "selector": _words("Label selector of the job's pods."),
        **_machines(),
        "restarts": struct("Restarts that were made, of the gang and of ranks alone.", {
            "total": _count("All."),
            "application": _count("After failures of the application."),
            "infrastructure": _count("After lost machines."),
            "stopped": _count("After stops on request."),
        }),
        "lastFailure": _failure(),
        "history": _history(),
        "ledger": _ledger(),
        "prestart": struct("Interpreters that wait to be the next generation's ranks.", {
            "ready": _count("Ready, of the job's processes."),
            "reason": _words("Why they are fewer."),
            "warm": _count("Generations whose ranks all came of such interpreters."),
            "cold": _count("The others."),
            "savedMilliseconds": integer("CPU time of imports that the warm ones found done; of "
                                         "each, on the machine with the most.", 0, None),
            "counted": _words("The last generation that is counted."),
        }),
        "preflight": struct("What machines measured before ranks ran.", {
            "state": choice("Waiting for machines; Measuring; Passed; Slow: the job goes on with slow "
                            "machines."),
            "typical": _words("The machines' medians."),
            "slow": listing("Attempts of machines that were found slow, the newest last.", struct("", {
                "machine": integer("Its index.", 0, _MOST),
                "attempt": integer("Its attempt.", 0, None),
                "because": _words("What is slow, and against what."),
                "replaced": boolean("Another attempt takes its place; else the job goes on with it."),
            })),
        }),
        "progress": _progress(),
        "queue": struct("Where its share of the cluster comes from.", {
            "workload": _words("The Workload that is queued for it."),
            "clusterQueue": _words("The ClusterQueue that admitted it."),
            "flavors": mapping("The ResourceFlavor of each resource.", _words(""), most=64),
        }),
        "elastic": struct("Which machines take part, where some may be left out.", {
            "members": _words("Machines of the next generation, if not of this one, as in 0-5,7.",
                              16384),
            "witnesses": _words("Those that take part in whatever an earlier machine 0 may still "
                                "run.", 16384),
            "asked": _words("Those that were asked to leave, and have found no other node yet.",
                            16384),
            "silent": _attempts("Attempts that were lost for their silence, whose nodes may be lost "
                                "as well: nobody knows yet. Those whose are not are charged."),
            "withoutQuota": _words("Those whose quota went back to the queue, and which have no "
                                   "pods until it gives that again.", 16384),
            "since": time("When it was decided."),
            "reason": _words("Why."),
        }),
        "podGroup": struct("What holds its pods together for a scheduler.", {
            "name": _words("The PodGroup of its gang."),
            "gang": choice("Whose PodGroup it is, as spec.scheduling.gang said."),
        }),
        "timings": struct("When it happened.", {
            "created": time("Pods were created."),
            "scheduled": time("All pods were scheduled."),
            "started": time("Every rank ran."),
            "firstStep": time("The first step was reported."),
            "finished": time("The job ended."),
        }),
    })
