# SPDX-License-Identifier: Apache-2.0
"""GpuBenchmarks that are refused for their sweep."""

from gpubench import workloads
from object_forms import ABSENT, DYNAMIC, HALF, LONG_VARIANTS, OWN, RESULTS, UNTIL, Bad, benchmark, block

BAD_SWEEPS = (
    Bad(
        "goal of messages",
        benchmark(
            sweep=[block(workloads=["allreduce"], workers=[2])],
            goals=[{"name": "all", "workload": "allreduce", "samples": 60000}],
        ),
        "spec.goals[0].workload",
        "goals[].workload cannot be allreduce, which sends messages and trains nothing",
    ),
    Bad(
        "unknown workload",
        benchmark(sweep=[block(workloads=["resnet51"])]),
        "spec.sweep[0].workloads[0]",
        "did you mean resnet50?",
        'Unsupported value: "resnet51": supported values: '
        + ", ".join(f'"{name}"' for name in (*workloads.NAMES, "Custom")),
    ),
    Bad(
        "unknown precision",
        benchmark(sweep=[block(precision=["fp16"])]),
        "spec.sweep[0].precision[0]",
        "choose one of float32, tensor_float32, mixed_float16, mixed_bfloat16",
        'Unsupported value: "fp16"',
    ),
    Bad(
        "no pool",
        benchmark(sweep=[block(pools=[])]),
        "spec.sweep[0].pools",
        "0 entries is too little: at least 1 is needed",
        "should have at least 1 items",
    ),
    Bad(
        "pools left out",
        benchmark(sweep=[block(pools=ABSENT)]),
        "spec.sweep[0].pools",
        "required, but absent. Names of GpuPools to run on",
        "Required value",
    ),
    Bad(
        "empty sweep",
        benchmark(sweep=[]),
        "spec.sweep",
        "at least 1 is needed",
        "should have at least 1 items",
    ),
    Bad("no sweep", benchmark(sweep=ABSENT), "spec.sweep", "required, but absent", "Required value"),
    Bad(
        "batch 0",
        benchmark(sweep=[block(batchPerWorker=[0])]),
        "spec.sweep[0].batchPerWorker[0]",
        "0 is too little: at least 1 is needed",
        "should be greater than or equal to 1",
    ),
    Bad(
        "no workers",
        benchmark(sweep=[block(workers=[0])]),
        "spec.sweep[0].workers[0]",
        "0 is too little",
        "should be greater than or equal to 1",
    ),
    Bad(
        "workers as text",
        benchmark(sweep=[block(workers=["2"])]),
        "spec.sweep[0].workers[0]",
        "'2' stands where a whole number is expected: write it without quotes",
        'must be of type integer: "string"',
    ),
    Bad(
        "workers twice",
        benchmark(sweep=[block(workers=[2, 2])]),
        "spec.sweep[0].workers[1]",
        "2 stands here twice: remove one of them",
        "Duplicate value: 2",
    ),
    Bad(
        "both batches",
        benchmark(sweep=[block(globalBatch=[128])]),
        "spec.sweep[0]",
        "a sweep block needs either batchPerWorker (weak scaling) or globalBatch (strong scaling); this one has both",
    ),
    Bad(
        "no batch",
        benchmark(sweep=[block(batchPerWorker=ABSENT)]),
        "spec.sweep[0]",
        "a sweep block needs either batchPerWorker (weak scaling) or globalBatch (strong scaling); this one has "
        "neither",
    ),
    Bad(
        "second block without batch",
        benchmark(sweep=[block(), block(batchPerWorker=ABSENT)]),
        "spec.sweep[1]",
        "this one has neither",
    ),
    Bad(
        "257 points over two blocks",
        benchmark(sweep=[block(workers=list(range(1, 33)), batchPerWorker=[*range(1, 9)]), block(workers=[33])]),
        "spec.sweep",
        "the blocks of spec.sweep can name at most 256 points in all: shorten the lists, or make several benchmarks of "
        "them; they name 257",
    ),
    Bad(
        "environments of 40,000 characters",
        benchmark(sweep=[block(variants=LONG_VARIANTS), block(variants=LONG_VARIANTS)]),
        "spec.sweep",
        "the variants' env and the custom commands of spec.sweep can have at most 32768 characters in all: put long "
        "texts into a file that a volume brings, or make several benchmarks; they have 40010",
    ),
    Bad(
        "commands of 32,769 characters",
        benchmark(sweep=[block(workloads=["Custom"], custom={"name": "mine", "command": ["x"] + ["y" * 1024] * 32})]),
        "spec.sweep",
        "they have 32769",
    ),
    Bad(
        "10,000 trials",
        benchmark(
            sweep=[block(workers=list(range(1, 26)), batchPerWorker=[*range(1, 11)], pools=["a", "b"])],
            measure={"repeats": {"min": 20}},
        ),
        "spec.sweep",
        "points times measure.repeats.max (min, where there is no max) can be at most 2560 trials: shorten the lists "
        "of spec.sweep, or repeat less; they make 10000",
    ),
    Bad(
        "2,816 trials at most",
        benchmark(
            sweep=[block(workers=list(range(1, 33)), batchPerWorker=[*range(1, 9)])],
            measure={"repeats": {"min": 3, "max": 11, "until": UNTIL}},
        ),
        "spec.sweep",
        "they make 2816",
    ),
    Bad(
        "misspelt field",
        benchmark(sweep=[block(batchPerWorkers=[64])]),
        "spec.sweep[0].batchPerWorkers",
        "unknown field: did you mean batchPerWorker?",
        'strict decoding error: unknown field "spec.sweep[0].batchPerWorkers"',
    ),
    Bad(
        "a field in snake case",
        benchmark(sweep=[block(batch_per_worker=[64])]),
        "spec.sweep[0].batch_per_worker",
        "unknown field: did you mean batchPerWorker?",
        'strict decoding error: unknown field "spec.sweep[0].batch_per_worker"',
    ),
    Bad(
        "no name of a pool",
        benchmark(sweep=[block(pools=["GKE"])]),
        "spec.sweep[0].pools[0]",
        "write the name of a GpuPool: small letters, digits, - and .",
    ),
    Bad(
        "a path without a volume's data",
        benchmark(sweep=[block(data={"path": "/data"})]),
        "spec.sweep[0].data",
        "data.path is the folder of the real files: give it with source Volume, and with no other source",
    ),
    Bad(
        "a volume's data without a path",
        benchmark(sweep=[block(data={"source": "Volume"})]),
        "spec.sweep[0].data",
        "data.path is the folder of the real files: give it with source Volume, and with no other source",
    ),
    Bad(
        "a relative path",
        benchmark(sweep=[block(data={"source": "Volume", "path": "data/mnist"})]),
        "spec.sweep[0].data.path",
        "write an absolute path, such as /data/mnist",
    ),
    Bad(
        "a size of synthetic data",
        benchmark(sweep=[block(data={"samples": 1000})]),
        "spec.sweep[0].data",
        "data.samples is the size of a generated set: give it with source Generated only",
    ),
    Bad(
        "a variant twice",
        benchmark(sweep=[block(variants=[{"name": "a"}, {"name": "a", "xla": True}])]),
        "spec.sweep[0].variants[1]",
        "a stands here twice",
        'Duplicate value: {"name":"a"}',
    ),
    Bad(
        "a variant that is none",
        benchmark(sweep=[block(variants=[{"name": "none"}])]),
        "spec.sweep[0].variants[0].name",
        "a variant cannot be called none, which in spec.baseline means a point without one: choose another name",
    ),
    Bad(
        "a variant's name with a blank",
        benchmark(sweep=[block(variants=[{"name": "fp16 wire"}])]),
        "spec.sweep[0].variants[0].name",
        "write small letters, digits, -, _ and ., beginning and ending with a letter or digit",
    ),
    Bad(
        "dynamic loss scaling of float32",
        benchmark(sweep=[block(precision=["float32", "mixed_float16"], variants=[DYNAMIC])]),
        "spec.sweep[0].variants",
        "lossScaling Dynamic is for mixed_float16: set precision to [mixed_float16], and put other precisions into "
        "another block",
    ),
    Bad(
        "Custom without custom",
        benchmark(sweep=[block(workloads=["Custom"])]),
        "spec.sweep[0]",
        "workloads: [Custom] and custom belong together: give both, and other workloads in another block",
    ),
    Bad(
        "custom beside another workload",
        benchmark(sweep=[block(workloads=["Custom", "mnist_cnn"], custom=OWN)]),
        "spec.sweep[0]",
        "workloads: [Custom] and custom belong together",
    ),
    Bad(
        "neither file nor command",
        benchmark(sweep=[block(workloads=["Custom"], custom={"name": "mine"})]),
        "spec.sweep[0].custom",
        "custom needs exactly one of file (a Python file with build()) and command (a program of its own)",
    ),
    Bad(
        "an own workload by the name of another",
        benchmark(sweep=[block(workloads=["Custom"], custom={**OWN, "name": "resnet50"})]),
        "spec.sweep[0].custom.name",
        "custom.name is the name of a workload of gpubench: choose another one",
    ),
    Bad(
        "epochs of a throughput",
        benchmark(sweep=[block(epochs=2)]),
        "spec.sweep",
        "sweep[].epochs needs measure.mode Training: set the mode, or remove epochs",
    ),
    Bad(
        "training on noise",
        benchmark(measure={"mode": "Training"}),
        "spec.sweep",
        "measure.mode Training needs data that can be learned: set sweep[].data.source to Generated or Volume",
    ),
    Bad(
        "one epoch without its first",
        benchmark(
            sweep=[block(data={"source": "Generated"}, epochs=1)],
            measure={"mode": "Training", "timedRegion": {"firstEpoch": "Excluded"}},
        ),
        "spec.sweep",
        "measure.timedRegion.firstEpoch Excluded leaves nothing of 1 epoch: give sweep[].epochs 2 or more",
    ),
    *(
        Bad(
            f"a base whose {title} no block has",
            benchmark(
                sweep=[block(), block(pools=["gpu"], workers=[4], variants=[DYNAMIC], precision=HALF)], baseline=named
            ),
            "spec.baseline",
            "baseline names a point that no block of spec.sweep has: give values that stand together in one block",
        )
        for title, named in (
            ("workers", {"workers": 8}),
            ("workers on that pool", {"pool": "gpu", "workers": 1}),
            ("batch", {"batchPerWorker": 32}),
            ("global batch", {"globalBatch": 64}),
            ("precision", {"precision": "mixed_bfloat16"}),
            ("variant", {"variant": "static"}),
            ("variant on that pool", {"pool": "cpu", "variant": "dynamic"}),
        )
    ),
    Bad(
        "257 points by variants",
        benchmark(
            sweep=[
                block(
                    workers=list(range(1, 33)),
                    batchPerWorker=[1, 2, 3],
                    variants=[{"name": "a"}, {"name": "b"}, {"name": "c"}],
                )
            ]
        ),
        "spec.sweep",
        "they name 288",
    ),
    Bad(
        "records of programs that write none",
        benchmark(
            sweep=[block(workloads=["Custom"], custom={"name": "mine", "command": ["python", "-V"]})], results=RESULTS
        ),
        "spec.results",
        "spec.results keeps the records of gpubench's own launcher, which custom.command replaces: remove results",
    ),
)
