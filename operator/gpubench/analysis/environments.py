# SPDX-License-Identifier: Apache-2.0
"""The environments that a benchmark's results come from, as its readers see them."""

from collections.abc import Sequence

from gpubench import records
from gpubench.api import status_sizes
from gpubench.api.benchmark_status import EnvironmentFacts
from gpubench.records import Environment
from gpubench.scheduler import conditions
from gpubench.scheduler.environments import distinct, ground
from gpubench.scheduler.ledger import AttemptRecord, Ledger
from gpubench.stats.efficiency import EnvironmentKey


def facts(ledger: Ledger) -> tuple[EnvironmentFacts, ...]:
    """What the study's figures stand on, for its status; the first that were met where there are too many."""
    known = ledger.environment_by_key()
    in_time = sorted(ledger.records, key=lambda record: (record.ended_at or 0.0, record.key))
    met = distinct(found for record in in_time if (found := ground(record)) is not None and found.environment)
    return tuple(
        _facts(one, known.get(one.environment)).model_copy(update={"links": _links(in_time, one.environment)})
        for one in met[: status_sizes.ENVIRONMENTS_SHOWN_MAX]
    )


def instance_type_shown(one: EnvironmentKey) -> str | None:
    """As each result shows it; None where nobody knows it. Most names have no more letters."""
    return _fact(one.instance_type, status_sizes.FACT_MAX)


def _links(met: Sequence[AttemptRecord], environment: str) -> str | None:
    """Kinds of links of all gangs in this environment, each once."""
    told = [one.result.links for one in met if one.result is not None and one.result.environment == environment]
    kinds = sorted({kind for links in told if links is not None for kind in links.split(records.LINKS_BETWEEN)})
    return _fact(records.LINKS_BETWEEN.join(kinds), status_sizes.LINKS_MAX)


def _facts(one: EnvironmentKey, environment: Environment | None) -> EnvironmentFacts:
    found = EnvironmentFacts(
        environment=records.environment_shown(one.environment) or "",
        instance_type=_fact(one.instance_type, status_sizes.FACT_NAME_MAX),
        image_digest=_fact(one.image_id.rpartition("@")[2], status_sizes.DIGEST_MAX),
    )
    if environment is None:
        return found
    versions = {name: _fact(getattr(environment, name), status_sizes.FACT_MAX) for name in _VERSIONS}
    accelerator = _fact(environment.accelerator, status_sizes.FACT_NAME_MAX)
    rest = {"accelerator": accelerator, "threads_per_rank": environment.threads_per_rank}
    return found.model_copy(update=versions | rest)


#: Short texts of the key. The reference of the image is left out: its digest is what counts.
_VERSIONS = ("driver", "cuda", "cudnn", "nccl", "transport", "tensorflow", "horovod")


def _fact(text: str | None, limit: int) -> str | None:
    return conditions.clamped(text, limit) if text else None
