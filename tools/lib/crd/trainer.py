"""spec.trainer and the rules about it."""

from crd.schema import boolean, choice, integer, listing, number, rule, struct, text

_SIZES = ("layers", "heads", "width", "vocabulary")


def _files(description):
    return listing(description, text(""))


def _model_shape():
    sizes = {name: integer(f"{name} of the model.") for name in _SIZES}
    return struct("All four sizes, instead of those of model. width must be a multiple of heads.",
                  sizes, required=list(_SIZES))


def trainer():
    return struct(
        "The built-in trainer, which replaces `command`.", {
            "mode": choice("Train: train a model. Generate: continue each prompt with the model of "
                           "checkpoint.resume."),
            "model": choice("The model: nano, micro or gpt2."),
            "modelShape": _model_shape(),
            "data": _files("Globs of text or llm.c .bin files. Required for mode Train."),
            "prompts": _files("Globs of text files with one prompt a line. Required for mode "
                              "Generate."),
            "steps": integer("Optimizer steps."),
            "globalBatchSize": integer("Sequences a step, of the whole job. It must divide evenly "
                                       "among the processes."),
            "microBatchSize": integer("Sequences of one process at a time. Gradients accumulate "
                                      "over the micro-batches of a step. Absent: chosen, for at "
                                      "least eight micro-batches a step. Equal bits at another "
                                      "world size need the same value."),
            "sequenceLength": integer("Tokens of a sequence."),
            "learningRate": number("The highest learning rate.", above=0),
            "warmupSteps": integer("Steps until the highest learning rate."),
            "decaySteps": integer("Steps until the lowest learning rate. 0: all steps."),
            "weightDecay": number("AdamW's weight decay.", at_least=0),
            "clip": number("The limit of the gradient's norm. 0: no limit.", at_least=0),
            "seed": integer("Seed of the weights and the data order.", None, None),
            "precision": choice("Fp32 or Bf16."),
            "device": choice("Cuda (a GPU for each process), Cpu, or Auto: Cuda if the job asks "
                             "for GPUs."),
            "backend": choice("How ranks communicate: Nccl for GPUs, Gloo for CPUs, or Auto."),
            "sync": choice("How ranks combine gradients: AllReduce or ParameterServer."),
            "servers": listing("The ranks that serve with sync ParameterServer.",
                               integer("", 0, 65535), kind="set", fewest=1),
            "reduce": choice("How gradients are added up. Tree: in a fixed order, with equal bits "
                             "for every number of ranks. Ring: by Gloo. Nccl: by NCCL."),
            "parallel": struct("How the processes share one model. The rest is data parallel.", {
                "pipeline": integer("Adjacent processes with an equal part of the layers each. It "
                                    "divides the processes and the layers: 4 of nano, 6 of micro, "
                                    "12 of gpt2."),
                "tensor": integer("Adjacent processes with an equal part of each layer's shards. "
                                  "It divides tensorShards; pipeline x tensor divides the "
                                  "processes."),
                "tensorShards": integer("Parts in which each layer's heads and MLP are computed. "
                                        "It decides the bits, whatever the number of processes. A "
                                        "power of two that divides the heads: up to 4 for nano and "
                                        "gpt2, 2 for micro."),
            }, filled=True),
            "bucketMb": integer("Megabytes of gradients that are sent at once."),
            "overlap": boolean("Send gradients while others are computed."),
            "checkpointEvery": integer("Steps between checkpoints. 0: only at the end."),
            "memoryEvery": integer("With checkpoint.memory: steps between checkpoints in memory. "
                                   "0: none. Absent: chosen, to cost at most 2 % of the time."),
            "validationData": _files("Globs of held-out text or llm.c .bin files. The trainer "
                                     "reports their loss and perplexity."),
            "validateEvery": integer("Steps between validations. 0: only after the last step."),
            "validationSamples": integer("The most sequences of one validation."),
            "measureScaling": boolean("Rank 0 first makes five steps alone, and the trainer "
                                      "compares the speed of all ranks with it."),
            "recovery": choice("What the other ranks do if one dies. Restart: start anew from the "
                               "newest checkpoint. InPlace: keep their processes and give the new "
                               "rank their state."),
        },
        rule("self.mode != 'Train' || (has(self.data) && self.data.size() > 0)",
             "is missing; name the files to train on, as in [/data/*.txt]", ".data"),
        rule("self.mode != 'Generate' || (has(self.prompts) && self.prompts.size() > 0)",
             "is missing; mode: Generate needs files of prompts, a prompt a line, as in "
             "[/data/prompts.txt]", ".prompts"),
        rule("self.validateEvery == 0 || (has(self.validationData) && "
             "self.validationData.size() > 0)",
             "is missing; name the files to validate on, as in [/data/held-out.txt], or leave "
             "validateEvery out", ".validationData"),
    )


