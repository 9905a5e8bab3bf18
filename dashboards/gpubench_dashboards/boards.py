# SPDX-License-Identifier: Apache-2.0
"""The five dashboards, in the order in which a question leads from one to the next."""

from grafana_foundation_sdk.builders import timeseries
from grafana_foundation_sdk.builders.dashboard import AnnotationQuery, CustomVariable
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.common import BigValueTextMode

from gpubench import metrics
from gpubench.metrics import Metric, Unit
from gpubench_dashboards import build
from gpubench_dashboards.build import BAD, BOUND, GOOD, WEAK, above, bars, figures, fixed, over_number, over_time, rows
from gpubench_dashboards.rules import BENCHMARK, CLUSTER, GANG, POINT, POOL, RANK, SCHEDULE, gauge, gauges, labels

_IN_CLUSTER = 'cluster=~"$cluster"'
_IN_NAMESPACE = f'{_IN_CLUSTER}, benchmark_namespace=~"$benchmark_namespace"'
_OF_BENCHMARK = f'{_IN_NAMESPACE}, benchmark=~"$benchmark"'
_CLUSTERS = build.variable(CLUSTER, "Cluster", metrics.TRIALS)
_NAMESPACE = build.variable("benchmark_namespace", "Namespace", metrics.TRIALS, where=_IN_CLUSTER)
_BENCHMARKS = build.variable("benchmark", "Benchmark", metrics.TRIALS, where=_IN_NAMESPACE)
_WORKLOADS = build.variable("workload", "Workload", metrics.POINT_WORKERS, where=_OF_BENCHMARK)
_BENCHMARK = build.variable("benchmark", "Benchmark", metrics.TRIALS, where=_IN_NAMESPACE, multiple=False)


def _added(metric: Metric, values: str) -> str:
    label = metric.labels[-1]
    series = f'{metric.name}{{{_OF_BENCHMARK}, {label}=~"{values}"}}'
    added = f"{series} - min_over_time({series}[1m])"
    return f"max by ({labels(*BENCHMARK, label)}) ({added}) > 0"


#: Attempts on the time axes: marked when they have ended. That one runs is in the panels.
_MARKS = {
    "Preempted": (WEAK, metrics.ATTEMPTS, "preempted|drilled", "an attempt lost its nodes ({{outcome}})"),
    "Failed": (BAD, metrics.ATTEMPTS, "failed|stopped", "an attempt ended without a result ({{outcome}})"),
    "Measured": (GOOD, metrics.ATTEMPTS, "succeeded", "an attempt has its result"),
    "Started": ("blue", metrics.TRIALS, "running", "an attempt has begun"),
}
_ATTEMPTS = [
    AnnotationQuery().name(name).datasource(build.SOURCE).icon_color(colour).expr(_added(metric, values))
    for name, (colour, metric, values, _) in _MARKS.items()
]
ANNOTATION_TEXTS = {name: f"{{{{benchmark}}}}: {said}" for name, (*_, said) in _MARKS.items()}
_LOST = {"/\\b(lost|failed)\\b/": fixed(BAD)}
_ANY_IS_BAD, _ANY_IS_WEAK, _OF_BUDGET = above({1: BAD}), above({1: WEAK}), above({0.9: WEAK, 1: BAD})

_of_benchmark = gauges(BENCHMARK, _OF_BENCHMARK)
_BENCHMARK_LINK = (
    "/d/gpubench-study?${datasource:queryparam}&${cluster:queryparam}&${__url_time_range}"
    "&var-benchmark_namespace=${__data.fields.benchmark_namespace}&var-benchmark=${__data.fields.benchmark}"
)
#: What a legend calls a point by, what differs first: it may be cut off. The rest is in the table beside it.
_SHOWN = ("pool", "workers", "batch_per_worker", "precision", "variant")
_SHORT_NAME = "{{pool}} x{{workers}} {{precision}} {{variant}}"
_POINT_NAME = f"{_SHORT_NAME} batch {{{{batch_per_worker}}}} {{{{workload}}}}"
_FINISHED_RATIO = f"study:gpubench_trials:finished_ratio{{{_OF_BENCHMARK}}}"
_SPENT_RATIO = f"study:gpubench_spent:of_budget_ratio{{{_OF_BENCHMARK}}}"
_OF_WORKLOAD = f'{_OF_BENCHMARK}, workload=~"$workload"'
_RANKED = labels(*BENCHMARK, "workload", *_SHOWN)

