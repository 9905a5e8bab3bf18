# SPDX-License-Identifier: Apache-2.0
"""What a study's figures stand on, in words: hardware, driver, libraries, image."""

from collections.abc import Sequence

from gpubench.api.benchmark_status import EnvironmentFacts
from gpubench.api.point_result import PointResult
from gpubench.records import environment_field_name

_DIGEST_CHARACTERS = 12
_HASH = "environment"


def sentences(environments: Sequence[EnvironmentFacts], results: Sequence[PointResult]) -> tuple[str, ...]:
    """One line for each environment, with the number of points that stand on it where there are several."""
    found = []
    for one in environments:
        count = sum(point.environment == one.environment for point in results)
        points = f", {count} point{'' if count == 1 else 's'}" if len(environments) > 1 else ""
        told = ", ".join(_told(name, value) for name, value in facts(one).items())
        found.append(f"Environment {one.environment}{points}: {told or 'its record was not read'}")
    return tuple(found)


def facts(one: EnvironmentFacts) -> dict[str, str]:
    """Facts by their names in words; what is not known is left out."""
    found = {name: str(value) for name, value in one if value is not None and name != _HASH}
    return {environment_field_name(name): value for name, value in found.items()}


def _told(name: str, value: str) -> str:
    if name == environment_field_name("accelerator"):
        return value
    return f"{name} {value.removeprefix('sha256:')[:_DIGEST_CHARACTERS] if name == 'image digest' else value}"
