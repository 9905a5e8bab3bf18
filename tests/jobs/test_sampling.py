# SPDX-License-Identifier: Apache-2.0
"""What a rank uses while it is measured. GPUs are made-up devices here."""

import math
import os
import subprocess
import sys
import threading
import time
import types
from dataclasses import dataclass, replace
from typing import Any

import psutil
import pytest

from gangs import make_assignment
from gpubench import metrics as catalogue
from gpubench import records
from gpubench.stats import intervals
from gpubench_jobs.worker import nvidia, sampling
from gpubench_jobs.worker.sampling import Reading

SECOND = 1_000_000_000


def reading(second: float, *, processor: float = 0.0, memory: int = 1, **gpu: Any) -> Reading:
    return Reading(
        nanoseconds=round(second * SECOND),
        processor_seconds=processor,
        memory_bytes=memory,
        gpu=nvidia.GpuReading(**gpu) if gpu else None,
    )


def usage(*readings: Reading) -> records.Usage:
    return sampling.usage(readings[:-1], last=readings[-1], rank=3, period_seconds=1.0)


def test_the_first_sample_is_dropped_because_it_covers_the_time_before() -> None:
    found = usage(
        reading(
            0, memory=900, utilization=0.0, watts=50.0, celsius=90.0, memory_bytes=99, throttle_reasons=("SyncBoost",)
        ),
        reading(1, memory=100, utilization=0.9, watts=200.0, celsius=60.0, memory_bytes=10, throttle_reasons=()),
        reading(
            2, memory=200, utilization=0.7, watts=300.0, celsius=70.0, memory_bytes=20, throttle_reasons=("GpuIdle",)
        ),
        reading(2.5, memory=150, utilization=0.1, watts=10.0),
    )
    assert found.gpu == pytest.approx(0.8)
    assert (found.samples, found.watts, found.celsius_high) == (2, 250.0, 70.0)
    assert (found.memory_bytes, found.gpu_memory_bytes) == (200, 20)
    assert (found.throttled, found.throttle_reasons) == (0.0, ())  # idleness slows nobody down


def test_processors_are_counted_from_the_first_reading_to_the_last() -> None:
    found = usage(
        reading(10, processor=7.0), reading(11, processor=9.0), reading(12, processor=9.5), reading(14, processor=10.5)
    )
    assert found.processor == pytest.approx(3.5 / 4)
    assert found.processor_high == pytest.approx(0.5 + 0.95 * 1.5)  # of the two samples, 2.0 and 0.5


def test_energy_is_the_difference_of_the_counter_and_absent_without_one() -> None:
    counted = usage(reading(0, joules=5000.0), reading(1, joules=5100.0), reading(1.5, joules=5180.0))
    assert counted.joules == pytest.approx(180.0)
    assert usage(reading(0, watts=9.0), reading(1, joules=1.0), reading(2, joules=2.0)).joules is None


@pytest.mark.parametrize("has_counter", [True, False])
def test_the_joules_of_a_known_power_curve_are_right_within_a_percent_and_in_the_interval(has_counter: bool) -> None:
    """A card between 100 and 300 W, in waves of 7.3 s: by its counter, and by power sampled once a second."""

    def watts(second: float) -> float:
        return 200.0 + 100.0 * math.sin(2 * math.pi * second / 7.3)

    def joules(second: float) -> float:
        return 200.0 * second - 100.0 * 7.3 / (2 * math.pi) * (math.cos(2 * math.pi * second / 7.3) - 1)

    taken = []
    for begin in (0.0, 61.7, 130.2, 200.9):
        readings = [
            reading(at, watts=watts(at), joules=joules(at) if has_counter else None)
            for at in (begin + second for second in range(61))
        ]
        found = usage(*readings)
        seconds, truth = 60.0, joules(begin + 60.0) - joules(begin)
        energy = found.joules if found.joules is not None else (found.watts or 0.0) * seconds
        assert energy == pytest.approx(truth, rel=0.01)
        taken.append(energy)
    interval = intervals.of_mean(taken)
    assert interval.low is not None
    assert interval.high is not None
    assert interval.low <= 200.0 * 60.0 <= interval.high