_schedule = gauges(SCHEDULE, _IN_NAMESPACE)
_of_level = gauges((*SCHEDULE, "point", "series"), _IN_NAMESPACE)

_ALL_BENCHMARKS = build.dashboard(
    "gpubench-studies",
    "gpubench / Benchmarks",
    "All benchmarks at a glance: how far they are, what they cost, what they found; and schedules.",
    variables=(_CLUSTERS, _NAMESPACE, _BENCHMARKS, _WORKLOADS),
    annotations=_ATTEMPTS,
    time_from="now-24h",
    panels=(
        figures(
            "Benchmarks",
            "How many benchmarks are there, how many have finished, and how many have succeeded?",
            {
                "in all": f"count({_of_benchmark(metrics.CONDITION, condition='Finished')})",
                "finished": f"sum({_of_benchmark(metrics.CONDITION, condition='Finished')})",
                "succeeded": f"sum({_of_benchmark(metrics.CONDITION, condition='Succeeded')})",
            },
        ),
        figures(
            "Trials",
            "How much is under way, and how much waits for capacity?",
            {
                state: f"sum({_of_benchmark(metrics.TRIALS, state=state)})"
                for state in ("running", "waiting", "finished")
            },
        ),
        rows(
            "All benchmarks",
            "How far is each benchmark, what has gone wrong in it, and what has it spent? A click leads to it.",
            {
                "spent": _of_benchmark(metrics.SPENT, "currency"),
                "of the budget": f"max by ({labels(*BENCHMARK, 'currency')}) ({_SPENT_RATIO})",
                "started": f"1000 * {_of_benchmark(metrics.STARTED)}",
                "done": _FINISHED_RATIO,
                "running": _of_benchmark(metrics.TRIALS, state="running"),
                "measured": _of_benchmark(metrics.POINTS, state="Measured"),
                "points failed": _of_benchmark(metrics.POINTS, state="Failed"),
                "failures": _of_benchmark(metrics.ATTEMPTS, outcome="failed"),
                "preempted": _of_benchmark(metrics.ATTEMPTS, outcome="preempted"),
            },
            columns=("benchmark_namespace", "benchmark", CLUSTER, "currency"),
            special={
                "benchmark": [models.DynamicConfigValue("links", [{"title": "Look closer", "url": _BENCHMARK_LINK}])],
                "points failed": _ANY_IS_BAD,
                "failures": _ANY_IS_BAD,
                "preempted": _ANY_IS_WEAK,
                "of the budget": _OF_BUDGET,
            },
        ).height(7),
        over_time(
            "Progress",
            "Which benchmarks make progress, and which do not?",
            {"{{benchmark_namespace}}/{{benchmark}}": _FINISHED_RATIO},
        ).max(1.0),
        over_time(
            "Attempts by how they ended",
            "Do attempts come to results, or are they lost to failures and preemptions?",
            {"{{outcome}}": f"sum by (outcome) ({_of_benchmark(metrics.ATTEMPTS, 'outcome')})"},
            stacked=True,
            special={
                "succeeded": fixed(GOOD),
                "failed": fixed(BAD),
                "preempted": fixed(WEAK),
                "stopped": fixed("yellow"),
            },
        ),
        over_time(
            "Spent",
            "What does each benchmark cost so far, failed and preempted attempts included?",
            {"{{benchmark_namespace}}/{{benchmark}} {{currency}}": _of_benchmark(metrics.SPENT, "currency")},
        ),
        bars(
            "Cheapest points",
            "Where do a million samples cost least? Compare within one workload, and one currency.",
            {
                f"{_SHORT_NAME} {{{{currency}}}} {{{{basis}}}} {{{{workload}}}} batch {{{{batch_per_worker}}}} "
                "({{benchmark}})": "sort(bottomk by (currency) (15, "
                f"min by ({_RANKED}, currency, basis) ({metrics.COST.name}{{{_OF_WORKLOAD}}})))"
            },
        ),
        bars(
            "Fastest points",
            "Which pool and gang trains fastest? Compare within one workload.",
            {
                f"{_POINT_NAME} ({{{{benchmark}}}})": f"sort_desc(topk(15, max by ({_RANKED}) "
                f"({metrics.THROUGHPUT.name}{{{_OF_WORKLOAD}}})))"
            },
        ),
        bars(
            "Warnings",
            "What must a reader of the figures know: weak nodes, stragglers, drift?",
            {"{{reason}}": f"sum by (reason) ({gauge(metrics.WARNINGS, *POINT, 'reason', where=_OF_WORKLOAD)})"},
            special={"/^(Straggler|WeakNode|Unsettled|BusyMachine|LossRose|PriceStale)$/": fixed(WEAK)},
        ),
        rows(
            "Schedules",
            "Which schedules are there, when is the next run, is one slower now, and what does a month cost?",
            {
                "a month": _schedule(metrics.SCHEDULE_MONTHLY, "currency"),
                "runs under way": _schedule(metrics.SCHEDULE_ACTIVE),
                "newest run": f"1000 * {_schedule(metrics.SCHEDULE_LAST)}",
                "next run": f"1000 * {_schedule(metrics.SCHEDULE_NEXT)}",
                "regressed": _schedule(metrics.SCHEDULE_CONDITION, condition="Regressed"),
                "slower points": _schedule(metrics.SCHEDULE_SLOWER_POINTS),
                "slow nodes": _schedule(metrics.SCHEDULE_SLOW_NODES),
            },
            columns=("benchmark_namespace", "schedule", CLUSTER, "currency"),
            special={
                "regressed": build.words({"0": ("no", "text"), "1": ("yes", BAD)}),
                "slower points": _ANY_IS_BAD,
                "slow nodes": _ANY_IS_WEAK,
            },
        ),
        over_time(
            "Points of schedules, against their level",
            "How fast is each point where it is slowest, and since when is it below what it was?",
            {
                "{{benchmark_namespace}}/{{schedule}}: {{point}}": f"min by ({labels(*SCHEDULE, 'point')}) "
                f"({_of_level(metrics.SCHEDULE_SPEED)} / {_of_level(metrics.SCHEDULE_USUAL)})"
            },
            from_zero=False,
        ).span(24),
    ),
)

