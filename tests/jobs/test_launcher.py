# SPDX-License-Identifier: Apache-2.0
"""Whole gangs with real Horovod: how they end when all goes well, and when it does not."""

import json
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import psutil
import pytest

import builders
import gpubench_jobs
from gangs import Pods, make_assignment, wait_until
from gpubench import names, records
from gpubench.analysis import audit
from gpubench.exitcodes import ExitCode
from gpubench.scheduler import capacity
from gpubench.scheduler.ledger import Outcome, Reason

pytestmark = pytest.mark.usefixtures("horovod")

#: Longer than any patience here: what ends such a run, or such a witness, is what the test does.
LONG = {"measure_seconds": 3600.0}
LINGERING = {"GPUBENCH_LIMIT_LINGER": "3600"}


def test_two_pods_of_one_rank_agree_on_one_result(pods: Pods) -> None:
    first, second = pods.gang(make_assignment(workers=2, measure_seconds=3), fresh=True)
    assert (first.wait(), second.wait()) == (0, 0), first.log[-2000:] + second.log[-2000:]
    result = first.result
    assert (result.workers, result.trial, result.attempt) == (2, "trial1", 1)
    assert result.samples == result.steps * 8 * 2
    assert not (second.folder / "termination-log").exists()  # one gang, one result
    kinds = [json.loads(line)["kind"] for line in first.lines]
    assert kinds[0] == "environment"
    assert kinds[-1] == "result"
    assert kinds[-2] == "usage"
    assert set(kinds[1:-2]) == {"window"}
    own = first.wrote.of_kind(records.Window)
    other = second.wrote.of_kind(records.Window)
    assert [window.index for window in own] == [window.index for window in other] == list(range(len(own)))
    assert result.steady_from is not None or not result.settled
    counted = [
        (a, b) for a, b in zip(own, other, strict=True) if not a.warm_up and a.index >= (result.steady_from or 0)
    ]
    assert result.nanoseconds == sum(max(a.nanoseconds, b.nanoseconds) for a, b in counted)
    assert result.windows == len(counted)
    assert sum(not window.warm_up for window in own) >= 5
    # Three seconds by rank 0's clock, in which the ranks have also agreed on when they are over.
    assert sum(max(a.nanoseconds, b.nanoseconds) for a, b in zip(own, other, strict=True) if not a.warm_up) >= 3e9 * 0.9


@pytest.mark.parametrize("family", ["IPv4", "IPv6"])
def test_two_ranks_in_one_pod_are_pinned_apart_and_serve_metrics(pods: Pods, family: str) -> None:
    """Also in a pod of IPv6 alone, whose ranks meet on its loopback network."""
    pod_ip = "::1" if family == "IPv6" else pods.address(0)
    pod = pods.start(
        make_assignment(workers=2, workers_per_node=2, measure_seconds=5),
        environment={names.ENV_POD_IP: pod_ip, names.ENV_NAMESPACE: "team-a"},
        cores=2,
        fresh=True,
    )
    host = f"[{pod_ip}]" if family == "IPv6" else pod_ip
    pod.wait_for_windows(6)
    first, second = pod.workers()
    assert len(first.cpu_affinity()) == len(second.cpu_affinity()) == 1
    assert set(first.cpu_affinity()).isdisjoint(second.cpu_affinity())
    for local_rank in (0, 1):
        url = f"http://{host}:{names.PORT_METRICS + local_rank}/metrics"
        text = urllib.request.urlopen(url, timeout=10).read().decode()
        labels = f'{{attempt="1",benchmark_namespace="team-a",rank="{local_rank}",trial="trial1",workload="mnist_mlp"}}'
        for name in (
            "gpubench_worker_throughput_samples_per_second",
            "gpubench_worker_samples_total",
            "gpubench_worker_window_step_seconds_count",
        ):
            value = next(line for line in text.splitlines() if line.startswith(name + "{"))
            assert dict(_labels(value)) == dict(_labels(labels)), value
            assert float(value.rpartition(" ")[2]) > 0
    assert pod.wait() == 0, pod.log[-2000:]
    assert pod.result.workers == 2