def rules():
    """Of the whole spec: what depends on how many processes there are."""
    world = "self.numMachines * self.processesPerMachine"
    micro = "(has(self.trainer.microBatchSize) ? self.trainer.microBatchSize : 1)"
    batch = "self.trainer.globalBatchSize"
    stages = "self.trainer.parallel.pipeline"
    tensor = "self.trainer.parallel.tensor"
    ranks = f"({stages} * {tensor})"
    share = f"({world} / {ranks} * {micro})"
    worlds = "[" + ", ".join(str(world) for world in range(1, 65)) + "]"
    worlds += f".filter(w, {batch} % (w * {micro}) == 0).map(w, w * {ranks})"
    return [
        rule(f"!has(self.trainer) || {world} % {ranks} != 0 || {batch} % {share} == 0",
             "cannot be divided evenly among all processes; write a multiple of numMachines x "
             "processesPerMachine x microBatchSize / (parallel.pipeline x parallel.tensor)",
             ".trainer.globalBatchSize",
             by="'cannot be divided evenly among %d processes in micro batches of %d; write a "
                "multiple of %d, or run it with this many processes: %s'"
                f".format([{world}, {micro}, {share}, {worlds}])"),
        rule(f"!has(self.trainer) || {world} % {stages} == 0",
             "must divide the number of processes, numMachines x processesPerMachine",
             ".trainer.parallel.pipeline"),
        rule(f"!has(self.trainer) || {tensor} == 1 || {world} % {ranks} == 0",
             "times pipeline must divide the number of processes, numMachines x "
             "processesPerMachine", ".trainer.parallel.tensor"),
        rule(f"!has(self.trainer) || self.trainer.parallel.tensorShards % {tensor} == 0",
             "must divide tensorShards", ".trainer.parallel.tensor"),
        rule("!has(self.trainer) || self.trainer.parallel.tensorShards in "
             f"{[2 ** n for n in range(11)]}",
             "must be a power of two, because shards are summed as a tree",
             ".trainer.parallel.tensorShards"),
        rule(f"!has(self.trainer) || self.trainer.servers.all(s, s < {world})",
             "must be ranks of the job, which begin with 0", ".trainer.servers",
             by=f"'must lie between 0 and %d'.format([{world} - 1])"),
        *_device_rules(),
    ]


def _device_rules():
    asks = "(has(self.resourcesPerProcess.gpu) && self.resourcesPerProcess.gpu > 0)"
    claims = ("(has(self.template) && has(self.template.spec) && "
              "has(self.template.spec.containers) && self.template.spec.containers.exists(c, "
              "c.name == 'worker' && has(c.resources) && has(c.resources.claims) && "
              "c.resources.claims.size() > 0))")
    has_gpus = f"({asks} || {claims})"
    on_gpus = f"(self.trainer.device == 'Cuda' || (self.trainer.device == 'Auto' && {has_gpus}))"

    def unless(wrong, message, path):
        return rule(f"!has(self.trainer) || !({wrong})", message, path)

    def whole(field, adds_up):
        """What cuts a model into parts needs ranks that train and add up as a tree."""
        path = f".trainer.parallel.{field}"
        parts = f"self{path} > 1"
        return [
            unless(f"{parts} && self.trainer.mode == 'Generate'",
                   "must be 1 for mode Generate, whose ranks share the prompts", path),
            unless(f"{parts} && self.trainer.sync == 'ParameterServer'",
                   "must be 1 with a parameter server, because it serves whole models", path),
            unless(f"{parts} && self.trainer.reduce != 'Tree'",
                   f"must be 1 unless reduce is Tree, as {adds_up} add up", path),
            unless(f"{parts} && self.trainer.measureScaling",
                   "must be 1 for measureScaling; a rank with a part of the model cannot run alone",
                   path),
        ]

    def whole_ranks(wrong, message):
        return unless(f"self.trainer.recovery == 'InPlace' && {wrong}",
                      f"must be Restart {message}", ".trainer.recovery")

    return [
        *whole("pipeline", "copies of a stage"),
        *whole("tensorShards", "shards"),
        unless(f"{asks} && self.resourcesPerProcess.gpu > 1",
               "must be 1 for spec.trainer, which uses one GPU a process; for more GPUs raise "
               "spec.processesPerMachine", ".resourcesPerProcess.gpu"),
        unless(f"{asks} && self.trainer.device == 'Cpu'",
               "remove it, or write spec.trainer.device: Cuda; on CPUs the trainer would leave its "
               "GPUs idle", ".resourcesPerProcess.gpu"),
        unless(f"!{has_gpus} && self.trainer.device == 'Cuda'",
               "needs spec.resourcesPerProcess.gpu: 1; without it the pods have no GPUs",
               ".trainer.device"),
        unless(f"{on_gpus} && self.resourcesPerProcess.gpuResource.startsWith('amd.com/')",
               "must be a resource of NVIDIA's GPUs for spec.trainer, as in nvidia.com/gpu; on AMD "
               "GPUs run your own command", ".resourcesPerProcess.gpuResource"),
        unless(f"!{on_gpus} && self.trainer.backend == 'Nccl'",
               "must be Auto or Gloo on CPUs; for GPUs write spec.resourcesPerProcess.gpu: 1",
               ".trainer.backend"),
        unless(f"{on_gpus} && self.trainer.backend == 'Gloo'",
               "must be Auto or Nccl on GPUs; Gloo works in the memory of CPUs",
               ".trainer.backend"),
        unless(f"!{on_gpus} && self.trainer.reduce == 'Nccl'",
               "must be Tree or Ring on CPUs; Nccl is NCCL's sum, between GPUs",
               ".trainer.reduce"),
        unless(f"{on_gpus} && self.trainer.reduce == 'Ring'",
               "must be Tree or Nccl on GPUs; Ring is Gloo's sum, between CPUs",
               ".trainer.reduce"),
        unless(f"{on_gpus} && self.trainer.sync == 'ParameterServer'",
               "must be AllReduce on GPUs; servers of parameters work on CPUs", ".trainer.sync"),
        whole_ranks("self.trainer.mode == 'Generate'",
                    "for mode Generate, whose ranks hold no state"),
        whole_ranks("self.trainer.sync == 'ParameterServer'",
                    "with a parameter server, because ranks lack its state"),
        whole_ranks("self.trainer.parallel.pipeline * self.trainer.parallel.tensor > 1",
                    "if parallel.pipeline or tensor is above 1; a rank with a part of the model "
                    "cannot give all of it to another"),
    ]