#: What splits the points of a workload.
_SPLITTING = ("pool", "batch_per_worker", "precision", "variant", "data")
_OF_POINT = ", ".join((_OF_WORKLOAD, *(f'{label}=~"${label}"' for label in _SPLITTING)))
_ON_LINE = f'{_OF_POINT}, scaling="${{scaling:text}}"'
#: What tells lines apart, beside the batch that is the same along them: by $scaling that of a worker, or of all.
_LINE = ("pool", "precision", "variant", "data", "data_path", "data_samples", "epochs")
_FACTS = tuple(name for name in metrics.ENVIRONMENT.labels if name not in (*BENCHMARK, "environment"))
_ADVICE = ("pool", "workers", "setting", "predicted", "sure", "tied")
_YES_NO = build.words({"true": ("yes", "text"), "false": ("no", "text")})
_KNOWN = '"precision", "", "precision", "unknown"'
_point = gauges(POINT, _OF_POINT)


def _lines(where: str, mean: Metric, *bounds: Metric, beside: str = "end") -> str:
    """With the name of its line in a label; of several shapes with as many workers the largest figure."""
    ends = zip(bounds, ("lower", "upper"), strict=True) if bounds else ()
    bound = (f'label_replace({end.name}{{{where}}}, "end", "{name} {BOUND}", "", "")' for end, name in ends)
    once = (
        f"max by ({labels('workers', '$scaling', *_LINE, beside)}) ({' or '.join((f'{mean.name}{{{where}}}', *bound))})"
    )
    batch = f'label_replace(label_replace({once}, {_KNOWN}), "batch", "batch $1", "$scaling", "(.+)")'
    parts = ", ".join(f'"{label}"' for label in (*_LINE[:3], "batch", *_LINE[3:], beside))
    return f'label_join(label_replace({batch}, "data", "", "data", "Synthetic"), "line", " ", {parts})'