def _labels(line: str) -> list[tuple[str, str]]:
    inside = line.partition("{")[2].partition("}")[0]
    return [(name, value) for name, _, value in (pair.partition("=") for pair in inside.split(","))]


def test_a_killed_rank_is_named_by_its_own_pod_and_the_other_pod_lingers(pods: Pods) -> None:
    victim, witness = pods.gang(make_assignment(workers=2, **LONG), environment=LINGERING)
    victim.wait_for_windows()
    (rank,) = victim.workers()
    rank.send_signal(signal.SIGKILL)
    assert victim.wait() == ExitCode.WORKER_RAISED
    assert victim.failure.rank == 0
    assert "SIGKILL" in victim.failure.sentence
    wait_until((witness.folder / "termination-log").exists, pods=(witness,))  # it has its verdict, and stays
    assert witness.process.poll() is None
    witness.process.send_signal(signal.SIGTERM)
    assert witness.wait() == ExitCode.PEER_LOST
    assert witness.failure.exit_code == ExitCode.PEER_LOST
    assert "pod 0" in witness.failure.sentence or "went away" in witness.failure.sentence


def test_sigterm_ends_a_pod_and_its_workers_and_its_peer_knows_why(pods: Pods) -> None:
    witness, victim = pods.gang(make_assignment(workers=2, **LONG), environment=LINGERING)
    witness.wait_for_windows()
    workers = victim.workers()
    victim.process.send_signal(signal.SIGTERM)
    assert victim.wait() == ExitCode.TERMINATED
    assert victim.failure.exit_code == ExitCode.TERMINATED
    assert not any(worker.is_running() for worker in workers)
    wait_until((witness.folder / "termination-log").exists, pods=(witness,))
    witness.process.send_signal(signal.SIGTERM)  # which ends its lingering
    assert witness.wait() == ExitCode.PEER_LOST
    assert witness.failure.exit_code == ExitCode.PEER_LOST
    assert "SIGTERM" in witness.failure.sentence or "went away" in witness.failure.sentence


def test_a_rank_that_is_stopped_is_named_as_stalled(pods: Pods) -> None:
    pod = pods.start(
        make_assignment(workers=2, workers_per_node=2, stall_timeout_seconds=3, **LONG),
        cores=2,
        environment={"GPUBENCH_LIMIT_KILL": "0.5"},
    )
    pod.wait_for_a_measured_window()
    pod.workers()[1].send_signal(signal.SIGSTOP)
    assert pod.wait() == ExitCode.STALLED
    assert pod.failure.rank == 1
    assert "rank 1 made no progress for 3 s (its process is stopped)" in pod.failure.sentence


STARVING = """

taken = []


def starve(*pair):
    import time
    taken.append(1)
    if len(taken) > 4000:
        time.sleep(3600)
    return pair


def slowly(points):
    types, shapes = zip(*((one.dtype, one.shape) for one in points.element_spec))
    fed = points.map(lambda *pair: tf.py_function(starve, pair, types))
    return fed.map(lambda *pair: tuple(tf.ensure_shape(one, shape) for one, shape in zip(pair, shapes)))
"""


def test_a_rank_that_is_alive_and_gets_nowhere_is_named_as_stalled(pods: Pods, tmp_path: Path) -> None:
    """Not stopped, not dead: its data simply do not come any more."""
    example = (Path(__file__).resolve().parents[2] / "jobs/examples/own/model.py").read_text()
    points = "points(samples // setting.workers, seed=(setting.seed, setting.rank))"
    assert example.count(points) == 1
    file = tmp_path / "mine.py"
    file.write_text(example.replace(points, f"slowly({points})") + STARVING)
    pod = pods.start(
        make_assignment(workload="rings", custom_file=str(file), stall_timeout_seconds=5, **LONG),
        environment={"GPUBENCH_LIMIT_KILL": "0.5"},
    )
    assert pod.wait() == ExitCode.STALLED, pod.failure.sentence
    assert "rank 0 made no progress for 5 s (it is stepping)" in pod.failure.sentence


def test_workers_die_with_their_launcher_and_its_peer_does_not_hang(pods: Pods) -> None:
    first, second = pods.gang(make_assignment(workers=2, **LONG))
    first.wait_for_windows()
    (worker,) = first.workers()
    first.process.kill()
    wait_until(lambda: not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE)
    assert second.wait() == ExitCode.PEER_LOST
    assert second.failure.exit_code == ExitCode.PEER_LOST


