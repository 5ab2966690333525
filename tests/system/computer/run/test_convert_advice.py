"""Advice of `lockstep convert`, followed: what it says to write, `lockstep validate` takes.

test_advice.py looks for pieces of advice that have no row here."""

import pytest
import yaml
from launches import remarks
from test_convert_corpus import convert, lockstep

# (words of the advice, a source that gets it, what it says: fields of spec, or another source).
N2 = "#SBATCH -N 2\n"
SRUN = N2 + "srun python t.py\n"


def with_option(option):
    return f"#SBATCH -N 2 {option}\nsrun python t.py\n"


def kubeflow(kind, roles, command, **others):
    """Two pods of each role that run `command`, as YAML has it, or one of `others`."""
    def role(name):
        container = f"{{name: c, image: i, command: {others.get(name, command)}}}"
        return f"    {name}: {{replicas: 2, template: {{spec: {{containers: [{container}]}}}}}}\n"
    key = {"PyTorchJob": "pytorch", "MPIJob": "mpi", "JAXJob": "jax", "TFJob": "tf"}[kind]
    return (f"kind: {kind}\nmetadata: {{name: a}}\nspec:\n  {key}ReplicaSpecs:\n"
            + "".join(map(role, roles)))


def pytorch(command):
    return kubeflow("PyTorchJob", ["Worker"], command)


def mpi(command):
    return kubeflow("MPIJob", ["Launcher", "Worker"], "[sshd]", Launcher=command)


def jax():
    return kubeflow("JAXJob", ["Worker"], "[python, t.py]")


def tf(roles):
    return kubeflow("TFJob", roles, "[python, t.py]")


WORLD = {"numMachines": 2, "processesPerMachine": 4}
PROCESSES = {"processesPerMachine": 4}
EACH = {"resourcesPerProcess": {"cpu": 2, "memory": "1Gi"}}
ENV = {"env": [{"name": "A", "value": "b"}]}
GPUS = {"resourcesPerProcess": {"gpu": 1}}
POD = {"template": {"spec": {"nodeSelector": {"a": "b"}}}}
VOLUME = {"template": {"spec": {
    "volumes": [{"name": "d", "hostPath": {"path": "/d"}}],
    "containers": [{"name": "worker", "volumeMounts": [{"name": "d", "mountPath": "/d"}]}]}}}
INIT = {"template": {"spec": {"initContainers": [{"name": "p", "image": "i", "command": ["p"]}]}}}
NEAR = {"placement": {"topologyKey": "topology.kubernetes.io/zone"}}
DEADLINE = {"activeDeadlineSeconds": 60}
MAP = {"topology": {"bind": "Map", "map": [{"cpus": "0-3"}]}}

