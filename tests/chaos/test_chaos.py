# SPDX-License-Identifier: Apache-2.0
"""The short form of `make chaos`: a few faults of the quick kinds, from a fixed seed, without real ranks; and that a
seed gives the same faults and the same studies for ever.
"""

import itertools
from pathlib import Path

import chaos
import chaos_schedule
import chaos_studies
from chaos_schedule import Kind

SEED = 20261122
FAULTS = 12


def test_whatever_strikes_every_study_ends_as_it_must_and_leaves_nothing(tmp_path: Path) -> None:
    course = chaos.Course(seed=SEED, faults=FAULTS, kinds=chaos_schedule.QUICK, with_real=False, pace=0.5)
    assert chaos.carried_out(course, tmp_path) == []


def test_a_seed_gives_the_same_faults_and_another_one_gives_others() -> None:
    def of(seed: int) -> list[chaos_schedule.Fault]:
        return list(itertools.islice(chaos_schedule.faults(seed), 200))

    assert of(1) == of(1)
    assert of(1) != of(2)


def test_two_hundred_faults_of_any_seed_have_every_kind_and_twenty_at_real_gangs() -> None:
    for seed in range(50):
        dealt = list(itertools.islice(chaos_schedule.faults(seed), 200))
        assert {fault.kind for fault in dealt} == set(Kind)
        assert sum(fault.on_real for fault in dealt) >= 20


def test_a_seed_gives_the_same_studies_of_every_course() -> None:
    dealt = [chaos_studies.study(1, "left", number) for number in range(40)]
    assert dealt == [chaos_studies.study(1, "left", number) for number in range(40)]
    assert {study.course for study in dealt} == set(chaos_studies.Course)