def test_a_peer_that_never_joins_ends_the_wait_with_its_number(pods: Pods) -> None:
    first, second = (pods.start(make_assignment(workers=3, join_timeout_seconds=4), index=n) for n in (0, 1))
    assert first.wait() == ExitCode.JOIN_TIMEOUT
    assert "2 of 3 are here, missing: pod 2" in first.failure.sentence
    assert second.wait() == ExitCode.JOIN_TIMEOUT
    assert "missing: pod 2" in second.failure.sentence


def test_pods_of_two_images_end_with_the_reason_before_any_rank_starts(pods: Pods, tmp_path: Path) -> None:
    pushed_again = tmp_path / "pushed-again"
    shutil.copytree(Path(gpubench_jobs.__file__).parent, pushed_again / "gpubench_jobs")
    with (pushed_again / "gpubench_jobs/data/pipeline.py").open("a") as file:
        file.write("# one line more\n")
    assignment = make_assignment(workers=2)
    first = pods.start(assignment)
    second = pods.start(assignment, index=1, environment={"PYTHONPATH": str(pushed_again)}, fresh=True)
    assert (first.wait(), second.wait()) == (ExitCode.BAD_ASSIGNMENT, ExitCode.BAD_ASSIGNMENT)
    assert first.failure.sentence == second.failure.sentence
    assert "pod 1 has another image than pod 0" in first.failure.sentence
    assert "name the image by its digest" in first.failure.sentence


def test_pods_that_were_told_different_things_end_with_the_reason(pods: Pods) -> None:
    first = pods.start(make_assignment(workers=2, batch_per_worker=64))
    second = pods.start(make_assignment(workers=2, batch_per_worker=1), index=1)
    assert (first.wait(), second.wait()) == (ExitCode.BAD_ASSIGNMENT, ExitCode.BAD_ASSIGNMENT)
    assert "pod 1 has another image than pod 0, or another assignment" in first.failure.sentence


def test_without_pod_0_the_others_give_up_in_time(pods: Pods) -> None:
    pod = pods.start(make_assignment(workers=2, join_timeout_seconds=1), index=1)
    assert pod.wait() == ExitCode.JOIN_TIMEOUT
    assert "pod 0" in pod.failure.sentence


def test_sigterm_while_waiting_for_peers_is_obeyed(pods: Pods) -> None:
    pod = pods.start(make_assignment(workers=2))
    wait_until(lambda: _listens(pod.address, names.PORT_BARRIER), pods=(pod,))
    pod.process.send_signal(signal.SIGTERM)
    assert pod.wait() == ExitCode.TERMINATED


