# SPDX-License-Identifier: Apache-2.0
"""GpuBenchmarks that are refused for anything but their sweep."""

from object_forms import CHECKPOINT, EUROS, GENERATED, ONE_GOAL, RESULTS, UNTIL, VOLUME, Bad, benchmark, block, training

BAD_STUDIES = (
    *(
        Bad(
            f"a drill every {every}",
            benchmark(drill={"every": every}),
            "spec.drill.every",
            f"drill.every must be at least 5s: an attempt has to get somewhere before it is interrupted; it is {every}",
        )
        for every in ("4s", "0s")
    ),
    Bad(
        "a drill that evicts and cordons",
        benchmark(drill={"every": "90s", "cordonFor": "60s"}),
        "spec.drill.cordonFor",
        "drill.cordonFor needs drill.kind Drain: set the kind, or remove cordonFor",
    ),
    *(
        Bad(
            f"a drill that cordons for {cordoned}",
            benchmark(drill={"every": "90s", "kind": "Drain", "cordonFor": cordoned}),
            "spec.drill.cordonFor",
            f"drill.cordonFor must be from 5s to 1h; it is {cordoned}",
        )
        for cordoned in ("4s", "1h1s")
    ),
    Bad(
        "a drill that does not say when",
        benchmark(drill={"times": 3}),
        "spec.drill.every",
        "required, but absent",
        "Required value",
    ),
    *(
        Bad(
            f"a drill of {times} times",
            benchmark(drill={"every": "90s", "times": times}),
            "spec.drill.times",
            sentence,
            f"should be {than} than or equal to",
        )
        for times, sentence, than in ((0, "at least 1 is needed", "greater"), (501, "at most 500 is possible", "less"))
    ),
    *(
        Bad(
            f"a budget of {budget}",
            benchmark(limits={"budget": budget}),
            "spec.limits.budget",
            "limits.budget must be more than 0: write what it may cost, such as 40.00, or remove it",
        )
        for budget in (0, "0", "0.00")
    ),
    Bad(
        "a budget with its currency",
        benchmark(limits={"budget": "40 USD"}),
        "spec.limits.budget",
        "write a decimal number as text",
        server="in body should match",
    ),
    Bad(
        "five goals of one workload",
        benchmark(goals=[{"name": f"goal-{n}", "workload": "mnist_cnn", "samples": 60000} for n in range(5)]),
        "spec.goals",
        "spec.goals can have at most 4 goals for each workload",
    ),
    Bad(
        "a study that is its own baseline",
        benchmark(compareTo={"benchmark": "study"}),
        "spec.compareTo.benchmark",
        "spec.compareTo.benchmark is this benchmark itself: name another one, which has finished",
    ),
    Bad(
        "a baseline without a name",
        benchmark(compareTo={"tolerance": "0.05"}),
        "spec.compareTo.benchmark",
        "required, but absent",
        "Required value",
    ),
    Bad(
        "a baseline that no benchmark can be called",
        benchmark(compareTo={"benchmark": "Last Week"}),
        "spec.compareTo.benchmark",
        "write the name of an object of Kubernetes",
    ),
    *(
        Bad(
            f"a tolerance of {tolerance}",
            benchmark(compareTo={"benchmark": "last-week", "tolerance": tolerance}),
            "spec.compareTo.tolerance",
            f"compareTo.tolerance must be from 0.001 to 0.5, such as 0.05 for 5 %; it is {tolerance}",
        )
        for tolerance in ("0", "0.0009", "0.51", "5")
    ),
    Bad(
        "a tolerance in percent",
        benchmark(compareTo={"benchmark": "last-week", "tolerance": "5%"}),
        "spec.compareTo.tolerance",
        "write a decimal number as text",
    ),
    Bad(
        "fewer repeats at most than at least",
        benchmark(measure={"repeats": {"min": 5, "max": 4, "until": UNTIL}}),
        "spec.measure.repeats.max",
        "measure.repeats.max cannot be less than measure.repeats.min: raise max, or lower min; max is 4, min 5",
    ),
    Bad(
        "more repeats for no reason",
        benchmark(measure={"repeats": {"min": 3, "max": 4}}),
        "spec.measure.repeats.max",
        "measure.repeats.max beyond min needs measure.repeats.until, which says when to stop: give it, or set min to "
        "the number that you want",
    ),
    Bad(
        "repeats that have nothing to stop",
        benchmark(measure={"repeats": {"min": 3, "until": UNTIL}}),
        "spec.measure.repeats.until",
        "measure.repeats.until needs measure.repeats.max greater than min: otherwise there is nothing to stop",
    ),
    Bad(
        "precision of two runs",
        benchmark(measure={"repeats": {"min": 2, "max": 4, "until": UNTIL}}),
        "spec.measure.repeats.min",
        "measure.repeats.until needs measure.repeats.min of at least 3: fewer runs have no interval; min is 2",
    ),
    Bad(
        "more precision than can be had",
        benchmark(measure={"repeats": {"max": 9, "until": {"relativeHalfWidth": "0.0005"}}}),
        "spec.measure.repeats.until.relativeHalfWidth",
        "measure.repeats.until.relativeHalfWidth must be from 0.001 to 0.5, such as 0.02, for ±2 %; it is 0.0005",
    ),
    Bad(
        "no precision",
        benchmark(measure={"repeats": {"max": 9, "until": {"relativeHalfWidth": "2"}}}),
        "spec.measure.repeats.until.relativeHalfWidth",
        "must be from 0.001 to 0.5, such as 0.02, for ±2 %; it is 2",
    ),
    Bad(
        "precision in percent",
        benchmark(measure={"repeats": {"max": 9, "until": {"relativeHalfWidth": "2 %"}}}),
        "spec.measure.repeats.until.relativeHalfWidth",
        'write a decimal number as text, such as "10.21"',
    ),
    Bad(
        "certainty",
        benchmark(measure={"repeats": {"max": 9, "until": {**UNTIL, "confidence": "1"}}}),
        "spec.measure.repeats.until.confidence",
        "measure.repeats.until.confidence must be from 0.5 to 0.999, such as 0.95; it is 1",
    ),
    Bad(
        "half a health check",
        benchmark(measure={"healthCheck": "Sometimes"}),
        "spec.measure.healthCheck",
        "choose one of Enabled, Disabled",
        'Unsupported value: "Sometimes"',
    ),
    Bad(
        "too many repeats",
        benchmark(measure={"repeats": {"min": 21}}),
        "spec.measure.repeats.min",
        "21 is too much: at most 20 is possible",
        "should be less than or equal to 20",
    ),
    Bad(
        "no repeats",
        benchmark(measure={"repeats": {"min": 0}}),
        "spec.measure.repeats.min",
        "0 is too little",
        "should be greater than or equal to 1",
    ),
    Bad(
        "a duration in words",
        benchmark(measure={"duration": "10 seconds"}),
        "spec.measure.duration",
        "write hours, minutes and seconds, such as 1h30m, 15m or 90s",
    ),
    Bad(
        "a duration as number",
        benchmark(measure={"duration": 10}),
        "spec.measure.duration",
        "10 stands where text is expected: put it in quotes",
        'must be of type string: "integer"',
    ),
    Bad(
        "a window of nothing",
        benchmark(measure={"window": "0s"}),
        "spec.measure.window",
        "measure.window must be longer than 0s",
    ),
    Bad(
        "a window longer than the measurement",
        benchmark(measure={"window": "2m", "duration": "90s"}),
        "spec.measure.window",
        "measure.window cannot be longer than measure.duration: a trial holds at least one window; window is 2m, "
        "duration 90s",
    ),
    Bad(
        "time for scheduling is zero",
        benchmark(limits={"schedulingTimeout": "0m"}),
        "spec.limits.schedulingTimeout",
        "limits.schedulingTimeout must be longer than 0s",
    ),
    Bad(
        "time for capacity that is no duration",
        benchmark(limits={"capacityTimeout": "ever"}),
        "spec.limits.capacityTimeout",
        "write hours, minutes and seconds, such as 1h30m, 15m or 90s",
    ),
    Bad(
        "an attempt shorter than its measurement",
        benchmark(limits={"attemptTimeout": "1m"}),
        "spec.limits.attemptTimeout",
        "limits.attemptTimeout must be longer than measure.warmUp and measure.duration together: otherwise no attempt "
        "could finish; attemptTimeout is 1m, warmUp 10s, duration 60s",
    ),
    Bad(
        "name too long",
        benchmark("a" * 41),
        "metadata.name",
        "metadata.name must have at most 40 characters, because the names of its pods begin with it; this one has 41",
    ),
    Bad(
        "name with a dot",
        benchmark("three.cnns"),
        "metadata.name",
        "metadata.name must begin with a letter and hold only small letters, digits and -",
    ),
    Bad(
        "name that begins with a digit",
        benchmark("3-cnns"),
        "metadata.name",
        "metadata.name must begin with a letter",
    ),
    Bad(
        "an environment variable twice",
        benchmark(template={"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}),
        "spec.template.env[1]",
        "A stands here twice",
        'Duplicate value: {"name":"A"}',
    ),
    Bad(
        "exchange rates into nothing",
        benchmark(exchangeRates=[EUROS]),
        "spec.exchangeRates",
        "exchangeRates lead into spec.currency: give it",
    ),
    Bad(
        "an exchange rate of a currency into itself",
        benchmark(currency="EUR", exchangeRates=[EUROS]),
        "spec.exchangeRates",
        "exchangeRates[].from is spec.currency itself",
    ),
    Bad(
        "two rates of one currency",
        benchmark(currency="USD", exchangeRates=[EUROS, {**EUROS, "rate": "1.24"}]),
        "spec.exchangeRates[1]",
        "EUR stands here twice",
        'Duplicate value: {"from":"EUR"}',
    ),
    Bad(
        "an exchange rate of too many digits",
        benchmark(currency="USD", exchangeRates=[{**EUROS, "rate": "10000001"}]),
        "spec.exchangeRates[0].rate",
        "exchangeRates[].rate is more than 10000000, which no currency is worth",
    ),
    Bad(
        "a worthless currency",
        benchmark(currency="USD", exchangeRates=[{**EUROS, "rate": "0.00"}]),
        "spec.exchangeRates[0].rate",
        "exchangeRates[].rate must be more than 0",
    ),
    Bad(
        "an empty duration",
        benchmark(limits={"attemptTimeout": "hh"}),
        "spec.limits.attemptTimeout",
        "write hours, minutes and seconds",
    ),
    Bad(
        "a timed region of a throughput",
        benchmark(measure={"timedRegion": {"evaluation": "Outside"}}),
        "spec.measure.timedRegion",
        "measure.timedRegion needs measure.mode Training: set the mode, or remove timedRegion",
    ),
    Bad(
        "a base that is none",
        benchmark(baseline={}),
        "spec.baseline",
        "baseline names no value that tells the base from other points: give pool, workers",
    ),
    Bad(
        "a base on a pool that is not in the sweep",
        benchmark(baseline={"pool": "k80", "workers": 1}),
        "spec.baseline.pool",
        "baseline.pool is one of the pools of spec.sweep: name one of them, or add it to a block",
    ),
    Bad(
        "a base of two batches",
        benchmark(baseline={"batchPerWorker": 64, "globalBatch": 64}),
        "spec.baseline.globalBatch",
        "baseline.globalBatch is baseline.batchPerWorker times the workers: give one of them",
    ),
    Bad(
        "an objective without its goal",
        benchmark(objective={"minimize": "Cost", "goal": "imagenet"}),
        "spec.objective.goal",
        "objective.goal is the name of one of spec.goals: name one of them, or add the goal",
    ),
    Bad(
        "an objective of another goal",
        benchmark(goals=[ONE_GOAL], objective={"minimize": "Cost", "goal": "other"}),
        "spec.objective.goal",
        "objective.goal is the name of one of spec.goals: name one of them, or add the goal",
    ),
    Bad(
        "a deadline for the least time",
        benchmark(goals=[ONE_GOAL], objective={"minimize": "Time", "goal": "one", "maxHours": 48}),
        "spec.objective.maxHours",
        "objective.maxHours is the limit of minimize Cost",
    ),
    Bad(
        "a bound of the least cost",
        benchmark(goals=[ONE_GOAL], currency="USD", objective={"minimize": "Cost", "goal": "one", "maxCost": "5"}),
        "spec.objective.maxCost",
        "objective.maxCost is the limit of minimize Time",
    ),
    Bad(
        "nothing to spend",
        benchmark(goals=[ONE_GOAL], currency="USD", objective={"minimize": "Time", "goal": "one", "maxCost": "0.00"}),
        "spec.objective.maxCost",
        "objective.maxCost must be more than 0: write what may be spent, such as 500, or remove it",
    ),
    Bad(
        "an amount without a currency",
        benchmark(goals=[ONE_GOAL], objective={"minimize": "Time", "goal": "one", "maxCost": "5"}),
        "spec.objective.maxCost",
        "objective.maxCost is an amount in spec.currency: give currency, such as USD",
    ),
    Bad(
        "a deadline of no time",
        benchmark(goals=[ONE_GOAL], objective={"minimize": "Cost", "goal": "one", "maxHours": 0}),
        "spec.objective.maxHours",
        "objective.maxHours must be from 0.01 to 100000: write the hours that there are, such as 48, or remove it",
    ),
    Bad(
        "a deadline with more places than a quantity is written with",
        benchmark(
            goals=[ONE_GOAL], objective={"minimize": "Cost", "goal": "one", "maxHours": "999999999999.999999999"}
        ),
        "spec.objective.maxHours",
        "objective.maxHours must be from 0.01 to 100000",
    ),
    Bad(
        "a deadline of seconds",
        benchmark(goals=[ONE_GOAL], objective={"minimize": "Cost", "goal": "one", "maxHours": "0.001"}),
        "spec.objective.maxHours",
        "objective.maxHours must be from 0.01 to 100000",
    ),
    Bad(
        "a goal of a workload that is not there",
        benchmark(goals=[{"name": "imagenet", "workload": "resnet50", "samples": 1_281_167}]),
        "spec.goals",
        "goals[].workload is a workload of the sweep: name one of them, or remove the goal",
    ),
    Bad(
        "a volume by the name of the results volume",
        benchmark(template={"volumes": [{**VOLUME, "name": "gpubench-results"}]}),
        "spec.template.volumes[0].name",
        "volumes[].name tmp, shm, gpubench-results and gpubench-checkpoints are the pods' own volumes: choose",
    ),
    *(
        Bad(
            f"records in {where}",
            benchmark(results={**RESULTS, "path": where}),
            "spec.results.path",
            "write a folder below the volume's own, such as team-a/studies",
        )
        for where in ("/runs", "../runs", "runs/../..", "./runs", "runs/", "runs//a", "my runs", ".hidden")
    ),
    Bad(
        "records without a volume",
        benchmark(results={"path": "runs"}),
        "spec.results.volume",
        "required, but absent",
        "Required value",
    ),
    Bad(
        "checkpoints of a measurement of throughput",
        benchmark(checkpoint=CHECKPOINT),
        "spec.checkpoint",
        "spec.checkpoint needs measure.mode Training, as a measurement of throughput begins afresh in each attempt",
    ),
    Bad(
        "checkpoints of a program of one's own",
        training(
            sweep=[
                block(data=GENERATED),
                block(workloads=["Custom"], custom={"name": "mine", "command": ["python", "-V"]}, data=GENERATED),
            ],
            checkpoint=CHECKPOINT,
        ),
        "spec.checkpoint",
        "spec.checkpoint keeps the state of gpubench's own ranks, which custom.command replaces: remove checkpoint",
    ),
    Bad(
        "checkpoints without a volume",
        training(checkpoint={"interval": "90s"}),
        "spec.checkpoint.volume",
        "required, but absent",
        "Required value",
    ),
    Bad(
        "an interval between checkpoints of nothing",
        training(checkpoint={**CHECKPOINT, "interval": "0s"}),
        "spec.checkpoint.interval",
        "checkpoint.interval must be longer than 0s",
    ),
    Bad(
        "an interval, and what one is computed from",
        training(checkpoint={**CHECKPOINT, "interval": "90s", "interruptionsPerHour": "0.1"}),
        "spec.checkpoint.interruptionsPerHour",
        "checkpoint.interruptionsPerHour is what an interval is computed from: remove it, or interval",
    ),
    *(
        Bad(
            f"{rate} interruptions in an hour",
            training(checkpoint={**CHECKPOINT, "interruptionsPerHour": rate}),
            "spec.checkpoint.interruptionsPerHour",
            "checkpoint.interruptionsPerHour must be from 0.00001 to 100, such as 0.05",
        )
        for rate in ("0", "101")
    ),
)
