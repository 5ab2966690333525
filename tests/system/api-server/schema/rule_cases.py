"""For each CEL rule that the schema's own values don't reach: a job that passes it and one that
fails it. What each of them reaches is seen in the answers, so nothing here names a rule.
"""

from documents import Case, a_command, a_trainer, job

_FIELD = {"fieldRef": {"fieldPath": "metadata.name"}}


def _template(pod=None, **metadata):
    made = {"metadata": metadata} if metadata else {}
    return {"template": {**made, **({"spec": pod} if pod is not None else {})}}


def _worker(*others, **container):
    return _template({"containers": [{"name": "worker", **container}, *others]})


def _required(cpu=2, memory="1Gi", **spec):
    """Alignment is Required."""
    asked = {name: amount for name, amount in (("cpu", cpu), ("memory", memory)) if amount}
    return job(a_command(topology={"policy": "Required"}, resourcesPerProcess=asked, **spec))


def _beside(**resources):
    """A job as `_required` with another container."""
    return {"name": "a", "resources": resources}


_CLAIMED = {"resourceClaims": [{"name": "a", "resourceClaimTemplateName": "b"}],
            "containers": [{"name": "worker", "resources": {"claims": [{"name": "a"}]}}]}


_NEAR = _template(annotations={"kueue.x-k8s.io/podset-required-topology": "rack"})


def _pipeline(stages, machines, **trainer):
    return job({**a_trainer(globalBatchSize=16, parallel={"pipeline": stages}, **trainer),
                "numMachines": machines})


def _tensor(ranks, shards, machines, **trainer):
    parallel = {"tensor": ranks, "tensorShards": shards}
    return job({**a_trainer(globalBatchSize=16, parallel=parallel, **trainer),
                "numMachines": machines})


def _elastic(machines, spec=None, **elastic):
    return job(a_command(numMachines=machines, elastic=elastic, **(spec or {})))


def _on_gpus(gpus=1, model="gpt2", **trainer):
    return job({**a_trainer(model=model, **trainer), "resourcesPerProcess": {"gpu": gpus}})


_STORE = {"url": "s3://bucket/gpt", "memory": {"size": "1Gi"}}

def _metric(rule, **more):
    return job(a_command(failurePolicy={"rules": [{"metric": "loss", **rule}]}, **more))