def _listens(address: str, port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((address, port)) == 0


IMPORTING = """
import pathlib, sys, time
here = pathlib.Path(__file__).parent
(here / "importing").touch()
while not (here / "told").exists():
    time.sleep(0.01)
sys.path.remove(str(here))
del sys.modules["psutil"]
import psutil
"""


@pytest.mark.parametrize("as_process_1", [False, True])
def test_sigterm_while_the_launcher_is_still_importing_is_obeyed(
    pods: Pods, tmp_path: Path, as_process_1: bool
) -> None:
    namespace = ["unshare", "--pid", "--fork", "--kill-child"] if as_process_1 else []
    if subprocess.run([*namespace, "true"], check=False, capture_output=True).returncode:
        namespace = []  # this user may make none
    command = [*namespace, sys.executable, "-m", "gpubench_jobs.launcher"]
    (tmp_path / "psutil.py").write_text(IMPORTING)
    path = {"PYTHONPATH": str(tmp_path)}
    pod = pods.start(make_assignment(workers=2), index=1, command=command, environment=path)
    wait_until((tmp_path / "importing").exists, pods=(pod,))
    launcher = pod.workers()[0] if namespace else psutil.Process(pod.process.pid)
    launcher.terminate()
    (tmp_path / "told").touch()
    assert pod.wait() == ExitCode.TERMINATED == pod.failure.exit_code


@pytest.mark.parametrize(
    ("assignment", "sentence"),
    [
        ("{", "Invalid JSON"),
        ('{"trial":"x7","attempt":3,"schemaVersion":2}', "schemaVersion"),
        (make_assignment().to_json().replace("mnist_mlp", "mnist_mpl"), "did you mean 'mnist_mlp'?"),
        (make_assignment(workers=3, workers_per_node=2).to_json(), "3 workers in pods of 2 have no pod 0"),
        (make_assignment(slot_processors=4096).to_json(), "do not fit"),
    ],
)
def test_a_bad_assignment_ends_at_once_with_the_reason(pods: Pods, assignment: str, sentence: str) -> None:
    pod = pods.start(assignment)
    assert pod.wait() == ExitCode.BAD_ASSIGNMENT
    assert sentence in pod.failure.sentence


def test_a_gpu_that_is_not_there_is_an_unsupported_accelerator(pods: Pods) -> None:
    pod = pods.start(make_assignment(gpu=True), environment={"CUDA_VISIBLE_DEVICES": "-1"})
    assert pod.wait() == ExitCode.UNSUPPORTED_ACCELERATOR
    assert "was given no GPU" in pod.failure.sentence


def test_a_batch_beyond_memory_is_named_with_its_size(pods: Pods) -> None:
    batch = 2**40
    pod = pods.start(make_assignment(batch_per_worker=batch))
    assert pod.wait() == ExitCode.OUT_OF_MEMORY, pod.failure.sentence
    assert str(batch) in pod.failure.sentence


def test_a_worker_that_raises_is_quoted(pods: Pods, tmp_path: Path) -> None:
    broken = tmp_path / "broken" / "keras"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise RuntimeError('no layers today')\n")
    pod = pods.start(make_assignment(), environment={"PYTHONPATH": str(broken.parent)}, fresh=True)
    assert pod.wait() == ExitCode.WORKER_RAISED
    assert "RuntimeError: no layers today" in pod.failure.sentence
    assert "Traceback" in pod.log


def test_an_image_without_horovod_is_told_so(pods: Pods, tmp_path: Path) -> None:
    hollow = tmp_path / "hollow" / "horovod"
    hollow.mkdir(parents=True)
    (hollow / "__init__.py").touch()
    pod = pods.start(make_assignment(), environment={"PYTHONPATH": str(hollow.parent)}, fresh=True)
    assert pod.wait() == ExitCode.BAD_ASSIGNMENT
    assert "the image lacks horovod" in pod.failure.sentence
    assert "Traceback" in pod.log


def test_what_the_launcher_did_not_foresee_ends_with_a_reason_too(pods: Pods, tmp_path: Path) -> None:
    broken = tmp_path / "broken" / "horovod"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise RuntimeError('no ring today')\n")
    pod = pods.start(make_assignment(), environment={"PYTHONPATH": str(broken.parent)}, fresh=True)
    assert pod.wait() == ExitCode.WORKER_RAISED
    assert "the launcher failed: RuntimeError: no ring today" in pod.failure.sentence


def test_a_termination_message_that_cannot_be_written_is_told_by_the_exit_code(pods: Pods, tmp_path: Path) -> None:
    nowhere = str(tmp_path / "missing" / "termination-log")
    pod = pods.start(make_assignment(), environment={names.ENV_TERMINATION_MESSAGE: nowhere})
    assert pod.wait() == ExitCode.RESULT_NOT_WRITTEN
    assert json.loads(pod.lines[-1])["kind"] == "result"  # the log has it all the same


def test_the_launcher_loads_no_tensorflow() -> None:
    code = "import sys, gpubench_jobs.launcher.__main__; print('tensorflow' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


# --- a results volume -------------------------------------------------------------------------------------------------


def test_the_records_that_a_gang_keeps_on_a_volume_give_its_result_again(pods: Pods, tmp_path: Path) -> None:
    spec = builders.spec(
        builders.block(workloads=["mnist_mlp"], workers=[2], batchPerWorker=[8]),
        measure={"warmUp": "0s", "duration": "1s", "healthCheck": "Disabled", "repeats": {"min": 1}},
    )
    plan = builders.plan(spec)
    (trial,) = plan.trials
    folder = tmp_path / "volume" / "study" / "logs"
    gang = pods.gang(capacity.gang_of(plan, trial, attempt=1).assignment, environment={names.ENV_RECORDS: str(folder)})
    assert [pod.wait() for pod in gang] == [0, 0], gang[0].log[-2000:] + gang[1].log[-2000:]
    files = [folder / names.log_name(trial=trial.id, attempt=1, pod=index) for index in range(2)]
    assert sorted(folder.iterdir()) == files
    assert [file.read_bytes() for file in files] == [(pod.folder / "stdout").read_bytes() for pod in gang]
    assert "results volume" not in gang[0].log + gang[1].log

    kept = {index: records.read_log(file.read_bytes()) for index, file in enumerate(files)}
    assert [one.problems for one in kept.values()] == [(), ()]
    result = gang[0].result
    record = builders.attempt(trial=trial.id, outcome=Outcome.SUCCEEDED, reason=Reason.COMPLETED, result=result)
    assert list(audit.of_attempt(plan, record, kept)) == []
    faster = record.model_copy(update={"result": result.model_copy(update={"nanoseconds": result.nanoseconds - 1})})
    assert list(audit.of_attempt(plan, faster, kept)) != []
    content = bytearray(files[1].read_bytes())
    content[len(content) // 2] ^= 1
    assert records.read_log(bytes(content)).problems != ()


def test_a_volume_that_cannot_be_written_costs_no_figure(pods: Pods) -> None:
    nowhere = Path("/sys/gpubench")  # where the kernel lets nobody make a file
    pod = pods.start(make_assignment(), environment={names.ENV_RECORDS: str(nowhere)})
    assert pod.wait() == 0, pod.log[-2000:]
    assert pod.wrote.records[-1] == pod.result
    assert pod.wrote.of_kind(records.Window), "the log has what the volume has not"
    (sentence,) = [line for line in pod.log.splitlines() if "results volume" in line]
    assert f"({nowhere}/trial1.1.0.jsonl: " in sentence


def test_a_pod_that_fails_keeps_its_last_words_on_the_volume(pods: Pods, tmp_path: Path) -> None:
    pod = pods.start(make_assignment(slot_processors=4096), environment={names.ENV_RECORDS: str(tmp_path / "volume")})
    assert pod.wait() == ExitCode.BAD_ASSIGNMENT
    kept = (tmp_path / "volume" / "trial1.1.0.jsonl").read_bytes()
    assert kept == (pod.folder / "stdout").read_bytes()
    assert records.read_log(kept).records == (pod.failure,)


#: A launcher that tells, as the interpreter sees them, of files that get their name and of requests to pod 0.
TELLING = """
import os, sys
from pathlib import Path
order = Path(os.environ["ORDER"]).open("w", buffering=1)
def hook(event, arguments):
    if event == "os.rename":
        order.write(f"named {Path(os.fspath(arguments[1])).name}\\n")
    elif event == "http.client.send" and bytes(arguments[1]).startswith(b"POST /done"):
        order.write("done\\n")
sys.addaudithook(hook)
from gpubench_jobs.launcher import __main__ as launcher
sys.exit(launcher.main())
"""


def test_a_pods_records_are_kept_before_it_says_that_it_is_done(pods: Pods, tmp_path: Path) -> None:
    """Soon after that pod 0 ends, and the Job controller deletes the others."""
    variables = {names.ENV_RECORDS: str(tmp_path / "volume"), "ORDER": str(tmp_path / "order")}
    assignment = make_assignment(workers=2)
    gang = (
        pods.start(assignment, index=0, environment=variables),
        pods.start(assignment, index=1, environment=variables, command=(sys.executable, "-c", TELLING)),
    )
    assert [pod.wait() for pod in gang] == [0, 0], gang[0].log[-2000:] + gang[1].log[-2000:]
    order = (tmp_path / "order").read_text().splitlines()
    assert list(dict.fromkeys(order)) == ["named trial1.1.1.jsonl", "done"]  # it asks again where the answer is late
    assert (tmp_path / "volume" / "trial1.1.1.jsonl").read_bytes() == (gang[1].folder / "stdout").read_bytes()