_ONE_BENCHMARK = build.dashboard(
    "gpubench-study",
    "gpubench / One benchmark",
    "Throughput and efficiency with their bounds, cost, frontier, attempts, and what the answer is based on.",
    variables=(
        build.variable(CLUSTER, "Cluster", metrics.TRIALS, multiple=False),
        _NAMESPACE,
        _BENCHMARK,
        build.variable("workload", "Workload", metrics.POINT_WORKERS, where=_OF_BENCHMARK, multiple=False),
        build.variable("currency", "Currency", metrics.COST, where=_OF_WORKLOAD, multiple=False),
        *(
            build.variable(label, label.replace("_", " ").capitalize(), metrics.POINT_WORKERS, where=_OF_WORKLOAD)
            for label in _SPLITTING
        ),
        CustomVariable("scaling")
        .label("Scaling")
        .values("weak : batch_per_worker, strong : global_batch")
        .current(models.VariableOption(selected=True, text="weak", value="batch_per_worker")),
    ),
    annotations=_ATTEMPTS,
    time_from="now-24h",
    panels=(
        figures("Done", "How far is it?", {"of the trials": f"max ({_FINISHED_RATIO})"}).span(4),
        figures(
            "Since",
            "How long has it run, or did it run?",
            {
                "duration": f"({_of_benchmark(metrics.FINISHED)} or ({_of_benchmark(metrics.STARTED)} * 0 + time())) "
                f"- {_of_benchmark(metrics.STARTED)} > 0"
            },
            Unit.SECONDS,
        ).span(4),
        figures(
            "Spent",
            "What has it cost so far, and what may it cost?",
            {
                "{{currency}} spent": _of_benchmark(metrics.SPENT, "currency"),
                "{{currency}} budget": _of_benchmark(metrics.BUDGET, "currency"),
                "of the budget": f"max ({_SPENT_RATIO})",
            },
            special={"of the budget": _OF_BUDGET},
        ).span(8),
        figures(
            "Attempts",
            "How many attempts did the figures take?",
            {"{{outcome}}": _of_benchmark(metrics.ATTEMPTS, "outcome")},
            special={"failed": _ANY_IS_BAD, "preempted": _ANY_IS_WEAK, "stopped": _ANY_IS_WEAK},
        ).span(8),
        over_number(
            "Throughput over workers",
            "How much faster is it with more workers, and between which bounds (95 %) does that lie?",
            "workers",
            {"samples/s": _lines(_OF_POINT, metrics.THROUGHPUT, metrics.THROUGHPUT_LOW, metrics.THROUGHPUT_HIGH)},
        ),
        over_number(
            "Scaling efficiency over workers",
            "What of each further worker arrives, between which bounds (95 %)?",
            "workers",
            {"efficiency": _lines(_ON_LINE, metrics.EFFICIENCY, metrics.EFFICIENCY_LOW, metrics.EFFICIENCY_HIGH)},
        ),
        bars(
            "Cost of a million samples, $currency",
            "Where is training cheapest? Marginal cost: rate over throughput, no billing rule.",
            {
                f"{_SHORT_NAME} {{{{basis}}}} batch {{{{batch_per_worker}}}}": "sort(label_replace("
                f"{_point(metrics.COST, 'basis', currency='$currency')}, {_KNOWN}))"
            },
        ),
        over_number(
            "Frontier: hours and $currency to the goal",
            "What does it cost to be done sooner? A point that lies above and right of another is no choice.",
            "hours",
            {
                "hours": f"{_lines(_OF_POINT, metrics.GOAL, beside='goal')} / 3600",
                "cost": _lines(f'{_OF_POINT}, currency="$currency"', metrics.GOAL_COST, beside="goal"),
            },
        ),
        rows(
            "What the answer is based on",
            "Which point reaches the goal how soon, for how much, and how fast is it?",
            {
                "samples/s": _point(metrics.THROUGHPUT),
                "efficiency": gauge(metrics.EFFICIENCY, *POINT, where=_ON_LINE),
                "per million": _point(metrics.COST, "currency"),
                "goal": _point(metrics.GOAL),
                "goal costs": _point(metrics.GOAL_COST, "currency"),
                "of baseline": _point(metrics.RELATIVE_THROUGHPUT),
            },
            columns=("pool", "accelerator", "capacity_type", *_SHOWN[1:], "currency"),
            special={"efficiency": above({0: BAD, 0.7: WEAK, 0.9: GOOD})},
        ).height(9),
        rows(
            "Advice",
            "What does the benchmark advise for its objective, and how sure is it?",
            {"": _of_benchmark(metrics.BEST, *_ADVICE)},
            columns=_ADVICE,
            special={"predicted": _YES_NO, "sure": _YES_NO},
        ).span(12),
        figures(
            "Beside the baseline",
            "Do the points keep up with those of spec.compareTo?",
            {"{{verdict}}": _of_benchmark(metrics.COMPARISON, "verdict")},
            special={"Fail": _ANY_IS_BAD, "CannotTell": _ANY_IS_WEAK},
        ).height(5),
        bars(
            "Bill",
            "What was paid for: measured work, start-up, waiting, lost attempts, rounding, fees?",
            {"{{part}} {{currency}}": f"sum by (part, currency) ({_point(metrics.BILLED, 'part', 'currency')})"},
            special=_LOST,
        )
        .span(24)
        .height(6),
        rows(
            "Environment",
            "In which environments was it measured?",
            {"": _of_benchmark(metrics.ENVIRONMENT, *_FACTS)},
            columns=_FACTS,
        ),
    ),
    gpus=(
        rows(
            "GPUs while they were measured",
            "Were the GPUs busy, at which power, and did they throttle?",
            {
                "utilisation": _point(metrics.GPU_UTILIZATION),
                "memory peak": _point(metrics.GPU_MEMORY),
                "power": _point(metrics.GPU_POWER),
                "throttled": _point(metrics.GPU_THROTTLED),
                "energy/1M": _point(metrics.ENERGY),
                "metered/1M": _point(metrics.METERED),
                "CO2e/1M": _point(metrics.EMISSIONS),
                "metered/run": _point(metrics.METERED_RUN),
                "CO2e/run": _point(metrics.EMISSIONS_RUN),
            },
            columns=_SHOWN,
            special={"throttled": above({0.1: WEAK, 0.5: BAD})},
        ).height(8),
    ),
)

