# SPDX-License-Identifier: Apache-2.0
"""`make fuzz SEED=1 OBJECTS=10000`: generated objects against the real API server and the operator, with figures.

Printed: how many were refused and accepted of each manner, what the operator said of the accepted ones, examples of
refusals, the operator's memory in the first and in the last quarter. A fault is printed with the seed and the smallest
object that shows it. Exit status 1 where there is one, or where the memory grew.
"""

import argparse
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import yaml

import fuzz_campaign
import fuzz_smallest
import installation
from cluster import Cluster
from fuzz_campaign import Campaign, Figures, Finding
from fuzz_objects import Manner

MEMORY_JUDGED_FROM = 2000  # objects: before that, first uses of everything are what is measured
MEMORY_GROWTH_MOST = 1.10  # of the median, from the first quarter to the last; what is freed is not always given back
FINDINGS_SHOWN = 10
EXAMPLES_SHOWN = 25
TRIES = 150  # to make an object smaller; each is a request


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--objects", type=int, default=10_000)
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as an exception, so that everything is stopped
    with (
        tempfile.TemporaryDirectory(prefix="gpubench-fuzz-") as folder,
        Cluster.start(Path(folder) / "cluster", nodes=fuzz_campaign.NODES, audit_log=False) as cluster,
        installation.running_operator(
            cluster, log=Path(folder) / "operator.log", settings=fuzz_campaign.SETTINGS
        ) as operator,
    ):
        campaign = Campaign(cluster, operator, seed=options.seed)
        campaign.prepare()
        campaign.run(options.objects, progress=lambda line: print(line, flush=True))
        print_figures(campaign.figures)
        is_flat = print_memory(campaign.figures)
        print_findings(campaign.findings, seed=options.seed)
    return 0 if is_flat and not campaign.findings else 1


def print_figures(figures: Figures) -> None:
    """What was applied, and what became of it."""
    print(f"\n{figures.objects} objects in {figures.seconds:.0f} s")
    for manner in Manner:
        accepted, refused = (figures.outcomes[manner, outcome] for outcome in ("accepted", "refused"))
        print(f"  {manner.value:<13} {accepted:>6} accepted {refused:>6} refused")
    print("\nwhat the operator said of the accepted ones")
    for words, count in figures.conditions.most_common():
        print(f"  {count:>6} {words}")
    print("\nchanges of accepted ones")
    for words, count in figures.changes.most_common():
        print(f"  {count:>6} {words}")
    print(f"\nrefusals in {len(figures.refusals)} different words, such as")
    for essence, count in figures.refusals.most_common(EXAMPLES_SHOWN):
        print(f"  {count:>6} {figures.examples[essence][:220]!r}")


def print_memory(figures: Figures) -> bool:
    """The operator's memory; whether it is flat, as far as so few objects can tell."""
    first, last = figures.quarters()
    print(f"\nthe operator's memory: {first:.1f} MiB in the first quarter, {last:.1f} MiB in the last (medians)")
    if figures.objects < MEMORY_JUDGED_FROM:
        print(f"not judged below {MEMORY_JUDGED_FROM} objects")
        return True
    print(f"x {last / first:.3f} (bar: x {MEMORY_GROWTH_MOST})")
    return last <= MEMORY_GROWTH_MOST * first


def print_findings(findings: Sequence[Finding], *, seed: int) -> None:
    """Each fault with the smallest object that shows it."""
    print(f"\n{len(findings)} findings, seed {seed}")
    for finding in findings[:FINDINGS_SHOWN]:
        print(f"\n--- {finding.what}")
        if finding.made is None:
            continue
        document = finding.made.document
        if finding.shows is not None:
            document = fuzz_smallest.smallest(document, shows=finding.shows, tries=TRIES)
        print(f"{finding.made.manner.value}, {finding.made.title}")
        print(yaml.safe_dump(document, sort_keys=False)[:4000])


if __name__ == "__main__":
    sys.exit(main())