PASS = [
    job(_worker(image="i", command=["python"], args=["train.py"], workingDir="/a",
                env=[{"name": "A", "value": "b"}], envFrom=[{"secretRef": {"name": "a"}}])),
    job({"image": "i", **_worker(command=["python"])}),
    job({"image": "i", "command": ["python"], **_worker(args=["a"])}),
    job(a_command(**_worker({"name": "other", "resources": {"limits": {"cpu": 1}},
                             "command": ["torchrun"], "env": [{"name": "RANK", "value": "1"}]},
                            ports=[{"containerPort": 80}]))),
    job(a_command(**_template({"restartPolicy": "Never", "priorityClassName": "a",
                               "schedulerName": "b", "imagePullSecrets": [{"name": "a"}],
                               "containers": [{"name": "a", "volumeMounts": [
                                   {"name": "a", "mountPath": "/lockstep-a"}]}],
                               "initContainers": [{"name": "a", "restartPolicy": "Always"}],
                               "volumes": [{"name": "a", "emptyDir": {}}]},
                              labels={"a": "b"}, annotations={"lockstep.dev/x": "b"}))),
    job(a_command(template=None)), job(a_command(template={})),
    job({**_template({}), "image": None, "command": None, "trainer": {"data": ["a"]}}),
    job(a_command(launch="PerMachine", command=["torchrun"])),
    job({"image": "i", "launch": "PerMachine", **_worker(command=["torchrun"])}),
    job({**a_trainer(), "resourcesPerProcess": {"gpu": 0}}), _on_gpus(), _on_gpus(device="Cuda"),
    _on_gpus(backend="Nccl"), _on_gpus(reduce="Nccl"), job(a_trainer(device="Cpu", backend="Gloo", sync="ParameterServer")),
    _on_gpus(mode="Generate"), _on_gpus(mode="Generate", device="Cuda"),
    job(a_trainer(mode="Generate")), job(a_trainer(servers=[0, 1], globalBatchSize=16)
                                         | {"numMachines": 2}),
    _pipeline(1, 1), _pipeline(2, 2), _pipeline(2, 4), _pipeline(4, 8),
    *[job({**a_trainer(model="gpt2", parallel=parallel, globalBatchSize=16), "numMachines": 2,
           "resourcesPerProcess": {"gpu": 1}})
      for parallel in ({"pipeline": 2}, {"tensor": 2, "tensorShards": 4})],
    job(a_trainer(recovery="InPlace")), _tensor(1, 2, 2, recovery="InPlace"), _on_gpus(recovery="InPlace"),
    _tensor(1, 4, 1), _tensor(2, 2, 2), _tensor(4, 4, 8), _tensor(2, 4, 2, reduce="Tree"),
    job({**a_trainer(globalBatchSize=16, parallel={"pipeline": 2, "tensor": 2, "tensorShards": 2}),
         "numMachines": 4}),
    job(a_trainer(globalBatchSize=16, microBatchSize=2) | {"numMachines": 4,
                                                           "processesPerMachine": 2}),
    job(a_command(sharedMemory="2Gi", processesPerMachine=2,
                  resourcesPerProcess={"memory": "1Gi", "gpu": 1})),
    job(a_command(sharedMemory=1, resourcesPerProcess={"memory": 1})),
    job(a_command(resourcesPerMachine={"rdma/hca": 0, "hugepages-2Mi": "5Gi"},
                  resourcesPerProcess={"memory": "1Gi"})),
    job(a_command(resourcesPerMachine={"hugepages-2Mi": "5Gi"}, resourcesPerProcess={"cpu": 1})),
    job(a_command(resourcesPerProcess={"gpu": 1, "gpuResource": "amd.com/gpu"})),
    job(a_command(**_worker(resources={}))), job(a_command(**_template(_CLAIMED))),
    job({**a_trainer(model="gpt2", device="Cuda", reduce="Nccl"), **_template(_CLAIMED)}),
    _required(), _required(cpu="2000m"),
    _required(**_worker(_beside(limits={"cpu": 1, "memory": "1Gi"},
                                requests={"cpu": "1", "a/b": 1}))),
    _required(**_template({"initContainers": [_beside(limits={"cpu": 1, "memory": "1Gi"})]})),
    job(a_command(topology={"bind": "None", "memoryPolicy": "None", "policy": "None"})),
    job(a_command(topology={"memoryPolicy": "Strict"})),
    job(a_command(topology={"bind": "Interleave", "memoryPolicy": "Interleave"})),
    job(a_command(topology={"bind": "Map", "map": [{"cpus": "0-7,16-23", "memory": "0"}]})),
    job(a_command(placement={"topologyMode": "Required", "topologyKey": "a.b/c"})),
    job(a_command(placement={"topologyKey": "a.b/c", "topologyLevels": ["a.b/d"]})),
    job(a_command(placement={"topologyKey": ""})), job(a_command(**_NEAR)),
    _elastic(2, _template(annotations={"kueue.x-k8s.io/podset-group-name": "g"})),
    job(a_command(network={"hostnames": False}, **_template({"setHostnameAsFQDN": False}))),
    job(a_command(network={"hostnames": False}, **_template({"hostNetwork": True}))),
    job(a_command(scheduling={})), job(a_command(scheduling={"gang": "None"})),
    job(a_command(sync={})),
    job(a_command(elastic={})), _elastic(4, minMachines=2, sizes=[2, 3]), _elastic(4, sizes=[]),
    _elastic(4, shrinkAfter="0s", growAfter="24h"),
    job(a_trainer(globalBatchSize=16) | {"numMachines": 4, "elastic": {"sizes": [2]}}),
    job(a_command(scheduling={"gang": "Coscheduling"}, schedulerName="a")),
    job(a_command(scheduling={"gang": "Kubernetes"})),
    job(a_command(scheduling={"gang": "Volcano"})),
    job(a_command(network={}, **_template({"setHostnameAsFQDN": True}))),
    job(a_command(failurePolicy={"rules": [{"signals": ["SIGBUS"]}, {"stderr": r"(?i)\bECC\b"}]})),
    _metric({"is": "NotFinite", "for": 3}), _metric({"above": -1.5, "action": "Fail"}),
    _metric({"risesBy": "1.5x", "within": 200, "action": "Report"}),
    _metric({"is": "NotFinite", "action": "RestartFromEarlier", "skipSteps": 9, "atMost": 1},
            checkpoint={"path": "/a"}),
    _metric({"above": 1, "exitCodes": [], "signals": [], "stderr": "", "risesBy": ""}),
    job(a_command(checkpoint={"claim": "a", "path": "/a", "resume": "a/b"})),
    job(a_command(checkpoint={"claim": "", "path": "", "resume": "Never"})),
    job(a_command(health={"hangTimeout": "0h0m"})),
    job(a_command(progress={"from": "Output", "patterns": [r"at (?P<step>\d+)"]},
                  health={"hangTimeout": "1m", "hangAction": "Restart"})),
    job(a_command(progress={"from": "Never"}, health={"hangTimeout": "0s"})),
    job(a_command(checkpoint={"memory": {"size": "2Gi", "replicas": 0}, "persistEvery": "0s"})),
    job(a_command(checkpoint=_STORE)), job(a_command(checkpoint={**_STORE, "path": "", "resume": "Never"})),
    job(a_command(checkpoint={**_STORE, "secret": "a.b", "keep": 5, "keepEvery": "24h", "persistEvery": "1m"})),
    job(a_command(checkpoint={**_STORE, "uploadBandwidth": "200Mi"})),
    job(a_command(checkpoint={**_STORE, "url": "s3://a-b.c/d/e_f/g=1+2.3", "secret": ""})),
    job(a_command(checkpoint={"url": "", "secret": "", "keep": 1, "keepEvery": "0m"})),
    job(a_command(prestart="Auto", prestartExclude=["_a1"], launch="PerMachine")),
    job(a_command(managedBy="a.b/c/d")),
    job(a_command(framework="Horovod", numMachines=128, processesPerMachine=4)),
    job(a_command(framework="Mpi", mpi={"start": "Pmi"})),
    job(a_command(framework="Mpi", mpi={"start": "Pmix"})),
    job(a_command(numMachines=2, processesPerMachine=2, framework="TensorFlow",
                  roles=[{"name": "chief"}, {"name": "worker", "count": 2, "restart": "Alone"},
                         {"name": "ps"}], successPolicy="Role", successRole="chief")),
    job(a_command(roles=[{"name": "b", "restart": "Alone"}])), job(a_command(roles=[])),
    job(a_command(framework="TensorFlow", numMachines=1024, processesPerMachine=2)),
    job(a_command(preflight={"enabled": True, "margin": 0.5, "minGflops": 1, "minMemoryGBps": 0,
                             "minDiskGBps": 0.1, "minLinkGBps": 0.01})),
    job(a_command(env=[{"name": "A", "value": "", "valueFrom": _FIELD}])),
]
PASS += [job(a_command(command=command)) for command in (
    ["python", "train.py", "torchrun"], ["python", "-m", "train"], ["accelerate", "config"],
    ["bash", "-c", "echo torchrun"], ["bash", "-c", "echo 'a; torchrun'"], ["sh", "torchrun.sh"],
    ["bash", "-c", "cd /a; ./torchrun.sh"], ["./train"], ["python", "-X", "-m",
                                                          "torch.distributed.run"],
    ["python", "train.py", "-m", "torch.distributed.run"], ["sh", "--c", "torchrun"])]
