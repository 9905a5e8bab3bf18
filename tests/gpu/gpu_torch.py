# SPDX-License-Identifier: Apache-2.0
"""The programs of `gpu_check.py` that need torch, each a process of its own.

    load            matrix products until its standard input ends; says `ready` when they run
    allreduce       one rank of an all-reduce of several sizes
    normalisation   ResNet-50 with batch normalisation fused, against Keras' operations, in interleaved blocks
    train           one rank of torch DDP, as `custom.command` of a study runs it; without an assignment, a bare loop

They run on `--device cpu` as well, to see that they work; figures of that say nothing.
"""

# mypy: ignore-errors
# torch is not in the lock file, so nothing here has types.

import json
import os
import select
import statistics
import sys
import time
from pathlib import Path

import gpu_findings
import torch
from torch import distributed, nn
from torch.nn import functional

PARAMETERS = 25_557_032  # of ResNet-50 with 1,000 classes (K. He et al., 2016)
MESSAGES = (1 << 20, 16 << 20, 4 * PARAMETERS, 256 << 20)  # bytes; the third is what a step of ResNet-50 sends
DTYPES = {"float32": None, "tensor_float32": None, "float16": torch.float16, "bfloat16": torch.bfloat16}
LOSS_SCALE = 128.0
LOSS_DIFFERENCE_MAX = 0.05  # share, between two orders of the same sums; 0.001 in float32


class Normalisation(nn.BatchNorm2d):
    """By one fused kernel, or by the operations that Keras 3 gives TensorFlow, one kernel each.

    They are those of keras/src/backend/tensorflow/nn.py and layers/normalization/batch_normalization.py, Keras 3.15:
    cast, mean, squared difference, its mean, rsqrt, multiply, subtract, cast.
    """

    fused = True

    def forward(self, x):
        if Normalisation.fused:
            statistic, weights = (self.running_mean, self.running_var), (self.weight, self.bias)
            return functional.batch_norm(x, *statistic, *weights, True, self.momentum, self.eps)
        wide, shape = x.float(), (1, -1, 1, 1)
        mean = wide.mean((0, 2, 3), keepdim=True)
        squared_difference = functional.mse_loss(wide, mean.detach().expand_as(wide), reduction="none")
        variance = squared_difference.mean((0, 2, 3), keepdim=True)
        with torch.no_grad():
            self.running_mean.lerp_(mean.flatten(), self.momentum)
            self.running_var.lerp_(variance.flatten(), self.momentum)
        factor = torch.rsqrt(variance + self.eps) * self.weight.view(shape)
        return (wide * factor + (self.bias.view(shape) - mean * factor)).to(x.dtype)


def convolved(inputs, outputs, size, stride=1):
    return nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False), Normalisation(outputs)


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        body = (*convolved(inputs, width, 1, stride), nn.ReLU(), *convolved(width, width, 3), nn.ReLU())
        self.body = nn.Sequential(*body, *convolved(width, 4 * width, 1))
        same = inputs == 4 * width
        self.shortcut = nn.Identity() if same else nn.Sequential(*convolved(inputs, 4 * width, 1, stride))

    def forward(self, x):
        return functional.relu(self.body(x) + self.shortcut(x))


def resnet50():
    layers, inputs = [*convolved(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
    for width, blocks, first in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for stride in (first, *(1,) * (blocks - 1)):
            layers.append(Bottleneck(inputs, width, stride))
            inputs = 4 * width
    network = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))
    assert sum(one.numel() for one in network.parameters()) == PARAMETERS
    return network


class Training:
    """Steps on one synthetic batch that stays on the device."""

    def __init__(self, options, batch, precision, wrap=lambda network: network):
        self.dtype, device = DTYPES[precision], options.device
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tensor_float32"
        torch.backends.cudnn.benchmark = True
        torch.manual_seed(1)
        self.network = wrap(resnet50().to(device, memory_format=torch.channels_last))
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=1e-3)
        images = torch.randn(batch, 3, options.image, options.image, device=device)
        self.images = images.contiguous(memory_format=torch.channels_last)
        self.labels = torch.randint(1000, (batch,), device=device)
        self.scale = LOSS_SCALE if self.dtype is torch.float16 else 1.0

    def loss(self):
        with torch.autocast(self.images.device.type, dtype=self.dtype, enabled=self.dtype is not None):
            return functional.cross_entropy(self.network(self.images).float(), self.labels)

    def steps(self, count):
        """Seconds of so many; and the loss of the last."""
        begun = time.perf_counter()
        for _ in range(count):
            loss = self.loss()
            self.optimizer.zero_grad(set_to_none=True)
            (loss * self.scale).backward()
            if self.scale != 1.0:
                torch._foreach_div_([one.grad for one in self.network.parameters()], self.scale)
            self.optimizer.step()
        last = loss.item()
        if self.images.is_cuda:
            torch.cuda.synchronize()  # the loss does not wait for the optimizer
        return time.perf_counter() - begun, last


