"""What a user of Accelerate writes: nothing about Lockstep."""

import json

import torch
from accelerate import Accelerator

accelerator = Accelerator()
total = accelerator.reduce(torch.tensor(float(accelerator.process_index)), reduction="sum")
print(json.dumps({"process": accelerator.process_index, "processes": accelerator.num_processes,
                  "sum": total.item()}), flush=True)
