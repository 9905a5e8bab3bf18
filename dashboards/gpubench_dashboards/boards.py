# SPDX-License-Identifier: Apache-2.0
"""The five dashboards, in the order in which a question leads from one to the next."""

from grafana_foundation_sdk.builders import timeseries
from grafana_foundation_sdk.models import dashboard as models

from gpubench import metrics
from gpubench.metrics import Metric, Unit
from gpubench_dashboards import build
from gpubench_dashboards.build import bars, figures, over_number, over_time, rows
from gpubench_dashboards.rules import BENCHMARK, GANG, KEY, POINT, POOL, RANK, SCHEDULE, Gauges, gauge, labels

_NAMESPACE = build.variable("benchmark_namespace", "Namespace", metrics.TRIALS)
_BENCHMARKS = build.variable(
    "benchmark", "Benchmark", metrics.TRIALS, where='benchmark_namespace=~"$benchmark_namespace"'
)
_BENCHMARK = build.variable(
    "benchmark", "Benchmark", metrics.TRIALS, where='benchmark_namespace=~"$benchmark_namespace"', multiple=False
)
_OF_BENCHMARK = 'benchmark_namespace=~"$benchmark_namespace", benchmark=~"$benchmark"'


def _added(metric: Metric, values: str) -> str:
    label = metric.labels[-1]
    series = f'{metric.name}{{{_OF_BENCHMARK}, {label}=~"{values}"}}'
    added = f"{series} - min_over_time({series}[1m])"
    return f"max by ({labels(*BENCHMARK, label)}) ({added}) > 0"


#: Attempts on the time axes: marked when they have ended. That one runs is in the panels.
_MARKS = {
    "Preempted": ("orange", metrics.ATTEMPTS, "preempted|drilled", "an attempt lost its nodes ({{outcome}})"),
    "Failed": ("red", metrics.ATTEMPTS, "failed|stopped", "an attempt ended without a result ({{outcome}})"),
    "Measured": ("green", metrics.ATTEMPTS, "succeeded", "an attempt has its result"),
    "Started": ("blue", metrics.TRIALS, "running", "an attempt has begun"),
}
_ATTEMPTS = [
    build.annotation(name, colour, _added(metric, values)) for name, (colour, metric, values, _) in _MARKS.items()
]
ANNOTATION_TEXTS = {name: f"{{{{benchmark}}}}: {said}" for name, (*_, said) in _MARKS.items()}

_of_benchmark = Gauges(BENCHMARK, _OF_BENCHMARK)
_BENCHMARK_LINK = (
    "/d/gpubench-study?var-benchmark_namespace=${__data.fields.benchmark_namespace}&var-benchmark=${__data.fields.benchmark}"
    "&${__url_time_range}"
)
#: What a legend calls a point by; the rest is in the table beside it.
_SHOWN = ("workload", "pool", "workers", "batch_per_worker", "precision", "variant")
_SHOWN_NAME = "{{workload}} {{pool}} x{{workers}} {{precision}} {{variant}}"
_FINISHED_RATIO = f"study:gpubench_trials:finished_ratio{{{_OF_BENCHMARK}}}"
_CHEAPEST = f"min by ({labels(*_SHOWN, 'currency', 'basis')}) ({metrics.COST.name}{{{_OF_BENCHMARK}}})"
_FASTEST = f"max by ({labels(*_SHOWN)}) ({metrics.THROUGHPUT.name}{{{_OF_BENCHMARK}}})"
_WARNINGS = f"sum by (reason) ({gauge(metrics.WARNINGS, *POINT, 'reason', where=_OF_BENCHMARK)})"

_LEVEL = ("point", "series")
_schedule = Gauges(SCHEDULE, 'benchmark_namespace=~"$benchmark_namespace"')