def test_quantiles_and_shares_are_of_the_samples_that_tell_them() -> None:
    slow = ("SwPowerCap", "GpuIdle")
    found = usage(
        reading(0),
        *(reading(n, utilization=n / 100, watts=float(n)) for n in range(1, 101)),
        reading(101, throttle_reasons=slow),
        reading(102, throttle_reasons=("HwThermalSlowdown",)),
        reading(103, throttle_reasons=()),
        reading(104, throttle_reasons=("GpuIdle",)),
        reading(105),
    )
    assert found.samples == 104
    assert found.gpu == pytest.approx(0.505)
    assert found.gpu_low == pytest.approx(0.0595)
    assert found.watts_high == pytest.approx(95.05)
    assert found.throttled == 0.5
    assert found.throttle_reasons == ("HwThermalSlowdown", "SwPowerCap")


def test_clocks_that_were_chosen_are_named_and_throttle_nobody() -> None:
    chosen = tuple(nvidia.CHOSEN)
    found = usage(
        reading(0),
        reading(1, throttle_reasons=chosen),
        reading(2, throttle_reasons=(*chosen, "SwPowerCap")),
        reading(3),
    )
    assert found.throttled == 0.5
    assert found.throttle_reasons == ("ApplicationsClocksSetting", "DisplayClockSetting", "SwPowerCap", "SyncBoost")


def test_what_is_not_told_is_absent_and_never_0() -> None:
    found = usage(reading(0), reading(1), reading(2)).to_wire()
    assert set(found) == {
        "kind", "schemaVersion", "rank", "samples", "periodSeconds", "processor", "processorHigh", "memoryBytes",
        "throttleReasons", "computeSeconds",
    }  # fmt: skip


def test_a_run_shorter_than_a_period_has_no_samples_and_still_a_processor() -> None:
    found = usage(reading(0, processor=1.0, watts=3.0), reading(0.5, processor=1.4, memory=7, watts=4.0))
    assert found.processor == found.processor_high == pytest.approx(0.8)
    assert (found.samples, found.memory_bytes, found.watts) == (0, 7, None)


@dataclass
class MadeUpGpu(nvidia.NvmlGpu):
    """A device that no machine has: half busy, and a joule more at each look."""

    looks: int = 0

    def read(self) -> nvidia.GpuReading:
        self.looks += 1
        return nvidia.GpuReading(utilization=0.5, joules=float(self.looks))


def sampling_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "sampling"]


def busy_until(holds: Any) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        sum(range(1000))


def test_a_node_is_busy_with_all_but_idleness_and_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = dict(zip(("user", "nice", "system", "irq", "softirq"), (1.0, 2.0, 4.0, 8.0, 16.0), strict=True))
    everybody = types.SimpleNamespace(**seconds, steal=32.0, idle=64.0, iowait=128.0)
    monkeypatch.setattr(psutil, "cpu_times", lambda: everybody)
    monkeypatch.setattr(os, "times", lambda: types.SimpleNamespace(children_user=0.5, children_system=0.25))
    child: Any = types.SimpleNamespace(cpu_times=lambda: (3.0, 1.0, 100.0, 100.0))
    process: Any = types.SimpleNamespace(children=lambda recursive: [child] if recursive else [])
    assert sampling._node_seconds(process) == (31.0, 4.75, 32.0)


def test_samples_are_taken_while_the_body_runs_and_never_after() -> None:
    gpu, seen = MadeUpGpu(), list[float]()
    sampler = sampling.Sampler(2, gpu=gpu, seen=lambda _, processors: seen.append(processors), period_seconds=0.01)
    assert not sampling_threads()
    with sampler.running():
        busy_until(lambda: len(seen) >= 3)
        assert len(sampling_threads()) == 1
    looks = gpu.looks
    assert not sampling_threads()
    found = sampler.usage
    assert found is not None
    assert (found.rank, found.period_seconds, found.gpu) == (2, 0.01, 0.5)
    assert found.samples == len(seen) == looks - 2  # one where it began, one where it ended
    assert found.joules == looks - 1
    assert found.processor > 0
    assert found.memory_bytes > 2**20
    assert found.node is not None
    assert found.node.busy >= 0
    time.sleep(0.05)
    assert gpu.looks == looks