_OF_TRIAL = f'{_OF_BENCHMARK}, trial=~"$trial"'
_TRAINED = ("workload", "workers", "batch_per_worker", "precision", "variant")
_PLANNED = (*BENCHMARK, "pool", *_TRAINED)
_RANK_NAME = f"rank {{{{rank}}}} {_POINT_NAME}"
_STEP = metrics.WORKER_STEP.name
_IN_GANG = (CLUSTER, "benchmark_namespace", "trial", "attempt")
_GPU = labels(*POOL, "node", "UUID")
_INFO = f"{metrics.WORKER_INFO.name}{{{_OF_TRIAL}}}"


def _rate(series: str, *by: str, where: str = _OF_TRIAL) -> str:
    return f"sum by ({labels(*by)}) (rate({series}{{{where}}}[$__rate_interval]))"


def _of_plan(series: str, *rank: str) -> str:
    """By what is trained instead of by the trial, so that its repeats are one line after another."""
    on, trained = labels(*_IN_GANG, *rank), labels(*_TRAINED)
    info = f"max by ({on}, {trained}) ({_INFO})"
    return f"max by ({labels(*_PLANNED, *rank)}) (({series}) * on ({on}) group_left ({trained}) {info})"


def _by_rank(title: str, question: str, metric: Metric) -> timeseries.Panel:
    panel = over_time(
        title,
        question,
        {_RANK_NAME: _of_plan(gauge(metric, *RANK, where=_OF_TRIAL), "rank")},
        metric.unit,
        from_zero=metric not in (metrics.WORKER_LOSS, metrics.WORKER_TEMPERATURE),
    )
    return panel.max(1.0) if metric.unit is Unit.FRACTION else panel


def _of_gpu(metric: Metric) -> str:
    """The largest figure of the ranks that have trained on it."""
    on = labels(*_IN_GANG, "rank")
    info = f"max by ({on}, UUID) ({_INFO})"
    return f"max by ({_GPU}) ({metric.name}{{{_OF_TRIAL}}} * on ({on}) group_left (UUID) {info})"


def _by_dcgm(metric: str) -> str:
    """Of DCGM exporter, of the GPUs that ranks have trained on."""
    return f"max by ({_GPU}) ({_INFO}) * on (UUID) group_left () max by (UUID) ({metric}{{{_IN_CLUSTER}}})"


