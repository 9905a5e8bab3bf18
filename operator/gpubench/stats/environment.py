# SPDX-License-Identifier: Apache-2.0
"""What two environments differ in, in words: why figures are not averaged, divided or compared."""

from collections.abc import Sequence

from gpubench.records import Environment

_NAMES = {
    "cuda": "CUDA",
    "cudnn": "cuDNN",
    "nccl": "NCCL",
    "tensorflow": "TensorFlow",
    "horovod": "Horovod",
    "python": "Python",
    "keras": "Keras",
    "gpus": "number of GPUs",
    "gpu_uuids": "GPUs",
    "gpu_megahertz": "clock of the GPU in MHz",
    "gpu_megahertz_max": "highest clock of the GPU in MHz",
    "gpu_memory_megahertz": "clock of the GPU's memory in MHz",
    "gpu_memory_megahertz_max": "highest clock of the GPU's memory in MHz",
    "power_limit_watts": "power limit in watts",
    "processor_flags": "instruction sets",
    "processor_flags_digest": "processor flags",
    "memory_bytes": "memory in bytes",
}
_ABSENT = "none"

#: What is recorded beside the key; where a run took place, and on which card of a kind, is no difference.
PROVENANCE = (
    "python",
    "keras",
    "kernel",
    "gpus",
    "gpu_megahertz",
    "gpu_megahertz_max",
    "gpu_memory_megahertz",
    "gpu_memory_megahertz_max",
    "power_limit_watts",
    "processor",
    "processor_flags_digest",
    "processors",
    "memory_bytes",
)


def differences(*environments: Environment, fields: Sequence[str] = Environment.COMPARED) -> tuple[str, ...]:
    """What these environments differ in, each as `driver 550.54 and 560.35`; empty where their keys are equal.

    With `fields=PROVENANCE` what is recorded beside the key.
    """
    found = []
    for field in fields:
        values = dict.fromkeys(_shown(getattr(environment, field)) for environment in environments)
        if len(values) > 1:
            found.append(f"{field_name(field)} {listed(tuple(values))}")
    return tuple(found)


def told(record: Environment, *, fields: Sequence[str]) -> dict[str, str]:
    """What a record says of these fields, by their names in words; what is absent is left out."""
    values = {field_name(field): _shown(getattr(record, field)) for field in fields}
    return {name: value for name, value in values.items() if value != _ABSENT}


def field_name(field: str) -> str:
    """A field in words."""
    return _NAMES.get(field, field.replace("_", " "))


def listed(values: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join((", ".join(values[:-1]), values[-1])) if len(values) > 1 else "".join(values)


def _shown(value: object) -> str:
    match value:
        case None | ():
            return _ABSENT
        case tuple():
            return ", ".join(map(str, value))
        case float():
            return f"{value:g}"
        case _:
            return str(value)