_ALL_BENCHMARKS = build.dashboard(
    "gpubench-studies",
    "gpubench / Benchmarks",
    "All benchmarks at a glance: how far they are, what they cost, what they found; and schedules.",
    variables=(_NAMESPACE, _BENCHMARKS),
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
                "done": _FINISHED_RATIO,
                "running": _of_benchmark(metrics.TRIALS, state="running"),
                "points measured": _of_benchmark(metrics.POINTS, state="Measured"),
                "points failed": _of_benchmark(metrics.POINTS, state="Failed"),
                "attempts failed": _of_benchmark(metrics.ATTEMPTS, outcome="failed"),
                "preempted": _of_benchmark(metrics.ATTEMPTS, outcome="preempted"),
                "spent": _of_benchmark(metrics.SPENT, "currency"),
                "budget": _of_benchmark(metrics.BUDGET, "currency"),
                "started": f"1000 * {_of_benchmark(metrics.STARTED)}",
            },
            columns=("currency", "benchmark_namespace", "benchmark"),
            link=_BENCHMARK_LINK,
        ).height(10),
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
        ),
        over_time(
            "Spent",
            "What does each benchmark cost so far, failed and preempted attempts included?",
            {"{{benchmark_namespace}}/{{benchmark}} {{currency}}": _of_benchmark(metrics.SPENT, "currency")},
        ),
        bars(
            "Cheapest points",
            "Where do a million samples cost least? Compare within one workload.",
            {f"{_SHOWN_NAME} {{{{basis}}}} {{{{currency}}}}": f"bottomk(15, {_CHEAPEST})"},
        ),
        bars(
            "Fastest points",
            "Which pool and gang trains fastest? Compare within one workload.",
            {_SHOWN_NAME: f"topk(15, {_FASTEST})"},
        ),
        bars(
            "Warnings",
            "What must a reader of the figures know: weak nodes, stragglers, drift?",
            {"{{reason}}": f'{_WARNINGS} or label_replace(vector(0), "reason", "none", "", "")'},
        ),
        rows(
            "Schedules",
            "Which schedules are there, when is the next run, is one slower now, and what does a month cost?",
            {
                "runs under way": _schedule(metrics.SCHEDULE_ACTIVE),
                "newest run": f"1000 * {_schedule(metrics.SCHEDULE_LAST)}",
                "next run": f"1000 * {_schedule(metrics.SCHEDULE_NEXT)}",
                "regressed": _schedule(metrics.SCHEDULE_CONDITION, condition="Regressed"),
                "slower points": _schedule(metrics.SCHEDULE_SLOWER_POINTS),
                "slow nodes": _schedule(metrics.SCHEDULE_SLOW_NODES),
                "a month": _schedule(metrics.SCHEDULE_MONTHLY, "currency"),
            },
            columns=("currency", "benchmark_namespace", "schedule"),
        ).height(6),
        over_time(
            "Slower points of schedules",
            "Since when is something slower than it was?",
            {"{{benchmark_namespace}}/{{schedule}}": _schedule(metrics.SCHEDULE_SLOWER_POINTS)},
        ).span(24),
        over_time(
            "Points of schedules, against their level",
            "How fast is each point in each environment, and since when is it below what it was?",
            {
                "{{schedule}}: {{point}} {{series}}": f"{_schedule(metrics.SCHEDULE_SPEED, *_LEVEL)}\n/ "
                f"{_schedule(metrics.SCHEDULE_USUAL, *_LEVEL)}"
            },
        ).span(24),
    ),
)

_OF_POINT = f'{_OF_BENCHMARK}, workload=~"$workload", pool=~"$pool", batch_per_worker=~"$batch_per_worker"'
_ON_WEAK_LINE = f'{_OF_POINT}, scaling="weak"'  # a point may lie on a strong one, too
_POINT_NAME = "{{workload}} {{pool}} x{{workers}} batch {{batch_per_worker}} {{precision}} {{variant}}"
_ENVIRONMENT = tuple(name for name in metrics.ENVIRONMENT.labels if name not in BENCHMARK)
_ADVICE = ("pool", "workers", "setting", "predicted", "sure", "tied")

_point = Gauges(POINT, _OF_POINT)
_weak = Gauges(POINT, _ON_WEAK_LINE)


def _workers_of_points_with(metric: Metric) -> str:
    """A row without that figure would be a gap in the line."""
    return f"{_point(metrics.POINT_WORKERS)} and on ({labels(*POINT)}) {_point(metric)}"