_LIVE = build.dashboard(
    "gpubench-live",
    "gpubench / Live run",
    "Ranks while they train; their series go with their pods, and the figures that count are in the benchmark.",
    variables=(
        _CLUSTERS,
        _NAMESPACE,
        _BENCHMARK,
        build.variable("trial", "Trial", metrics.WORKER_SAMPLES, where=_OF_BENCHMARK),
    ),
    annotations=_ATTEMPTS,
    time_from="now-1h",
    refresh="10s",
    panels=(
        over_time(
            "Throughput of the gang",
            "How fast does it train now?",
            {_POINT_NAME: _of_plan(_rate(metrics.WORKER_SAMPLES.name, *GANG))},
            Unit.SAMPLES_PER_SECOND,
        ).span(24),
        over_time(
            "Step time by rank",
            "How long does a step take? All ranks wait for the slowest: who that is, the next panels tell.",
            {_RANK_NAME: _of_plan(f"{_rate(_STEP + '_sum', *RANK)} / {_rate(_STEP + '_count', *RANK)}", "rank")},
            Unit.SECONDS,
        ),
        over_time(
            "Step time by window, median and slowest",
            "Are the steps of some windows much longer than those of others?",
            {
                f"{name} {_POINT_NAME}": _of_plan(
                    f"histogram_quantile({share}, {_rate(_STEP + '_bucket', *GANG, 'le')})"
                )
                for name, share in (("median", 0.5), ("p99", 0.99))
            },
            Unit.SECONDS,
        ),
        _by_rank(
            "Own computing by rank",
            "How long does each rank compute by itself, without the others?",
            metrics.WORKER_COMPUTE,
        ),
        over_time(
            "Stragglers",
            "Which rank holds the others up, and by how much?",
            {_RANK_NAME: _of_plan(f"rank:gpubench_worker_compute:behind_ratio{{{_OF_TRIAL}}}", "rank")},
            from_zero=False,  # who is ahead is below it
        ),
        over_time(
            "Share of the all-reduce",
            "What of a step is not the rank's own computing: all-reduce, waiting, the update?",
            {_RANK_NAME: _of_plan(f"rank:gpubench_worker_allreduce:step_ratio{{{_OF_TRIAL}}}", "rank")},
        ).max(1.0),
        _by_rank("Loss", "Does it learn, and does it stay finite?", metrics.WORKER_LOSS),
        _by_rank("Processors", "Do the ranks' processors limit them?", metrics.WORKER_PROCESSORS),
        _by_rank("Memory", "Does a rank come near its limit?", metrics.WORKER_MEMORY),
    ),
    gpus=(
        rows(
            "GPUs, each by itself",
            "Which GPU is idle, hot, slow or broken? Clock and XID errors are of DCGM exporter.",
            {
                "utilisation": _of_gpu(metrics.WORKER_GPU),
                "power": _of_gpu(metrics.WORKER_POWER),
                "memory": _of_gpu(metrics.WORKER_GPU_MEMORY),
                "temperature": _of_gpu(metrics.WORKER_TEMPERATURE),
                "clock in MHz": _by_dcgm("DCGM_FI_DEV_SM_CLOCK"),
                "XID error": _by_dcgm("DCGM_FI_DEV_XID_ERRORS"),
            },
            columns=("pool", "node", "UUID"),
            special={
                "UUID": [models.DynamicConfigValue("custom.width", 350)],
                "utilisation": above({0: BAD, 0.5: WEAK, 0.8: GOOD}),
                "temperature": above({80: WEAK, 88: BAD}),
                "XID error": _ANY_IS_BAD,
            },
        ).height(8),
        _by_rank("GPU utilisation", "Do the GPUs wait?", metrics.WORKER_GPU),
        _by_rank("GPU power", "What do the GPUs draw, and is one held back?", metrics.WORKER_POWER),
        _by_rank("GPU memory", "How full are the GPUs?", metrics.WORKER_GPU_MEMORY),
        _by_rank("GPU temperature", "Does one get too hot?", metrics.WORKER_TEMPERATURE),
    ),
)