PASS += [job(a_command(), name=name) for name in ("a", "a-1", "a" * 40)]

FAIL = [
    job({"image": "i"}), job({"image": "i", "command": []}), job({}), job({"args": ["a"]}),
    job(a_trainer(servers=[1])), job(a_trainer(servers=[])), job(a_trainer(servers=[0, 0])),
    job({"image": "i", "launch": "PerMachine", **a_trainer()}),
    _elastic(2, _NEAR), job(a_command(numMachines=2, spareMachines=1, **_NEAR)),
    job({**a_trainer(), "sync": {}}),
    _elastic(2, {"checkpoint": _STORE}), _elastic(2, minMachines=3), _elastic(4, sizes=[3, 2]), _elastic(4, sizes=[2, 2]),
    _elastic(4, minMachines=2, sizes=[1]), _elastic(4, sizes=[5]),
    _elastic(2, {"framework": "TensorFlow"}), _elastic(2, {"framework": "Mpi", "mpi": {"start": "Pmi"}}),
    _elastic(1, {"roles": [{"name": "b"}]}), _elastic(2, {"preflight": {"enabled": True}}),
    _elastic(2, {"checkpoint": {"memory": {"size": "2Gi"}}}),
    job({**a_trainer(globalBatchSize=16, parallel={"pipeline": 2}), "numMachines": 2, "elastic": {}}),
    job(a_trainer(globalBatchSize=16) | {"numMachines": 4, "elastic": {"sizes": [3]}}),
    job(a_trainer(recovery="InPlace") | {"elastic": {}}),
    job(a_command(launch="PerMachine", framework="Horovod")),
    job(a_command(launch="PerMachine", framework="Mpi", mpi={"start": "Pmi"})),
    job(a_command(launch="PerMachine", framework="Mpi", mpi={"start": "Pmix"})),
    job(a_command(successRole="b")), job(a_command(successPolicy="Role")),
    job(a_command(roles=[{"name": "b"}], successPolicy="Role", successRole="c")),
    job(a_command(roles=[{"name": "b", "count": 2}])), job(a_command(roles=[{"name": "B"}])),
    job(a_command(numMachines=2, roles=[{"name": "b"}, {"name": "b"}])),
    *[job(a_command(framework="TensorFlow", roles=[role]))
      for role in ({"name": "b"}, {"name": "chief", "restart": "Alone"},
                   {"name": "ps", "restart": "Alone"})],
    job(a_command(framework="TensorFlow", numMachines=2, roles=[{"name": "chief", "count": 2}])),
    job(a_command(framework="Horovod", roles=[{"name": "b"}])),
    job(a_command(framework="Mpi", command=["mpirun", "a"], roles=[{"name": "b"}])),
    job(a_command(launch="PerMachine", command=["torchrun"], roles=[{"name": "b"}])),
    job({**a_trainer(), "roles": [{"name": "b"}]}),
    job(a_command(checkpoint={"memory": {"size": "1Gi"}},
                  roles=[{"name": "b", "restart": "Alone"}])),
    job(a_command(framework="Horovod", numMachines=129, processesPerMachine=4)),
    job({**a_command(), **a_trainer()}),
    job(a_command(framework="TensorFlow", launch="PerMachine")),
    job(a_command(framework="TensorFlow", numMachines=1024, processesPerMachine=3)),
    job(a_command(framework="TensorFlow", numMachines=1025)),
    _on_gpus(gpus=2), _on_gpus(device="Cpu"), _on_gpus(gpus=0, device="Cuda"),
    job(a_trainer(backend="Nccl")), _on_gpus(backend="Gloo"), _on_gpus(sync="ParameterServer"),
    job(a_trainer(reduce="Nccl")), _on_gpus(reduce="Ring"),
    job({**a_trainer(model="gpt2", parallel={"pipeline": 2}, globalBatchSize=16, reduce="Nccl"),
         "numMachines": 2, "resourcesPerProcess": {"gpu": 1}}),
    _pipeline(2, 3), _pipeline(0, 2), _pipeline(2, 6), _pipeline(2, 2, reduce="Ring"),
    _pipeline(2, 2, mode="Generate"), _pipeline(2, 2, sync="ParameterServer"),
    _pipeline(2, 2, measureScaling=True),
    _pipeline(2, 2, recovery="InPlace"), _tensor(2, 2, 2, recovery="InPlace"),
    job({**a_trainer(model="gpt2", parallel={"pipeline": 2}, globalBatchSize=16, recovery="InPlace"),
         "numMachines": 2, "resourcesPerProcess": {"gpu": 1}}),
    job(a_trainer(recovery="InPlace", sync="ParameterServer")),
    job(a_trainer(recovery="InPlace", mode="Generate", prompts=["a"])),
    job(a_trainer(recovery="Alone")),
    job({**a_trainer(model="gpt2", parallel={"tensorShards": 2}, globalBatchSize=16, reduce="Nccl"),
         "numMachines": 2, "resourcesPerProcess": {"gpu": 1}}),
    _tensor(2, 1, 2), _tensor(2, 2, 3), _tensor(0, 2, 2), _tensor(3, 3, 3), _tensor(2, 2, 6),
    _tensor(1, 2, 2, reduce="Ring"), _tensor(1, 2, 2, mode="Generate"),
    _tensor(1, 2, 2, sync="ParameterServer"), _tensor(1, 2, 2, measureScaling=True),
    job(a_command(command=[""])), job(a_command(command=["", "a"])),
    job({"command": ["a"]}), job({"command": ["a"], "image": ""}),
    job({"trainer": {}}), job({"trainer": {"prompts": ["a"], "data": []}}),
    job({"trainer": {"mode": "Generate", "data": ["a"]}}),
    job({"trainer": {"data": ["a"], "validateEvery": 5}}),
    job(a_trainer(validateEvery=5, validationData=[])),
    job(a_trainer(globalBatchSize=16) | {"numMachines": 3}),
    job(a_trainer(globalBatchSize=16, microBatchSize=8) | {"numMachines": 4}),
    job(a_command(env=[{"value": "a"}])), job(a_command(env=[{"name": ""}])),
    job(a_command(env=[{"name": "A=B"}])), job(a_command(env=[{"name": "1A"}])),
    job(a_command(env=[{"name": "A"}, {"name": "A"}])),
    job(a_command(env=[{"name": "A", "value": "a", "valueFrom": _FIELD}])),
    job(a_command(env=[{"name": "LOCKSTEP_A"}])),
    job(a_command(imagePullSecrets=[{"name": "A"}])), job(a_command(imagePullSecrets=[{}])),
    job(a_command(imagePullSecrets=[{"name": ""}])),
    job(a_command(priorityClassName="A")), job(a_command(schedulerName="a_b")),
    job(a_command(managedBy="me")), job(a_command(managedBy="")), job(a_command(managedBy="a/")),
    job(a_command(managedBy="A/b")),
    job(a_command(resourcesPerProcess={"gpuResource": ""})),
    job(a_command(resourcesPerProcess={"gpuResource": "a b"})),
    job(a_command(resourcesPerMachine={"cpu": 1})),
    job(a_command(resourcesPerMachine={"memory": 1})),
    job(a_command(resourcesPerMachine={"nvidia.com/gpu": 1})),
    job(a_command(resourcesPerMachine={"a/b": -1})),
    job(a_command(resourcesPerMachine={"a/b/c": 1})),
    job(a_command(resourcesPerMachine={"": 1})),
    job(a_command(sharedMemory="3Gi", processesPerMachine=2,
                  resourcesPerProcess={"memory": "1Gi"})),
    job(a_command(topology={"bind": "None", "memoryPolicy": "Strict"})),
    job(a_command(topology={"bind": "None", "memoryPolicy": "Interleave"})),
    job(a_command(topology={"bind": "None", "policy": "Required"})),
    job(a_command(topology={"bind": "Map"})), job(a_command(topology={"map": [{"cpus": "0"}]})),
    job(a_command(topology={"bind": "Map", "map": [{"cpus": "0"}] * 2})),
    job(a_command(topology={"bind": "Map", "map": [{"cpus": "0;1"}]})),
    job(a_command(topology={"bind": "Map", "map": [{"cpus": "10000"}]})),
    job(a_command(topology={"bind": "Map", "map": [{"cpus": " 0-3"}]})),
    job(a_command(topology={"bind": "Map", "map": [{"cpus": ""}]})),
    job(a_command(topology={"bind": "Map", "map": [{"memory": "0"}]})),
    job(a_command(topology={"bind": "Map", "map": [{"cpus": "0", "memory": "a"}]})),
    job(a_command(placement={"topologyLevels": ["a"]})),
    job(a_command(placement={"topologyKey": "a", "topologyLevels": ["a b"]})),
    _required(cpu=None), _required(memory=None), _required(cpu="10.4"), _required(cpu="500m"),
    _required(**_template({"resources": {"limits": {"cpu": 1}}})),
    *[_required(**_template({of: [_beside(**resources)]}))
      for of in ("containers", "initContainers")
      for resources in ({}, {"limits": {"cpu": 1}}, {"limits": {"memory": "1Gi"}},
                        {"requests": {"cpu": 1, "memory": "1Gi"}},
                        {"limits": {"cpu": 1, "memory": "1Gi"}, "requests": {"cpu": "500m"}})],
    job(a_command(resourcesPerMachine={"hugepages-2Mi": "5Gi"})),
    job({**a_trainer(model="gpt2"), "resourcesPerProcess": {"gpu": 1,
                                                            "gpuResource": "amd.com/gpu"}}),
    job({**a_trainer(model="gpt2", device="Cpu", reduce="Nccl"), **_template(_CLAIMED)}),
    job(a_command(placement={"topologyMode": "Required"})),
    job(a_command(placement={"topologyMode": "Required", "topologyKey": ""})),
    job(a_command(placement={"topologyKey": "a b"})),
    job(a_command(failurePolicy={"rules": [{}]})),
    job(a_command(failurePolicy={"rules": [{"exitCodes": [], "signals": [], "stderr": ""}]})),
    job(a_command(failurePolicy={"rules": [{"exitCodes": [1], "signals": ["SIGBUS"]}]})),
    job(a_command(failurePolicy={"rules": [{"stderr": "("}]})),
    *[_metric(more) for more in (
        {}, {"is": "NotFinite", "above": 1}, {"above": 1, "risesBy": "3x"}, {"above": 1, "exitCodes": [1]},
        {"above": 1, "signals": ["SIGBUS"]}, {"above": 1, "stderr": "a"}, {"above": 1, "action": "Restart"},
        {"above": 1, "action": "ReplaceMachine"}, {"above": 1, "skipSteps": 1}, {"risesBy": "1x"},
        {"risesBy": "0.5x"}, {"risesBy": "3"}, {"risesBy": "-3x"}, {"risesBy": "3 x"}, {"risesBy": "1.0x"},
        {"above": 1, "action": "RestartFromEarlier"})],
    _metric({"above": 1}, progress={"from": "Never"}),
    _metric({"above": 1, "action": "RestartFromEarlier"},
            checkpoint={"path": "/a", "memory": {"size": "1Gi"}}),
    *[job(a_command(failurePolicy={"rules": [{"exitCodes": [1], **more}]})) for more in (
        {"is": "NotFinite"}, {"above": 1}, {"risesBy": "3x"}, {"within": 9}, {"for": 2}, {"skipSteps": 1},
        {"atMost": 1}, {"action": "Report"}, {"action": "RestartFromEarlier"})],
    job(a_command(failurePolicy={"rules": [{"stderr": "a**"}]})),
    job(a_command(failurePolicy={"rules": [{"stderr": "(?=a)"}]})),
    job(a_command(failurePolicy={"rules": [{"signals": ["SIGNONE"]}]})),
    job(a_command(checkpoint={"claim": "A", "path": "/a"})),
    job(a_command(checkpoint={"claim": "a"})),
    job(a_command(checkpoint={"path": "a"})), job(a_command(checkpoint={"resume": "auto"})),
    job(a_command(checkpoint={"resume": ""})), job(a_command(checkpoint={"resume": "/a/b"})),
    job(a_command(checkpoint={"memory": {"size": 0}})),
    job(a_command(checkpoint={"memory": {"size": "1500m"}})),
    job(a_command(checkpoint={"persistEvery": "500ms"})),
    *[job(a_command(checkpoint={**_STORE, "url": url}))
      for url in ("bucket", "s3://", "s3://ab", "s3://bucket/", "s3://bucket//a", "s3://Bucket/a", "s3://bucket/../a",
                  "s3://bucket/a b", "s3://bucket/a?b", "s3://a@bucket/a", "gs://bucket/a", "s3://bucket/a%20")],
    job(a_command(checkpoint={"url": "s3://bucket"})),
    job(a_command(checkpoint={**_STORE, "path": "/a"})),
    job(a_command(checkpoint={**_STORE, "claim": "a", "path": "/a"})),
    job(a_command(checkpoint={**_STORE, "resume": "/a/b"})), job(a_command(checkpoint={**_STORE, "secret": "A"})),
    job(a_command(checkpoint={"secret": "a"})), job(a_command(checkpoint={"keepEvery": "24h"})),
    job(a_command(checkpoint={"uploadBandwidth": "1Mi"})),
    *[job(a_command(checkpoint={**_STORE, "uploadBandwidth": amount})) for amount in ("0", "-1", "1500m", "9Pi")],
    job(a_command(checkpoint={**_STORE, "keepEvery": "500ms"})), job(a_command(checkpoint={**_STORE, "keep": 0})),
    job(a_command(preflight={"margin": 0})), job(a_command(preflight={"margin": 1.1})),
    job(a_command(preflight={"minGflops": -1})), job(a_command(preflight={"minLinkGBps": -0.1})),
    job(a_command(prestartExclude=["a.b"])), job(a_command(prestartExclude=["1a"])),
    job(a_command(prestartExclude=[""])),
    job(a_command(progress={"from": "Never"}, health={"hangTimeout": "1m"})),
    job(a_command(progress={"from": "Never"}, health={"hangAction": "Restart"})),
    job(a_command(progress={"from": "Reports", "patterns": ["(?P<step>a)"]})),
    job(a_command(progress={"patterns": ["("]})), job(a_command(progress={"patterns": ["a"]})),
    job(a_command(health={"hangTimeout": "500ms"})), job(a_command(health={"hangTimeout": "169h"})),
]
FAIL += [job(a_command(**_worker(**container))) for container in (
    {"image": "i"}, {"command": ["a"]}, {"args": ["a"], "command": ["b"]},
    {"resources": {"requests": {"cpu": 1}}}, {"resources": {"limits": {"cpu": 1}}})]
