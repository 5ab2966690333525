"""`accelerate launch` and its configuration, against what `lockstep convert` makes of the same."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
import yaml
from paths import ROOT
from tls import binary

ASK = ROOT / "tests/lib/accelerate_launches.py"
# Beside the one of the tests, that of `tools/deps --frameworks`, where it is installed.
NEWER = (pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
         / "lockstep/frameworks/torch/bin/python")

# What the launcher sets and a job does not, or to another value, and why.
LAUNCHERS = {
    "OMP_NUM_THREADS": "a rank is given its share of the cores, not one",
    "PYTHONPATH": "the launcher adds the working folder for DeepSpeed's own processes",
    "ACCELERATE_CPU_AFFINITY": "ranks are bound (topology.bind)",
}
# What a job sets and a launcher does not.
OURS = {
    "FSDP_VERSION": "of later launchers", "FSDP_RESHARD_AFTER_FORWARD": "of later launchers",
    "FSDP_ACTIVATION_CHECKPOINTING": "of later launchers",
    "FSDP_ACTIVATION_CHECKPOINTING_OFFLOAD": "of later launchers",
    "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_NVME_PATH": "the launcher forgets it",
    "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_NVME_PATH": "the launcher forgets it",
}
# What each rank is given under framework: Accelerate.
FRAMEWORK = {"ACCELERATE_MIXED_PRECISION": "no", "ACCELERATE_DYNAMO_BACKEND": "NO",
             "ACCELERATE_DYNAMO_MODE": "default", "ACCELERATE_DYNAMO_USE_FULLGRAPH": "False",
             "ACCELERATE_DYNAMO_USE_DYNAMIC": "False",
             "ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION": "False"}

MACHINES = ["--num_machines", "2", "--machine_rank", "0", "--main_process_ip", "127.0.0.1",
            "--main_process_port", "29517"]
CONFIGS = {
    "fsdp": {"distributed_type": "FSDP", "num_processes": 2, "fsdp_config": {
        "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP", "fsdp_offload_params": True,
        "fsdp_backward_prefetch_policy": "BACKWARD_POST", "fsdp_forward_prefetch": False,
        "fsdp_transformer_layer_cls_to_wrap": "MyBlock", "fsdp_state_dict_type": "FULL_STATE_DICT",
        "fsdp_sharding_strategy": "SHARD_GRAD_OP", "fsdp_min_num_params": 2000}},
    "deepspeed": {"distributed_type": "DEEPSPEED", "num_processes": 2, "mixed_precision": "fp16",
                  "deepspeed_config": {"zero_stage": 3, "offload_param_device": "cpu",
                                       "zero3_save_16bit_model": True, "zero3_init_flag": False,
                                       "gradient_accumulation_steps": 4, "gradient_clipping": 1.0}},
    "megatron": {"distributed_type": "MEGATRON_LM", "num_processes": 4, "megatron_lm_config": {
        "megatron_lm_tp_degree": 2, "megatron_lm_sequence_parallelism": True,
        "megatron_lm_num_micro_batches": 2}},
    "left over": {"distributed_type": "MULTI_GPU", "num_processes": 4,
                  "fsdp_config": {"fsdp_offload_params": True},
                  "dynamo_config": {"dynamo_backend": "INDUCTOR", "dynamo_mode": "default",
                                    "dynamo_use_dynamic": True}},
    "debug": {"distributed_type": "MULTI_GPU", "num_processes": 2, "debug": True, "gpu_ids": "0,1"},
    "no": {"distributed_type": "NO", "num_processes": 1, "use_cpu": True},
}
LINES = [["--use_fsdp", "--num_processes", "4", *MACHINES, "t.py"],
         ["--num_processes", "1", "--cpu", "t.py"],
         ["--multi_gpu", "--num_processes", "2", "-m", "pkg"],
         ["--multi_gpu", "--num_proc", "2", "t.py"]]


def asked(python, lines, home):
    run = subprocess.run([str(python), str(ASK)], input=json.dumps(lines), text=True, check=True,
                         capture_output=True, env={**os.environ, "HF_HOME": str(home)})
    return json.loads(run.stdout)


def converted(line):
    run = subprocess.run([binary("lockstep"), "convert", "--", "accelerate", "launch", *line],
                         capture_output=True, text=True, check=False)
    return yaml.safe_load(run.stdout)["spec"] if run.returncode == 0 else run.stderr


def same(one, other):
    """Upper and lower case, and 1e8 and 100000000, mean the same to accelerate."""
    try:
        return float(one) == float(other)
    except (TypeError, ValueError):
        return str(one).lower() == str(other).lower()


def differences(launch):
    spec = converted(launch["line"])
    if "error" in launch or isinstance(spec, str):
        return [] if "error" in launch and isinstance(spec, str) else [(launch, spec)]
    env = {entry["name"]: entry.get("value", "") for entry in spec.get("env", [])}
    found = [spec.get("numMachines", 1), spec.get("processesPerMachine", 1)]
    wrong = [] if found == launch["world"] else [("world", launch["world"], found)]
    wrong += [(name, value, env.get(name)) for name, value in launch["env"].items()
              if name not in LAUNCHERS and not same(value, env.get(name, FRAMEWORK.get(name)))]
    wrong += [(name, None, value) for name, value in env.items()
              if name not in launch["env"] and name not in {*OURS, *LAUNCHERS}]
    return [(" ".join(launch["line"]), *each) for each in wrong]


@pytest.mark.parametrize("python", [
    sys.executable, pytest.param(NEWER, marks=pytest.mark.skipif(
        not NEWER.exists(), reason="needs tools/deps --frameworks"))], ids=["oldest", "newest"])
def test_converted_job_has_variables_and_world_of_accelerates_own_launcher(python, tmp_path):
    lines = list(LINES)
    for name, config in CONFIGS.items():
        file = tmp_path / f"{name}.yaml"
        file.write_text(yaml.safe_dump({"compute_environment": "LOCAL_MACHINE", **config}))
        lines.append(["--config_file", str(file), "t.py"])
    launches = asked(python, lines, tmp_path)
    assert len(launches) > 60
    assert [each for launch in launches for each in differences(launch)] == []