_OF_POOL = f'{_IN_CLUSTER}, pool=~"$pool"'
_POOL_NAME = "{{pool}} ({{capacity_type}})"
_BENCHMARK_ON_POOL_NAME = "{{benchmark}} on {{pool}} ({{capacity_type}})"
_pool = gauges(POOL, _OF_POOL)
_benchmark_on_pool = gauges((*BENCHMARK, "pool", "capacity_type"), f'{_OF_BENCHMARK}, pool=~"$pool"')

_POOLS = build.dashboard(
    "gpubench-pools",
    "gpubench / Pools and spot",
    "Capacity, interruptions, lost work, and what an hour of measured work costs.",
    variables=(
        _CLUSTERS,
        build.variable("pool", "Pool", metrics.POOL_INFO, where=_IN_CLUSTER),
        build.variable("currency", "Currency", metrics.POOL_PRICE, where=_OF_POOL, multiple=False),
        _NAMESPACE,
        _BENCHMARKS,
    ),
    annotations=_ATTEMPTS,
    time_from="now-24h",
    panels=(
        rows(
            "Pools",
            "Which pools are there, what have they, and what does a node cost?",
            {
                "nodes": _pool(metrics.POOL_NODES),
                "ready": _pool(metrics.POOL_READY_NODES),
                "slots": _pool(metrics.POOL_SLOTS),
                "held": _pool(metrics.POOL_HELD_SLOTS),
                "node-hour": _pool(metrics.POOL_PRICE, "currency"),
                "price read": f"1000 * {_pool(metrics.POOL_PRICE_READ)}",
                "price is": _pool(metrics.POOL_CONDITION, condition="PriceStale"),
                "by OpenCost": f"avg by ({CLUSTER}, pool) (max by ({CLUSTER}, pool, node) "  # of nodes where ranks ran
                f'({metrics.WORKER_INFO.name}{{{_OF_BENCHMARK}, pool=~"$pool"}}) * on ({CLUSTER}, node) '
                f"group_left () max by ({CLUSTER}, node) (node_total_hourly_cost{{{_IN_CLUSTER}}}))",
            },
            columns=("pool", CLUSTER, "currency"),
            special={"price is": build.words({"0": ("current", "text"), "1": ("old", WEAK)})},
        ),
        over_time(
            "Capacity",
            "How many slots are ready, and how many of them do gangs hold?",
            {"{{pool}} ready": _pool(metrics.POOL_SLOTS), "{{pool}} held": _pool(metrics.POOL_HELD_SLOTS)},
        ),
        over_time(
            "GPUs requested",
            "How many GPUs do the pods of each benchmark request? By kube-state-metrics.",
            {
                "{{namespace}}/{{label_gpubench_dev_benchmark}}": "sum by (namespace, label_gpubench_dev_benchmark) "
                f'(kube_pod_container_resource_requests{{{_IN_CLUSTER}, namespace=~"$benchmark_namespace", '
                f'resource="nvidia_com_gpu"}} * on ({CLUSTER}, namespace, pod) group_left '
                f"(label_gpubench_dev_benchmark) kube_pod_labels{{{_IN_CLUSTER}, "
                f'label_gpubench_dev_benchmark=~"$benchmark"}})'
            },
            Unit.NUMBER,
        ),
        over_time(
            "Waiting benchmarks",
            "How many benchmarks wait for capacity, and where?",
            {"{{pool}}": _pool(metrics.POOL_WAITING)},
        ),
        over_time(
            "Interruptions within an hour",
            "Are nodes being taken away just now?",
            {_POOL_NAME: f"pool:gpubench_interruptions:added1h{{{_OF_POOL}}}"},
        ),
        rows(
            "Rate of interruptions",
            "How often is a node taken in an hour that it is held, and between which bounds (95 %)?",
            {
                "per node-hour": _benchmark_on_pool(metrics.INTERRUPTION_RATE),
                "lower bound": _benchmark_on_pool(metrics.INTERRUPTION_RATE_LOW),
                "upper bound": _benchmark_on_pool(metrics.INTERRUPTION_RATE_HIGH),
            },
            columns=("benchmark_namespace", "benchmark", CLUSTER, "pool", "capacity_type"),
        ),
        bars(
            "Interruptions by kind",
            "Who takes them: the provider, the cluster, or did they vanish?",
            {"{{kind}}": f"sum by (kind) ({_benchmark_on_pool(metrics.INTERRUPTIONS, 'kind')})"},
        ),
        bars(
            "Where node time went",
            "How much of what was held was measured work?",
            {"{{pool}} {{use}}": f"sum by (pool, use) ({_benchmark_on_pool(metrics.NODE_SECONDS, 'use')})"},
            special=_LOST,
        ),
        over_time(
            "Lost work",
            "What share of the node time came to nothing?",
            {_POOL_NAME: f"pool:gpubench_node_seconds:wasted_ratio{{{_OF_POOL}}}"},
        ).max(1.0),
        over_time(
            "Goodput",
            "What share of the node time held was measured work with a result?",
            {_BENCHMARK_ON_POOL_NAME: _benchmark_on_pool(metrics.GOODPUT)},
        ).max(1.0),
        over_time(
            "Effective price, $currency",
            "What does an hour of measured work on a node cost, beside the price of the node?",
            {
                _BENCHMARK_ON_POOL_NAME: _benchmark_on_pool(metrics.EFFECTIVE_PRICE, currency="$currency"),
                "price of {{pool}}": _pool(metrics.POOL_PRICE, currency="$currency"),
            },
        ),
        over_time(
            "Recovery",
            "How long does it take from an interruption to the next step?",
            {_BENCHMARK_ON_POOL_NAME: _benchmark_on_pool(metrics.RECOVERY)},
        ),
    ),
)