FAIL += [job(a_command(**{name: value}, **_worker(**{name: value}))) for name, value in (
    ("args", ["a"]), ("workingDir", "/a"), ("env", [{"name": "A"}]),
    ("envFrom", [{"secretRef": {"name": "a"}}]))]
FAIL += [job(a_command(**{name: value}, **_template({name: value}))) for name, value in (
    ("imagePullSecrets", [{"name": "a"}]), ("priorityClassName", "a"), ("schedulerName", "a"))]
FAIL += [job({"image": "i", **_worker(command=["a"], env=[variable])}) for variable in (
    {"name": "RANK", "value": "1"}, {"name": "LOCKSTEP_A"}, {"name": "1A"},
    {"name": "A", "value": "a", "valueFrom": _FIELD})]
FAIL += [job({"image": "i", **_worker(command=[""])}), job({"image": "i", **_worker(args=["a"])}),
         job(_worker(command=["a"])), job({"image": "i", **_worker(command=["a" * 16385])}),
         job({"image": "i", **_worker(command=["a"] * 257)}), job({"image": "i", **_worker()})]
FAIL += [job(a_command(**_template({field: value}))) for field, value in (
    ("restartPolicy", "Always"), ("containers", [{"name": "worker", "restartPolicy": "Always"}]),
    ("hostname", "a"), ("subdomain", "a"),
    ("terminationGracePeriodSeconds", 1), ("activeDeadlineSeconds", 1),
    ("containers", [{"name": "lockstep-a"}]), ("initContainers", [{"name": "lockstep-a"}]),
    ("volumes", [{"name": "lockstep-a", "emptyDir": {}}]), ("priorityClassName", "A"),
    ("schedulerName", "A"), ("imagePullSecrets", [{"name": "A"}]))]