def test_the_nodes_processors_are_everybodys_but_those_of_the_ranks_children(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter((100.0, 100.5, 103.5))
    times = types.SimpleNamespace(nice=1.0, irq=0.5, softirq=0.5, idle=9e9, guest=9e9)
    monkeypatch.setattr(
        psutil, "cpu_times", lambda: types.SimpleNamespace(user=next(ticks), system=2.0, steal=7.0, **vars(times))
    )
    whole = sampling._node_seconds(psutil.Process())
    # Until it has been busy for long enough, however fast its processor is.
    busy = "import time\nwhile time.process_time() < 0.2: pass\ninput()"
    with subprocess.Popen([sys.executable, "-c", busy], stdin=subprocess.PIPE) as child:
        own = psutil.Process(child.pid)
        busy_until(lambda: sum(own.cpu_times()[:2]) >= 0.1)
        before = sum(own.cpu_times()[:2])
        with_child = sampling._node_seconds(psutil.Process())
        child.communicate(b"\n")
    after = sampling._node_seconds(psutil.Process())
    assert [whole[2], with_child[2], after[2]] == [7.0] * 3
    assert (with_child[0] - whole[0], after[0] - whole[0]) == pytest.approx((0.5, 3.5))
    assert with_child[1] - whole[1] >= before - 1e-6
    assert after[1] - whole[1] >= before - 1e-6, "a child that has ended was no other, either"


def test_what_the_node_says_is_over_the_measured_time() -> None:
    first, last = (replace(reading(at), node=node) for at, node in ((10, (50.0, 2.0, 1.0)), (14, (57.0, 3.0, 1.5))))
    node = usage(first, reading(11), last).node
    assert node is not None
    assert (node.busy, node.children, node.stolen) == pytest.approx((1.75, 0.25, 0.125))
    assert node.processors == psutil.cpu_count()
    assert usage(reading(10), reading(11), last).node is None


class Hanging(MadeUpGpu):
    """A driver that does not come back from one of its looks."""

    def __init__(self, *, look: int) -> None:
        super().__init__()
        self._look, self.released = look, threading.Event()

    def read(self) -> nvidia.GpuReading:
        if self.looks == self._look:
            self.released.wait()
        return super().read()


@pytest.mark.parametrize("look", [0, 1])
def test_a_driver_that_hangs_costs_the_usage_and_holds_nothing_back(
    look: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """In its first look, and in its last; with a period so long there is none between."""
    gpu, done = Hanging(look=look), list[str]()
    sampler = sampling.Sampler(3, gpu=gpu, period_seconds=3600, patience_seconds=0.2)

    def measure() -> None:
        with sampler.running():
            done.append("windows")
        done.append("result")

    # Where it is held back the thread is left behind, and the test fails all the same.
    rank = threading.Thread(target=measure, daemon=True)
    rank.start()
    rank.join(60)
    assert done == ["windows", "result"]
    assert "no usage of rank 3: a look at its device has not come back" in capsys.readouterr().err
    (thread,) = sampling_threads()
    gpu.released.set()
    thread.join(60)
    assert not sampling_threads()
    assert sampler.usage is None  # what comes late is of another time


@pytest.mark.parametrize("look", [0, 2])
def test_a_look_that_fails_is_told_and_leaves_no_usage_of_a_part_of_the_time(
    look: int, capsys: pytest.CaptureFixture[str]
) -> None:
    class Failing(MadeUpGpu):
        def read(self) -> nvidia.GpuReading:
            if self.looks == look:
                raise OSError("the driver was unloaded")
            return super().read()

    sampler = sampling.Sampler(3, gpu=Failing(), period_seconds=0.01)
    with sampler.running():
        busy_until(lambda: not sampling_threads())
    assert sampler.usage is None
    assert capsys.readouterr().err == "no usage of rank 3: OSError: the driver was unloaded\n"


def test_a_sampler_that_has_run_before_keeps_nothing_of_it() -> None:
    sampler = sampling.Sampler(0, period_seconds=0.01)
    with sampler.running():
        pass
    assert sampler.usage is not None
    with pytest.raises(ZeroDivisionError), sampler.running():
        1 / 0  # noqa: B018  # as below
    assert sampler.usage is None


def test_sampling_ends_with_a_body_that_fails() -> None:
    sampler = sampling.Sampler(0, period_seconds=0.01)
    with pytest.raises(ZeroDivisionError), sampler.running():
        1 / 0  # noqa: B018  # what a loss that is no number does
    assert not sampling_threads()
    assert sampler.usage is None


def test_what_a_sample_does_not_tell_has_no_live_series() -> None:
    live = sampling.LiveMetrics(make_assignment(), rank=1)

    def values() -> dict[str, float]:
        return {
            sample.name: sample.value
            for family in live.registry.collect()
            for sample in family.samples
            if sample.name in (*HOST_SERIES, *GPU_SERIES)
        }

    assert values() == {}
    live.usage(reading(0, memory=2_000_000), 0.75)
    assert values() == dict(zip(HOST_SERIES, (0.75, 2e6), strict=True))
    told = {"utilization": 0.9, "watts": 300.0, "memory_bytes": 5_000, "celsius": 61.0}
    live.usage(reading(0, memory=1_000_000, **told), 0.5)
    assert values() == {
        **dict(zip(HOST_SERIES, (0.5, 1e6), strict=True)),
        **dict(zip(GPU_SERIES, (0.9, 300.0, 5e3, 61.0), strict=True)),
    }
    live.usage(reading(0, memory=1_000_000, watts=250.0), 0.5)
    assert values()["gpubench_worker_gpu_utilization_ratio"] == 0.9  # what it was when it was last told


HOST_SERIES = ("gpubench_worker_used_processors", "gpubench_worker_memory_bytes")
GPU_SERIES = (
    "gpubench_worker_gpu_utilization_ratio",
    "gpubench_worker_gpu_power_watts",
    "gpubench_worker_gpu_memory_bytes",
    "gpubench_worker_gpu_temperature_celsius",
)


def live_values(live: sampling.LiveMetrics) -> dict[str, float]:
    return {
        sample.name: sample.value
        for family in live.registry.collect()
        for sample in family.samples
        if "le" not in sample.labels and not sample.name.endswith("_created")
    }


def test_what_a_step_takes_beyond_a_ranks_own_computing_is_told_once_it_was_looked_at() -> None:
    live = sampling.LiveMetrics(make_assignment(batch_per_worker=8), rank=0)
    live.window(steps=10, seconds=2.0, loss=0.7)
    found = live_values(live)
    assert found["gpubench_worker_loss"] == 0.7
    assert found["gpubench_worker_samples_total"] == 80
    assert (found["gpubench_worker_window_step_seconds_count"], found["gpubench_worker_window_step_seconds_sum"]) == (
        1,
        0.2,
    )
    assert not {"gpubench_worker_allreduce_seconds", "gpubench_worker_compute_seconds"} & found.keys()
    live.computed(0.15)
    live.window(steps=10, seconds=2.0, loss=0.6)
    found = live_values(live)
    assert found["gpubench_worker_compute_seconds"] == 0.15
    assert found["gpubench_worker_allreduce_seconds"] == pytest.approx(0.05)
    live.window(steps=10, seconds=1.0, loss=0.6)
    assert live_values(live)["gpubench_worker_allreduce_seconds"] == 0.0  # a lucky window: no time is negative


def test_a_step_that_is_nothing_but_the_all_reduce_is_one() -> None:
    live = sampling.LiveMetrics(make_assignment(workload="allreduce"), rank=0)
    live.window(steps=10, seconds=2.0, loss=0.0)
    assert live_values(live)["gpubench_worker_allreduce_seconds"] == 0.2


def test_a_rank_shows_what_it_trains_and_on_which_gpu() -> None:
    """By this, its series join the plan's labels, and those of DCGM exporter by `UUID`."""
    live = sampling.LiveMetrics(make_assignment(workers=4, batch_per_worker=8), rank=3)
    assert not [
        family for family in live.registry.collect() if family.samples and family.name == catalogue.WORKER_INFO.name
    ]
    live.begin("GPU-5c6a")
    (found,) = [family.samples[0] for family in live.registry.collect() if family.name == catalogue.WORKER_INFO.name]
    assert found.value == 1
    trained = {"workers": "4", "batch_per_worker": "8", "precision": "float32", "variant": "", "UUID": "GPU-5c6a"}
    assert {label: found.labels[label] for label in trained} == trained
    assert found.labels["rank"] == "3"


def test_the_live_series_are_those_of_the_catalogue() -> None:
    live = sampling.LiveMetrics(make_assignment(), rank=1)
    live.begin()
    live.computed(0.15)
    live.window(steps=10, seconds=2.0, loss=0.7)
    live.usage(reading(0, memory=1_000, utilization=0.9, watts=3.0, memory_bytes=5, celsius=6.0), 0.5)
    found = {
        sample.name: set(sample.labels) - {"le"} for family in live.registry.collect() for sample in family.samples
    }
    own = [metric for metric in catalogue.CATALOGUE if metric.exporter == "worker"]
    for metric in own:
        name = f"{metric.name}_count" if metric.kind is catalogue.Kind.HISTOGRAM else metric.name
        assert found[name] == set(metric.labels)
    of_histogram = sum("step_seconds" in sample.name for family in live.registry.collect() for sample in family.samples)
    assert of_histogram <= catalogue.WORKER_STEP.series_max + 1  # `_created`, where a process has not switched it off
