# SPDX-License-Identifier: Apache-2.0
"""From the plain dict of a document to the types of the API, with problems as values."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from gpubench import names
from gpubench.api.benchmark import GpuBenchmarkSpec
from gpubench.api.pool import GpuPool, GpuPoolSpec
from gpubench.values import Value


class Problem(Value):
    """One thing that is wrong with a document."""

    path: tuple[str | int, ...]
    sentence: str


class Invalid(Exception):
    """The document is no valid object."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("; ".join(problem.sentence for problem in problems))
        self.problems = problems


def pool(document: Mapping[str, Any]) -> GpuPool:
    """A GpuPool; Invalid with everything that is wrong with it."""
    name = _name(document, limit=names.POOL_NAME_MAX)
    return GpuPool(name=name, spec=_spec(document, GpuPoolSpec))


def benchmark(document: Mapping[str, Any]) -> tuple[str, GpuBenchmarkSpec]:
    """Name and spec of a GpuBenchmark; Invalid with everything that is wrong with it."""
    name = _name(document, limit=names.BENCHMARK_NAME_MAX)
    return name, _spec(document, GpuBenchmarkSpec)


def _name(document: Mapping[str, Any], *, limit: int) -> str:
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not 0 < len(name) <= limit:
        raise Invalid((Problem(path=("metadata", "name"), sentence=f"a name of 1 to {limit} characters is needed"),))
    return name


def _spec(document: Mapping[str, Any], kind: type[Any]) -> Any:
    try:
        return kind.model_validate(document.get("spec"))
    except ValidationError as error:
        raise Invalid(
            tuple(Problem(path=("spec", *found["loc"]), sentence=found["msg"]) for found in error.errors())
        ) from error