FAIL += [job(a_command(**_template({field: [{"name": f"a{i}"} for i in range(count)]})))
         for field, count in (("containers", 9), ("initContainers", 17), ("volumes", 257))]
FAIL += [job(a_command(**_template({"containers": [{"name": "a", "volumeMounts": [
    {"name": "b", "mountPath": f"/a{i}"} for i in range(257)]}]})))]
FAIL += [job(a_command(network={"hostnames": False}, **_template({"setHostnameAsFQDN": True})))]
FAIL += [job(a_command(scheduling={"gang": gang})) for gang in ("volcano", "coscheduling", "")]
FAIL += [job(a_command(**_template({field: [{"name": "a", "volumeMounts": [
    {"name": "b", "mountPath": "/b"}, {"name": volume, "mountPath": "/a"}]}]})))
    for field in ("containers", "initContainers") for volume in ("lockstep-key", "lockstep-agent")]
FAIL += [job(a_command(**_template(None, **{field: value}))) for field, value in (
    ("name", "a"), ("generateName", "a"), ("namespace", "a"), ("finalizers", ["a/b"]),
    ("ownerReferences", [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "b"}]),
    ("labels", {"lockstep.dev/job": "a"}), ("labels", {"app.kubernetes.io/name": "a"}),
    ("uid", "a"))]