ADVICE = [
    ("write volumes and mounts in the template",
     N2 + "srun --container-mounts=/d:/d python t.py\n", VOLUME),
    ("write placement.topologyKey", with_option("--switches=1"), NEAR),
    ("write placement.topologyKey", with_option("--contiguous"), NEAR),
    ("write one TrainingJob for each", N2 + "srun a.py\nsrun b.py\n", N2 + "srun a.py\n"),
    ("write one TrainingJob for each", N2 + "srun --multi-prog a.conf\n", SRUN),
    ("write one TrainingJob for each", "#SBATCH hetjob\nsrun a.py\n", SRUN),
    ("write one TrainingJob for each", "$ mpirun -np 1 a : -np 1 b", "$ mpirun -np 1 a"),
    ("write one TrainingJob for each", "$ srun -N 2 --het-group=0 a.py", "$ srun -N 2 a.py"),
    ("no shell runs the command: write the value",
     N2 + "srun python t.py $X\n", {"command": ["python", "v"]}),
    ("no shell runs the command: write the value", mpi('[sh, -c, "mpirun -np 2 a $X"]'),
     {"command": ["mpirun", "-np", "2", "a", "v"]}),
    ("write workingDir", N2 + "cd data\nsrun python t.py\n", {"workingDir": "/data"}),
    ("write workingDir", N2 + "srun singularity exec --pwd /w a.sif torchrun --nnodes=2 t.py\n",
     {"workingDir": "/w"}),
    ("write topology.bind: Map and topology.map",
     "$ deepspeed --num_gpus 1 --bind_core_list 0-3 t.py", MAP),
    ("write the container's settings in the template",
     N2 + "srun --container-mount-home python t.py\n", POD),
    ("write the command", with_option("--wrap=a"), {"command": ["a"]}),
    ("write template.spec.nodeSelector or affinity", with_option("-C fast"), POD),
    ("write resourcesPerProcess.cpu", "$ mpirun -np 2 --cpus-per-proc 2 a", EACH),
    ("write resourcesPerProcess", with_option("--tres-per-task=cpu:2"), EACH),
    ("write resourcesPerProcess: {gpu: 1} if each process uses one", "$ torchrun t.py", GPUS),
    ("write resourcesPerProcess.memory", with_option("--mem=0"), EACH),
    ("if you still need it, write it into the command", "$ mpirun -np 2 --bind-to core a",
     {"command": ["mpirun", "-np", "2", "--bind-to", "core", "a"]}),
    ("write it into env by Horovod's own variable", "$ horovodrun -np 2 --fusion-threshold-mb 32 a",
     {"env": [{"name": "HOROVOD_FUSION_THRESHOLD", "value": "33554432"}]}),
    ("write it in the template",
     N2 + "srun singularity exec --home /h a.sif torchrun --nnodes=2 t.py\n", POD),
    ("write health.startTimeout",
     "$ horovodrun -np 2 --start-timeout 60 a", {"health": {"startTimeout": "60s"}}),
    ("write health.hangTimeout", "$ horovodrun -np 2 --stall-check-warning-time-seconds 60 a",
     {"health": {"hangTimeout": "60s"}}),
    ("write failurePolicy.maxRestarts",
     "$ mpirun -np 2 --max-restarts 3 a", {"failurePolicy": {"maxRestarts": 3}}),
    ("write env.", N2 + "srun singularity exec --env A=b a.sif torchrun --nnodes=2 t.py\n", ENV),
    ("write them there", "$ mpiexec -n 2 -genvlist A a", ENV),
    ("write its variables into env",
     "$ accelerate launch --cpu --ipex --num_processes 1 t.py", ENV),
    ("write it as env", "$ mpirun -np 2 -x A a", ENV),
    ("write activeDeadlineSeconds", "$ mpirun -np 2 --timeout 60 a", DEADLINE),
    ("write it at the top of the script",
     N2 + "if true; then\nsrun a.py\nfi\n", N2 + "srun a.py\n"),
    ("write it after the launcher's options",
     "$ torchrun --nnodes=2", "$ torchrun --nnodes=2 t.py"),
    ("this command cannot be converted; write", "$ python t.py", "$ torchrun t.py"),
    ("write it after the options", "$ srun -N 2", "$ srun -N 2 t.py"),
    ("write the launcher's line itself",
     N2 + """eval "srun sh -c \\"sh -c 'sh -c torchrun'\\""\n""",
     N2 + "srun torchrun --nnodes=2 t.py\n"),
    ("write it into the command, or run it in an init container",
     N2 + "prepare\nsrun a.py\n", INIT),
    ("write priorityClassName, schedulerName, or labels of its queue", with_option("-p gpu"),
     {"priorityClassName": "high", "schedulerName": "s"}),
    ("write numMachines and processesPerMachine", with_option("--ntasks-per-socket=2"), WORLD),
    ("write numMachines and processesPerMachine", "$ mpirun -np 2 --rankfile r a",
     WORLD | {"command": ["mpirun", "a"]}),
    ("write numMachines and processesPerMachine",
     "$ horovodrun -np 2 --host-discovery-script d a", WORLD),
    ("write numMachines and processesPerMachine", "$ horovodrun a", WORLD),
    ("write numMachines and processesPerMachine",
     N2 + "export SLURM_NTASKS=4\nsrun python t.py\n", WORLD),
    ("no SLURM_ variable is set here: write RANK and LOCAL_RANK in place of",
     N2 + "srun sh -c 'python t.py $SLURM_PROCID'\n",
     {"command": ["sh", "-c", "python t.py $RANK"]}),
    ("write processesPerMachine", "$ mpirun a", PROCESSES),
    ("write no hosts into its command", "$ mpirun -np 2 a", {}),
    ("write the launcher's line as its command",
     mpi('[sh, -c, "a; mpirun -np 2 b"]'), mpi('[mpirun, -np, "2", b]')),
    ("write the launcher's line as its command",
     mpi("[python, t.py]"), mpi('[mpirun, -np, "2", b]')),
    ("write MULTI_GPU, FSDP, DEEPSPEED, MEGATRON_LM, MULTI_CPU or NO", "distributed_type: X\n",
     "distributed_type: MULTI_GPU\nnum_processes: 2\n"),
    ("write MULTI_GPU, FSDP, DEEPSPEED, MEGATRON_LM, MULTI_CPU or NO",
     "compute_environment: LOCAL_MACHINE\n",
     "distributed_type: 'NO'\n"),
    ("write the line itself", N2 + "A='eval $A'\neval $A\n", SRUN),
    ("write a separate TrainingJob for it", tf(["Worker", "Evaluator"]), tf(["Worker"])),
    ("write MULTI_GPU or MULTI_CPU", "distributed_type: 'NO'\nnum_machines: 2\nnum_processes: 2\n",
     "distributed_type: MULTI_CPU\nnum_machines: 2\nnum_processes: 2\n"),
    ("write MULTI_GPU or MULTI_CPU for more", "distributed_type: 'NO'\nnum_processes: 2\n",
     "distributed_type: MULTI_GPU\nnum_processes: 2\n"),
    ("write jax.distributed.initialize() without arguments", jax(), {}),
    ("write yours as spec.command",
     "distributed_type: MULTI_GPU\nnum_processes: 2\n", {"command": ["a"]}),
    ("write the full name", "$ torchrun --no 2 t.py", "$ torchrun --node-rank 2 t.py"),
    ("write it first",
     N2 + "srun timeout 1h torchrun t.py\n", N2 + "srun torchrun --nnodes=2 t.py\n"),
    ("write it first", mpi("[timeout, 1h, mpirun, b]"), mpi('[mpirun, -np, "2", b]')),
    ("or write its settings as options instead",
     "$ accelerate launch --config_file /nowhere.yaml t.py",
     "$ accelerate launch --use_fsdp --num_processes 2 t.py"),
    ("write processesPerMachine as a number", "$ accelerate launch t.py", PROCESSES),
    ("write processesPerMachine as a number", "$ deepspeed t.py", PROCESSES),
    ("write processesPerMachine as a number", "$ torchrun --nproc-per-node=gpu t.py", PROCESSES),
    ("write processesPerMachine as a number", pytorch("[torchrun, t.py]"), PROCESSES),
    ("write numMachines as the number of its hosts, processesPerMachine as the slots of one",
     "$ horovodrun -np 8 --hostfile h a", WORLD),
    ("write numMachines.", "kind: TrainJob\nmetadata: {name: a}\n"
     "spec: {runtimeRef: {name: r}, trainer: {image: i, command: [a]}}\n", WORLD),
    ("write it as numMachines", "#SBATCH -w n[1-4]\nsrun python t.py\n", WORLD),
    ("Write numMachines, and processesPerMachine as the number on each",
     "$ srun -n 8 a.py", WORLD),
    ("follows another program or is inside a shell script; write",
     "$ timeout 1h torchrun t.py", "$ torchrun t.py"),
    ("write at most as many processes a machine as it has GPUs",
     with_option("--ntasks-per-node=2 --gpus-per-node=1"),
     with_option("--ntasks-per-node=1 --gpus-per-node=1")),
    ("write a number", "$ mpirun -np N a", "$ mpirun -np 4 a"),
    ("meant for each machine, write processesPerMachine: 8",
     "distributed_type: MULTI_GPU\nnum_machines: 2\nnum_processes: 8\n",
     {"processesPerMachine": 8}),
    ("is the total of all machines: write 2",
     "distributed_type: MULTI_GPU\nnum_machines: 2\nnum_processes: 3\n",
     "distributed_type: MULTI_GPU\nnum_machines: 2\nnum_processes: 2\n"),
    ("write its template's image, volumes and command into this job",
     "kind: TrainJob\nmetadata: {name: a}\n"
     "spec: {runtimeRef: {name: r}, trainer: {image: i, command: [a]}}\n", VOLUME),
    ("write resourcesPerMachine",
     with_option("--gres=nic:1"), {"resourcesPerMachine": {"example.com/nic": 1}}),
    ("write image, as a registry has it",
     N2 + "srun apptainer exec a.sif torchrun --nnodes=2 t.py\n",
     {"image": "registry/a:1"}),
    ("write ACCELERATE_FP8_OVERRIDE_FPROP",
     "distributed_type: MULTI_GPU\nnum_processes: 2\nmixed_precision: fp8\n"
     "fp8_config: {override_linear_precision: [true, true, true]}\n",
     {"env": [{"name": "ACCELERATE_FP8_OVERRIDE_FPROP", "value": "true"}]}),
    ("write one job for each element",
     with_option("--array=0-3"), {"command": ["python", "t.py", "3"]}),
    ("is not a number of processes; write one", pytorch('[torchrun, "--nproc-per-node=$N", t.py]'),
     pytorch("[torchrun, --nproc-per-node=2, t.py]")),
    ("write PET_NODE_RANK",
     pytorch('[sh, -c, "torchrun --nproc-per-node=1 --node-rank=$RANK t.py"]'),
     pytorch('[sh, -c, "torchrun --nproc-per-node=1 --node-rank=$PET_NODE_RANK t.py"]')),
    ("take it out: torchrun reads PET_NNODES",
     pytorch("[torchrun, --nnodes=4, --nproc-per-node=1, t.py]"),
     pytorch("[torchrun, --nproc-per-node=1, t.py]")),
]


def merged(value, change):
    if not (isinstance(value, dict) and isinstance(change, dict)):
        return change
    return value | {key: merged(value.get(key), inner) for key, inner in change.items()}


def validated(job, change=None):
    job["spec"] = {"image": "i"} | merged(job["spec"], change or {})
    return lockstep("validate", "-", text=yaml.safe_dump(job))


@pytest.mark.parametrize("words, source, change", ADVICE)
def test_followed_advice_gives_a_job_that_validate_accepts(words, source, change):
    run = convert(source)
    assert words in (" ".join(remarks(run.stdout)) if run.returncode == 0 else run.stderr), run
    if isinstance(change, str):
        run = convert(change)
    assert run.returncode == 0, run.stderr
    answer = validated(yaml.safe_load(run.stdout), None if isinstance(change, str) else change)
    assert answer.returncode == 0, answer.stderr