_RECONCILE_RATE = _rate(f"{metrics.RECONCILE_SECONDS.name}_bucket", "le", where=_IN_CLUSTER)

_OPERATOR = build.dashboard(
    "gpubench-operator",
    "gpubench / Operator",
    "Whether the operator leads, keeps up, and gets answers.",
    variables=(_CLUSTERS,),
    panels=(
        figures(
            "Leaders",
            "Does exactly one replica lead?",
            {"leading": f"sum({metrics.LEADER.name}{{{_IN_CLUSTER}}})"},
            special={"leading": above({0: BAD, 1: GOOD})},
        ).span(8),
        figures(
            "Version",
            "What runs?",
            {"{{version}}, Python {{python}}": gauge(metrics.OPERATOR, "version", "python", where=_IN_CLUSTER)},
        )
        .text_mode(BigValueTextMode.NAME)
        .span(8),
        figures(
            "Failed reconciles in the last hour",
            "Is something wrong that it tries again and again?",
            {"failed": f'round(sum(increase({metrics.RECONCILES.name}{{{_IN_CLUSTER}, outcome="failed"}}[1h])))'},
            special={"failed": _ANY_IS_BAD},
        ).span(8),
        over_time(
            "Reconciles by outcome",
            "How much does it work, and how much of it goes wrong?",
            {"{{outcome}}": _rate(metrics.RECONCILES.name, "outcome", where=_IN_CLUSTER)},
            special={"failed": fixed(BAD), "retried": fixed(WEAK), "done": fixed(GOOD)},
        ),
        over_time(
            "Duration of a reconcile",
            "How long does a reconcile take?",
            {
                "median": f"histogram_quantile(0.5, {_RECONCILE_RATE})",
                "p95": f"histogram_quantile(0.95, {_RECONCILE_RATE})",
            },
            Unit.SECONDS,
        ),
        over_time("Queue", "Does it keep up?", {"keys": f"max({metrics.QUEUE_DEPTH.name}{{{_IN_CLUSTER}}})"}).span(8),
        over_time(
            "Calls to the API server",
            "What does it ask of the API server?",
            {"{{verb}} {{resource}}": _rate(metrics.API_REQUESTS.name, "verb", "resource", where=_IN_CLUSTER)},
            stacked=True,
        ).span(8),
        over_time(
            "Responses of the API server",
            "Is it refused or throttled (4xx), or is the API server unwell (5xx, error)?",
            {"{{code}}": _rate(metrics.API_REQUESTS.name, "code", where=_IN_CLUSTER)},
            stacked=True,
        ).span(8),
    ),
)

DASHBOARDS: tuple[models.Dashboard, ...] = (_ALL_BENCHMARKS, _ONE_BENCHMARK, _LIVE, _POOLS, _OPERATOR)