def load(options):
    matrix = torch.randn(*(2 * [8192 if options.device == "cuda" else 256]), device=options.device)
    while not select.select([sys.stdin], [], [], 0)[0]:
        for _ in range(4):
            product = matrix @ matrix
        product[0, 0].item()
        os.write(1, b"ready\n")  # each time: a reader takes the first, and a pipe holds thousands
    return 0


def join(options, store):
    if options.device == "cuda":
        torch.cuda.set_device(options.rank)
    backend = "nccl" if options.device == "cuda" else "gloo"
    distributed.init_process_group(backend, store=store, rank=options.rank, world_size=options.ranks)
    return backend


def allreduce(options):
    findings = gpu_findings.Findings(options.out.with_suffix(f".{options.rank}"))
    join(options, distributed.FileStore(options.store, options.ranks))
    for size in MESSAGES:
        message, rates = torch.zeros(size // 4, device=options.device), []
        for _ in range(12):
            distributed.barrier()
            begun = time.perf_counter()
            for _ in range(5):
                distributed.all_reduce(message)
            message[0].item()
            rates.append(5 * size / (time.perf_counter() - begun) / 1e9)
        findings.figure(f"all-reduce of {size / 1e6:.4g} MB", "GB/s", rates[2:])  # two to warm up
    distributed.destroy_process_group()
    return 0


def normalisation(options):
    findings, (*first, last) = gpu_findings.Findings(options.out), options.precision
    cases = [(batch, one) for batch in options.batch for one in first] + [(batch, last) for batch in options.batch]
    for batch, precision in findings.in_time(cases, options.seconds):
        try:
            compare(findings, Training(options, batch, precision), f"{precision}, batch {batch}", options.block)
        except torch.cuda.OutOfMemoryError:
            findings.fact(f"{precision}, batch {batch}", "the GPU's memory was too small")
        torch.cuda.empty_cache()
    return findings.exit_code()


def compare(findings, training, case, block_seconds):
    """That both compute the same is checked before."""
    losses, each, batch = {}, {}, len(training.labels)
    for Normalisation.fused in (True, False):
        losses[Normalisation.fused] = training.loss().item()  # of the first weights
    bound = 0.001 if case.startswith("float32") else LOSS_DIFFERENCE_MAX
    same = abs(losses[True] / losses[False] - 1) < bound
    findings.check(f"loss of Keras' operations, {case}", losses[False], losses[True], holds=same)
    for Normalisation.fused in (True, False):
        training.steps(3)
        each[Normalisation.fused] = training.steps(2)[0] / 2
    count = max(1, round(block_seconds / max(each.values())))

    def rate(fused):
        Normalisation.fused = fused
        return count * batch / training.steps(count)[0]

    findings.contest(case, "images/s", {"fused": lambda: rate(True), "Keras' operations": lambda: rate(False)})


def train(options):
    """The contract is that of jobs/examples/own/train.py, with one worker."""
    told = json.loads(os.environ.get("GPUBENCH_ASSIGNMENT", "{}"))
    batch, seconds = told.get("batchPerWorker", options.batch[0]), told.get("measureSeconds", options.seconds)
    backend = join(options, distributed.HashStore())
    training = Training(options, batch, told.get("precision", "float32"), nn.parallel.DistributedDataParallel)
    training.steps(3)
    count = max(1, round(options.block / (training.steps(2)[0] / 2)))
    windows, loss = [], 0.0
    while len(windows) < 5 or sum(windows) < seconds * 1e9:
        taken, loss = training.steps(count)
        windows.append(round(1e9 * taken))
    steps, weights = count * len(windows), sum(one.double().sum().item() for one in training.network.parameters())
    record = {"kind": "result", "schemaVersion": 1, "workers": 1, "joinSeconds": 0.0, "initSeconds": 0.0}
    record |= {"trial": told.get("trial", "alone"), "attempt": told.get("attempt", 1), "warmUpWindows": 0}
    record |= {"steps": steps, "samples": steps * batch, "nanoseconds": sum(windows), "windows": len(windows)}
    record |= {"windowNanoseconds": [min(windows), round(statistics.median(windows)), max(windows)]}
    record |= {"environment": f"torch {torch.__version__}, {backend}, {options.device}", "finalLoss": loss}
    record |= {"weightsDigest": f"{weights:.9g}"}
    distributed.destroy_process_group()
    Path(os.environ.get("GPUBENCH_TERMINATION_MESSAGE") or options.out).write_text(json.dumps(record))
    print(json.dumps(record))
    return 0


if __name__ == "__main__":
    order = ["float16", "tensor_float32", "float32", "bfloat16"]  # the last one with every batch after all others
    others = {"device": "cuda", "rank": 0, "ranks": 1, "store": "", "image": 224, "block": 0.7}
    programs = (load, allreduce, normalisation, train)
    sys.exit(gpu_findings.program(__doc__, programs, batch=[64, 128, 256], precision=order, **others))