FAIL += [job(a_command(template={"unknown": 1}))]
LAUNCHERS = [
    ["torchrun", "train.py"], ["/usr/bin/torchrun", "train.py"], ["mpiexec.hydra", "a"],
    ["accelerate", "launch", "train.py"], ["python", "-m", "torch.distributed.run", "a"],
    ["python3.11", "-u", "-m", "accelerate.commands.launch"], ["sh", "-c", "torchrun train.py"],
    ["bash", "-ec", "cd /a && exec torchrun train.py"], ["bash", "-c", "A=1 accelerate launch a"],
    ["/bin/sh", "-c", "set -e\npython -m torch.distributed.run a"], ["bash", "-c", "(srun a)"],
    ["bash", "-c", "./prepare; accelerate-launch a"],
]
TORCHRUN = [command for command in LAUNCHERS if "torch" in " ".join(command)]
UNSUPPORTED = [command for command in LAUNCHERS if command not in TORCHRUN]
PASS += [job(a_command(launch="PerMachine", command=command)) for command in TORCHRUN]
FAIL += [job(a_command(launch="PerMachine", command=command)) for command in UNSUPPORTED]
FAIL += [job(a_command(launch="PerMachine", command=command[:1], args=command[1:]))
         for command in UNSUPPORTED]
FAIL += [job({"image": "i", "launch": "PerMachine", **_worker(command=command)})
         for command in UNSUPPORTED]
