# SPDX-License-Identifier: Apache-2.0
"""Stands in for a pod's launcher: ends, or does not end, as its first argument says. It trains nothing.

Standard library only: it is started dozens of times, and importing gpubench would take most of the time of the tests.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ASSIGNMENT: dict[str, Any] = json.loads(os.environ["GPUBENCH_ASSIGNMENT"])
INDEX = int(os.environ["JOB_COMPLETION_INDEX"])
OUT_OF_MEMORY, WORKER_RAISED, TERMINATED = 66, 80, 84  # of gpubench.exitcodes


def main(manner: str) -> int:
    print(json.dumps({"environment": dict(os.environ), "cores": sorted(os.sched_getaffinity(0))}), flush=True)
    came(INDEX).touch()
    return MANNERS[manner]()


def succeed() -> int:
    """As a real launcher does, pod 0 ends only when every pod has come: its end is the end of them all."""
    pods = ASSIGNMENT["workers"] // ASSIGNMENT["workersPerNode"]
    while INDEX == 0 and not all(came(index).exists() for index in range(pods)):
        time.sleep(0.02)
    return close(result())


def came(index: int) -> Path:
    """Stands in a pod's own folder, beside those of its siblings."""
    own = Path(os.environ["TMPDIR"])
    return own.with_name(f"{own.name.rpartition('-')[0]}-{index}") / "came"


def fail_in_pod_1() -> int:
    return close(failure("the second pod gave up")) if INDEX == 1 else wait_for_sigterm()


def fail_first_attempt() -> int:
    return close(result()) if ASSIGNMENT["attempt"] > 1 else close(failure("not this time"))


def out_of_memory_with_2() -> int:
    return close(failure("too large", OUT_OF_MEMORY)) if ASSIGNMENT["workers"] > 1 else close(result())


def die_without_a_word() -> int:
    print("Traceback: the library is broken", file=sys.stderr)
    return 1


def hang_after_the_first() -> int:
    if ASSIGNMENT["workers"] == 1 and not marker().exists():
        marker().touch()
        return close(result())
    return wait_for_sigterm(child=True)


def stubborn() -> int:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return subprocess.run([sys.executable, "-c", "import time; time.sleep(120)"], check=True).returncode


def marker() -> Path:
    """Shared by the attempts of one run."""
    return Path(os.environ["STAND_IN_FOLDER"]) / "measured-one"


def wait_for_sigterm(*, child: bool = False) -> int:
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    rank = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"]) if child else None
    while not told:
        time.sleep(0.02)
    if rank is not None:
        rank.terminate()
        rank.wait()
    return close(failure("told to stop", TERMINATED))


def result() -> dict[str, Any]:
    return {
        "kind": "result",
        "schemaVersion": 1,
        "trial": ASSIGNMENT["trial"],
        "attempt": ASSIGNMENT["attempt"],
        "workers": ASSIGNMENT["workers"],
        "steps": 10,
        "samples": 10 * ASSIGNMENT["batchPerWorker"] * ASSIGNMENT["workers"],
        "nanoseconds": 1_000_000_000 + ASSIGNMENT["seed"] * 1_000_000,
        "windows": 5,
        "warmUpWindows": 1,
        "windowNanoseconds": [1, 2, 3],
        "finalLoss": 0.5,
        "weightsDigest": "d",
        "environment": "e",
        "joinSeconds": 0.1,
        "initSeconds": 0.1,
    }


def failure(sentence: str, code: int = WORKER_RAISED) -> dict[str, Any]:
    return {
        "kind": "failure",
        "schemaVersion": 1,
        "trial": ASSIGNMENT["trial"],
        "attempt": ASSIGNMENT["attempt"],
        "exitCode": code,
        "sentence": sentence,
    }


def close(ending: dict[str, Any]) -> int:
    Path(os.environ["GPUBENCH_TERMINATION_MESSAGE"]).write_text(json.dumps(ending))
    return int(ending.get("exitCode", 0))


MANNERS = {
    "succeed": succeed,
    "fail-in-pod-1": fail_in_pod_1,
    "fail-first-attempt": fail_first_attempt,
    "out-of-memory-with-2": out_of_memory_with_2,
    "die-without-a-word": die_without_a_word,
    "hang-after-the-first": hang_after_the_first,
    "stubborn": stubborn,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