_ONE_BENCHMARK = build.dashboard(
    "gpubench-study",
    "gpubench / One benchmark",
    "Throughput and efficiency with their bounds, cost, frontier, attempts, and what the answer is based on.",
    variables=(
        _NAMESPACE,
        _BENCHMARK,
        build.variable("workload", "Workload", metrics.POINT_WORKERS, where=_OF_BENCHMARK),
        build.variable("pool", "Pool", metrics.POINT_WORKERS, where=_OF_BENCHMARK),
        build.variable("batch_per_worker", "Batch per worker", metrics.POINT_WORKERS, where=_OF_BENCHMARK),
    ),
    annotations=_ATTEMPTS,
    time_from="now-24h",
    panels=(
        figures("Done", "How far is it?", {"of the trials": _FINISHED_RATIO}).span(4),
        figures(
            "Since",
            "How long has it run, or did it run?",
            {
                "duration": f"({_of_benchmark(metrics.FINISHED)} or ({_of_benchmark(metrics.STARTED)} * 0 + time())) "
                f"- {_of_benchmark(metrics.STARTED)}"
            },
            Unit.SECONDS,
        ).span(4),
        figures(
            "Spent",
            "What has it cost so far, and what may it cost?",
            {
                "{{currency}} spent": _of_benchmark(metrics.SPENT, "currency"),
                "{{currency}} budget": _of_benchmark(metrics.BUDGET, "currency"),
            },
        ).span(8),
        figures(
            "Attempts",
            "How many attempts did the figures take?",
            {"{{outcome}}": _of_benchmark(metrics.ATTEMPTS, "outcome")},
        ).span(8),
        over_number(
            "Throughput over workers",
            "How much faster is it with more workers, and between which bounds (95 %) does that lie? "
            "Choose one workload, pool and batch.",
            {
                "workers": _workers_of_points_with(metrics.THROUGHPUT),
                "samples/s": _point(metrics.THROUGHPUT),
                "lower bound": _point(metrics.THROUGHPUT_LOW),
                "upper bound": _point(metrics.THROUGHPUT_HIGH),
            },
        ),
        over_number(
            "Scaling efficiency over workers",
            "What of each further worker arrives (weak scaling), between which bounds (95 %)? The last line is "
            "derived from throughputs in Prometheus and must lie on the first.",
            {
                "workers": _workers_of_points_with(metrics.EFFICIENCY),
                "efficiency": _weak(metrics.EFFICIENCY),
                "lower bound": _weak(metrics.EFFICIENCY_LOW),
                "upper bound": _weak(metrics.EFFICIENCY_HIGH),
                "derived": f"{_weak(metrics.EFFICIENCY)} * 0 + on ({labels(*KEY)}) group_left () max by "
                f"({labels(*KEY)}) (point:gpubench_scaling_efficiency_ratio:derived"
                f'{{{_OF_BENCHMARK}, scaling="weak"}})',
            },
        ),
        bars(
            "Cost of a million samples",
            "Where is training cheapest? Marginal cost: rate over throughput, no billing rule.",
            {f"{_POINT_NAME} {{{{basis}}}} {{{{currency}}}}": _point(metrics.COST, "basis", "currency")},
        ),
        over_number(
            "Frontier: time and cost of the goal",
            "What does it cost to be done sooner? A point that lies above and right of another is no choice.",
            {
                "time": _point(metrics.GOAL, "goal"),
                "cost": _point(metrics.GOAL_COST, "goal", "currency"),
                "lower bound": _point(metrics.GOAL_COST_LOW, "goal", "currency"),
            },
        ),
        rows(
            "What the answer is based on",
            "Which point reaches the goal how soon, for how much, and how fast is it?",
            {
                "samples/s": _point(metrics.THROUGHPUT),
                "efficiency": _weak(metrics.EFFICIENCY),
                "cost of a million": _point(metrics.COST),
                "goal": _point(metrics.GOAL),
                "cost of the goal": _point(metrics.GOAL_COST),
                "of the baseline": _point(metrics.RELATIVE_THROUGHPUT),
            },
            columns=("workload", "pool", "accelerator", "capacity_type", *_SHOWN[2:]),
        ).height(9),
        rows(
            "Advice",
            "What does the benchmark advise for its objective, and how sure is it?",
            {"advised": _of_benchmark(metrics.BEST, *_ADVICE)},
            columns=_ADVICE,
        )
        .span(12)
        .height(6),
        figures(
            "Beside the baseline",
            "Do the points keep up with those of spec.compareTo?",
            {"{{verdict}}": _of_benchmark(metrics.COMPARISON, "verdict")},
        ).height(6),
        bars(
            "Bill",
            "What was paid for: measured work, start-up, waiting, lost attempts, rounding, fees?",
            {"{{part}} {{currency}}": f"sum by (part, currency) ({_point(metrics.BILLED, 'part', 'currency')})"},
        ).span(24),
        rows(
            "Environment",
            "In which environments was it measured?",
            {"seen": _of_benchmark(metrics.ENVIRONMENT, *_ENVIRONMENT)},
            columns=_ENVIRONMENT,
        ).height(6),
        rows(
            "GPUs while they were measured",
            "Were the GPUs busy, at which power, and did they throttle?",
            {
                "utilisation": _point(metrics.GPU_UTILIZATION),
                "memory peak": _point(metrics.GPU_MEMORY),
                "power": _point(metrics.GPU_POWER),
                "throttled": _point(metrics.GPU_THROTTLED),
                "energy of a million samples": _point(metrics.ENERGY),
                "at the meter": _point(metrics.METERED),
                "CO2 equivalent": _point(metrics.EMISSIONS),
                "of a run at the meter": _point(metrics.METERED_RUN),
                "CO2 equivalent of a run": _point(metrics.EMISSIONS_RUN),
            },
            columns=("workload", "pool", "accelerator", *_SHOWN[2:]),
        ),
    ),
)