FAIL += [job(a_command(command=command)) for command in LAUNCHERS]
FAIL += [job(a_command(command=command[:1], args=command[1:])) for command in LAUNCHERS]
FAIL += [job({"image": "i", **_worker(command=command)}) for command in LAUNCHERS]
PASS += [job(a_command(framework="Mpi", command=command))
         for command in (["mpirun", "-np", "1", "a"], ["bash", "-c", "mpiexec a"], ["./solve"])]
FAIL += [job(a_command(framework="Mpi", mpi={"start": start}, command=["mpirun", "a"]))
         for start in ("Pmi", "Pmix")]
FAIL += [job({**a_trainer(), "framework": "Mpi"})]
FAIL += [job(a_command(), name=name) for name in ("1a", "a" * 41, "a.b", "gpt-coordinator")]

# What core alone finds: the CRD lets it in, and the operator fails the job with core's message.
CORE_ALONE = [
    job(a_trainer(modelShape={"layers": 1, "heads": 3, "width": 64, "vocabulary": 256})),
    job(a_trainer(modelShape={"layers": 3, "heads": 1, "width": 64, "vocabulary": 256},
                  parallel={"pipeline": 2}) | {"numMachines": 2}), _pipeline(3, 3),
    _tensor(1, 8, 1),
    _on_gpus(model="nano"), _on_gpus(modelShape={"layers": 1, "heads": 1, "width": 128, "vocabulary": 1}),
    job(a_command(command=["env", "A=b", "torchrun"])), job(a_command(command=["nohup", "srun"])),
    job(a_command(launch="PerMachine", command=["env", "A=b", "mpirun"])),
    job(a_command(launch="PerMachine", command=["timeout", "1h", "mpirun"])),
    job(a_command(framework="Mpi", command=["accelerate", "launch", "a"])),
    job(a_command(framework="Mpi", launch="PerMachine", command=["torchrun", "a"])),
    job(a_command(command=["bash", "-c", "cd '/a'; torchrun"])),
    job(a_command(command=["python", "-u", "-O", "-m", "torch.distributed.run"])),
    job(a_command(args=["a\0b"])),
]


def cases(names):
    """`names` are core's own: each reserved variable, label, launcher and signal has its case."""
    for each in PASS:
        yield Case("spec", "job that passes a rule", each, True)
    for each in FAIL:
        yield Case("spec", "job that fails a rule", each, False)
    for name in names["variables"]:
        yield Case("spec.env", f"variable {name}", job(a_command(env=[{"name": name}])), False)
    for name in names["labels"]:
        yield Case("spec.template", f"label {name}",
                   job(a_command(**_template(None, labels={name: "a"}))), False)
    for name in names["launchers"]:
        words = ["python", "-m", name] if "." in name and "hydra" not in name else [name]
        yield Case("spec.command", f"launcher {name}", job(a_command(command=words)), False)
    for name in names["signals"]:
        yield Case("spec.failurePolicy", f"signal {name}",
                   job(a_command(failurePolicy={"rules": [{"signals": [name]}]})), True)
