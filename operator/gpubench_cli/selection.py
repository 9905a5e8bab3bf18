# SPDX-License-Identifier: Apache-2.0
"""One point of a study, as a person names it: by what `show` has in its row, in that order, or by one of its trials.

    local-cpu/2                  parts of the row, in their order; as many as tell the point from the others
    resnet50/gke-a100/8/64       workload, pool, workers, batch, precision, variant
    row=3                        the third row of `gpubench show`
    abcd                         the beginning of the id of a trial

Must not happen: one of several points is taken because it came first.
"""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from gpubench.api.point_result import PointResult
from gpubench.plan.plan import Plan
from gpubench_cli.refusal import Refusal

_ROW = "row="
_TRIAL_MIN = 4  # characters of a trial's id: fewer are a number or a word too easily
_LISTED = 5


def find(plan: Plan, points: Sequence[PointResult], text: str | None) -> int:
    """The index of the point that is meant; a Refusal names the nearest where that is none, or more than one."""
    if text is None:
        if len(points) == 1:
            return 0
        raise Refusal(f"the study has {len(points)} points: name one, such as {_listed(points, range(len(points)))}")
    if text.startswith(_ROW):
        return _of_row(points, text)
    matching = list(_matching(points, text)) or sorted(_of_trial(plan, text))
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise Refusal(f"{text} is {len(matching)} points: name one of {_listed(points, matching)}")
    raise Refusal(f"the study has no point {text}: the nearest are {_listed(points, _nearest(points, text))}")


def name(points: Sequence[PointResult], index: int) -> str:
    """By which a point is found again: its row's texts, or the row where two points have the same ones."""
    own = "/".join(_texts(points[index]))
    same = sum("/".join(_texts(point)) == own for point in points)
    return own if same == 1 else f"{_ROW}{index + 1}"


def _texts(point: PointResult) -> tuple[str, ...]:
    batch = point.global_batch if point.batch_per_worker is None else point.batch_per_worker
    variant = () if point.variant is None else (point.variant,)
    return (point.workload, point.pool, str(point.workers), str(batch), point.precision, *variant)


def _of_row(points: Sequence[PointResult], text: str) -> int:
    number = text.removeprefix(_ROW)
    if not number.isdecimal() or not 1 <= int(number) <= len(points):
        raise Refusal(f"{text}: there is no such row: `gpubench show` has rows 1 to {len(points)} here")
    return int(number) - 1


def _matching(points: Sequence[PointResult], text: str) -> Iterator[int]:
    parts = text.split("/")
    whole = [index for index, point in enumerate(points) if tuple(parts) == _texts(point)]
    found = whole or [index for index, point in enumerate(points) if _in_order(parts, _texts(point))]
    yield from found


def _in_order(parts: Sequence[str], texts: Sequence[str]) -> bool:
    """Whether each part is one of the texts, in the same order."""
    left = iter(texts)
    return all(part in left for part in parts)


def _of_trial(plan: Plan, text: str) -> set[int]:
    return {trial.point for trial in plan.trials if len(text) >= _TRIAL_MIN and trial.id.startswith(text)}


def _nearest(points: Sequence[PointResult], text: str) -> list[int]:
    """Those that have most of the parts, then those whose names look alike."""
    parts = set(text.split("/"))
    shared = [len(parts & set(_texts(point))) for point in points]
    if most := max(shared, default=0):
        return [index for index, count in enumerate(shared) if count == most]
    names = ["/".join(_texts(point)) for point in points]
    alike = get_close_matches(text, names, n=_LISTED, cutoff=0.0)
    return [names.index(one) for one in alike]


def _listed(points: Sequence[PointResult], indices: Sequence[int]) -> str:
    shown = [name(points, index) for index in indices[:_LISTED]]
    rest = len(indices) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest > 0 else "")