_OF_TRIAL = f'{_OF_BENCHMARK}, trial=~"$trial"'
_RANK_NAME = "{{trial}}.{{attempt}} rank {{rank}}"
_STEP = metrics.WORKER_STEP.name

_rank = Gauges(RANK, _OF_TRIAL)


def _rate(series: str, *by: str, where: str = "") -> str:
    return f"sum by ({labels(*by)}) (rate({series}{where}[$__rate_interval]))"


def _trial_rate(series: str, *by: str) -> str:
    return _rate(series, *by, where=f"{{{_OF_TRIAL}}}")


def _by_rank(title: str, question: str, metric: Metric) -> timeseries.Panel:
    panel = over_time(title, question, {_RANK_NAME: _rank(metric)}).span(8)
    return panel.max(1.0) if metric.unit is Unit.FRACTION else panel


_LIVE = build.dashboard(
    "gpubench-live",
    "gpubench / Live run",
    "Ranks while they train; their series go with their pods, and the figures that count are in the benchmark.",
    variables=(
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
            {"{{trial}}.{{attempt}}": _trial_rate(metrics.WORKER_SAMPLES.name, *GANG)},
            Unit.SAMPLES_PER_SECOND,
        ),
        over_time(
            "Step time by rank",
            "How long does a step take? All ranks wait for the slowest: who that is, the next panels tell.",
            {_RANK_NAME: f"{_trial_rate(_STEP + '_sum', *RANK)} / {_trial_rate(_STEP + '_count', *RANK)}"},
            Unit.SECONDS,
        ),
        over_time(
            "Step time by window, median and slowest",
            "Are the steps of some windows much longer than those of others?",
            {
                f"{{{{trial}}}}.{{{{attempt}}}} {name}": f"histogram_quantile({share}, "
                f"{_trial_rate(_STEP + '_bucket', *GANG, 'le')})"
                for name, share in (("median", 0.5), ("p99", 0.99))
            },
            Unit.SECONDS,
        ),
        _by_rank(
            "Own computing by rank",
            "How long does each rank compute by itself, without the others?",
            metrics.WORKER_COMPUTE,
        ).span(12),
        over_time(
            "Stragglers",
            "Which rank holds the others up, and by how much?",
            {_RANK_NAME: f"rank:gpubench_worker_compute:behind_ratio{{{_OF_TRIAL}}}"},
            from_zero=False,  # who is ahead is below it
        ),
        over_time(
            "Share of the all-reduce",
            "What of a step is not the rank's own computing: all-reduce, waiting, the update?",
            {_RANK_NAME: f"rank:gpubench_worker_allreduce:step_ratio{{{_OF_TRIAL}}}"},
        ).max(1.0),
        _by_rank("Loss", "Does it learn, and does it stay finite?", metrics.WORKER_LOSS),
        _by_rank("Processors", "Do the ranks' processors limit them?", metrics.WORKER_PROCESSORS),
        _by_rank("Memory", "Does a rank come near its limit?", metrics.WORKER_MEMORY),
        _by_rank("GPU utilisation", "Do the GPUs wait?", metrics.WORKER_GPU),
        _by_rank("GPU power", "What do the GPUs draw, and is one held back?", metrics.WORKER_POWER),
        _by_rank("GPU memory", "How full are the GPUs?", metrics.WORKER_GPU_MEMORY),
        _by_rank("GPU temperature", "Does one get too hot?", metrics.WORKER_TEMPERATURE),
    ),
)

_OF_POOL = 'pool=~"$pool"'
_POOL_NAME = "{{pool}} ({{capacity_type}})"
_BENCHMARK_ON_POOL_NAME = "{{benchmark}} on {{pool}} ({{capacity_type}})"
_pool = Gauges(POOL, _OF_POOL)
_benchmark_on_pool = Gauges((*BENCHMARK, "pool", "capacity_type"), f"{_OF_BENCHMARK}, {_OF_POOL}")

