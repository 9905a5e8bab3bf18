# SPDX-License-Identifier: Apache-2.0
"""A local run with the stand-in, as a program that can be interrupted: local_driver.py FOLDER MANNER."""

import sys
import tempfile
import time
from pathlib import Path

import builders
from gpubench.plan.expand import freeze
from gpubench_cli import local, machine
from gpubench_cli.local import Place
from gpubench_cli.results import ResultsFolder
from gpubench_cli.terminal import Progression, Stopped

STAND_IN = Path(__file__).with_name("stand_in_launcher.py")


def main(folder: Path, manner: str) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    study = builders.study(
        builders.spec(template={"env": [{"name": "STAND_IN_FOLDER", "value": str(folder)}]}), created_at=time.time()
    )
    plan = freeze(study.spec, (builders.pool(),), "2026-11-01T00:00:00Z")
    here = machine.this_machine().model_copy(update={"memory_bytes": 2**40})
    results = ResultsFolder.create(folder / "results", study_text="{}", plan=plan)
    with tempfile.TemporaryDirectory() as scratch, Progression(name="test") as progression:
        place = Place(
            machine=here,
            command=(sys.executable, str(STAND_IN), manner),
            folder=results,
            scratch=Path(scratch),
            grace_seconds=1.0,
        )
        try:
            local.LocalRun(study, plan, place=place, reporter=progression).run()
        except Stopped as error:
            return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