_POOLS = build.dashboard(
    "gpubench-pools",
    "gpubench / Pools and spot",
    "Capacity, interruptions, lost work, and what an hour of measured work costs.",
    variables=(build.variable("pool", "Pool", metrics.POOL_INFO), _NAMESPACE, _BENCHMARKS),
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
                "price of a node-hour": _pool(metrics.POOL_PRICE),
                "price read": f"1000 * {_pool(metrics.POOL_PRICE_READ)}",
                "price is old": _pool(metrics.POOL_CONDITION, condition="PriceStale"),
            },
            columns=("pool",),
        ).height(7),
        over_time(
            "Capacity",
            "How many slots are ready, and how many of them do gangs hold?",
            {"{{pool}} ready": _pool(metrics.POOL_SLOTS), "{{pool}} held": _pool(metrics.POOL_HELD_SLOTS)},
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
        bars(
            "Interruptions by kind",
            "Who takes them: the provider, the cluster, or did they vanish?",
            {"{{kind}}": f"sum by (kind) ({_benchmark_on_pool(metrics.INTERRUPTIONS, 'kind')})"},
        ),
        rows(
            "Rate of interruptions",
            "How often is a node taken in an hour that it is held, and between which bounds (95 %)?",
            {
                "per node-hour": _benchmark_on_pool(metrics.INTERRUPTION_RATE),
                "lower bound": _benchmark_on_pool(metrics.INTERRUPTION_RATE_LOW),
                "upper bound": _benchmark_on_pool(metrics.INTERRUPTION_RATE_HIGH),
            },
            columns=("benchmark_namespace", "benchmark", "pool", "capacity_type"),
        ).span(12),
        bars(
            "Where node time went",
            "How much of what was held was measured work?",
            {"{{pool}} {{use}}": f"sum by (pool, use) ({_benchmark_on_pool(metrics.NODE_SECONDS, 'use')})"},
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
            "Effective price",
            "What does an hour of measured work on a node cost, beside the price of the node?",
            {
                f"{_BENCHMARK_ON_POOL_NAME} {{{{currency}}}}": _benchmark_on_pool(metrics.EFFECTIVE_PRICE, "currency"),
                "price of {{pool}} {{currency}}": _pool(metrics.POOL_PRICE, "currency"),
            },
        ),
        over_time(
            "Recovery",
            "How long does it take from an interruption to the next step?",
            {_BENCHMARK_ON_POOL_NAME: _benchmark_on_pool(metrics.RECOVERY)},
        ),
    ),
)

_RECONCILE_RATE = _rate(f"{metrics.RECONCILE_SECONDS.name}_bucket", "le")

_OPERATOR = build.dashboard(
    "gpubench-operator",
    "gpubench / Operator",
    "Whether the operator leads, keeps up, and gets answers.",
    panels=(
        figures("Leaders", "Does exactly one replica lead?", {"leading": f"sum({metrics.LEADER.name})"}).span(6),
        figures(
            "Version",
            "What runs?",
            {"{{version}}, Python {{python}}": f"count by (version, python) ({metrics.OPERATOR.name})"},
        ).span(6),
        figures(
            "Failed reconciles in the last hour",
            "Is something wrong that it tries again and again?",
            {"failed": f'sum(increase({metrics.RECONCILES.name}{{outcome="failed"}}[1h]))'},
        ).span(6),
        figures(
            "Benchmarks",
            "How much has it to look after?",
            {
                "in all": f"count({gauge(metrics.CONDITION, *BENCHMARK)})",
                "trials running": f"sum({gauge(metrics.TRIALS, *BENCHMARK, state='running')})",
            },
            of_now=True,
        ).span(6),
        over_time(
            "Reconciles by outcome",
            "How much does it work, and how much of it goes wrong?",
            {"{{outcome}}": _rate(metrics.RECONCILES.name, "outcome")},
        ),
        over_time(
            "Duration of a reconcile",
            "How long does a reconcile take?",
            {
                "median": f"histogram_quantile(0.5, {_RECONCILE_RATE})",
                "p95": "operator:gpubench_operator_reconcile_seconds:p95",
            },
            Unit.SECONDS,
        ),
        over_time("Queue", "Does it keep up?", {"keys that wait": f"max({metrics.QUEUE_DEPTH.name})"}),
        over_time(
            "Calls to the API server",
            "What does it ask of the API server?",
            {"{{verb}} {{resource}}": _rate(metrics.API_REQUESTS.name, "verb", "resource")},
            stacked=True,
        ),
        over_time(
            "Responses of the API server",
            "Is it refused or throttled (4xx), or is the API server unwell (5xx, error)?",
            {"{{code}}": _rate(metrics.API_REQUESTS.name, "code")},
            stacked=True,
        ),
    ),
)

DASHBOARDS: tuple[models.Dashboard, ...] = (_ALL_BENCHMARKS, _ONE_BENCHMARK, _LIVE, _POOLS, _OPERATOR)
