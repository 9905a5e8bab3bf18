# SPDX-License-Identifier: Apache-2.0
"""`gpubench pools discover`: GpuPools that the nodes of a cluster suggest, as YAML for `kubectl apply`. Writes nothing.

Must not happen: a price. Nodes do not say what they cost, and a made-up price becomes a made-up answer.
"""

import argparse
import json
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from gpubench import names
from gpubench.analysis import proposals
from gpubench.analysis.proposals import Proposal
from gpubench.api.pool import CapacityType, GpuPool
from gpubench.sanitize import one_line
from gpubench_cli import refusal, terminal
from gpubench_cli.refusal import Refusal
from gpubench_cluster import kube

_COLUMNS = 120
_NODES_NAMED = 5
_HEAD = (
    "GpuPools that the nodes of a cluster suggest. To fill in: what each costs. To look at: maxNodes is how many nodes "
    "there are now, raise it to what an autoscaler may add; slot leaves "
    f"{proposals.DAEMON_PROCESSORS} processors and 1 GiB of a node to its daemons, lower it where pods stay pending "
    "for Insufficient cpu or memory."
)
_PRICE = """\
  # What a node costs: fill it in and uncomment it. Without it there are no costs, and results say so.
  # price:
  #   perNodeHour: PRICE             # such as "10.21": a decimal number in quotes
  #   currency: USD
  #   asOf: DAY                      # on which it was read, such as 2026-11-01
  #   source: PAGE                   # where it was read
"""
_OWNERSHIP = """\
  # What a node of your own costs: fill it in and uncomment it. Without it there are no costs, and results say so.
  # ownership:
  #   purchase: PRICE                # of one node, such as "2800": a decimal number in quotes
  #   lifetimeMonths: MONTHS         # over which it is written off
  #   hoursPerMonth: HOURS           # in which it is really used
  #   watts: WATTS                   # under load
  #   idleWatts: WATTS
  #   perKilowattHour: PRICE
  #   currency: USD
  #   asOf: DAY                      # such as 2026-11-01
"""


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The command's arguments."""
    parser = commands.add_parser(
        "pools",
        help="propose GpuPools from the nodes of the current cluster",
        description="GpuPools of a cluster.",
    )
    discover = parser.add_subparsers(title="commands", metavar="COMMAND", required=True).add_parser(
        "discover",
        help="propose GpuPools from the nodes of the current cluster",
        description="Propose a GpuPool for each kind of nodes of the current cluster, from their labels, taints and "
        "resources, as YAML on standard output. Nothing is written to the cluster. Prices are for you to fill in.",
    )
    discover.add_argument(
        "--nodes",
        metavar="FILE",
        help="nodes from a file in place of a cluster: what `kubectl get nodes -o json` has written; - is standard "
        "input",
    )
    discover.add_argument("--cpu", action="store_true", help="pools of nodes without GPUs, too, where there are GPUs")
    discover.add_argument("--all", action="store_true", help="pools also of nodes that are in a GpuPool already")
    discover.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Look, propose, print."""
    nodes, existing = _listed(arguments.nodes) if arguments.nodes is not None else _of_cluster(every=arguments.all)
    found = proposals.proposals(nodes, existing=existing, processors=arguments.cpu)
    for sentence in found.left_out:
        terminal.tell(f"left out: {one_line(sentence)}")
    if not found.pools:
        raise Refusal(
            f"none of the {len(nodes)} nodes suggests a {names.POOL_KIND}: where nodes come only when a pod asks for "
            "them, write the pool by hand (examples: jobs/studies/pools)"
        )
    terminal.write("".join(_commented(_HEAD)) + "---\n" + "---\n".join(map(document, found.pools)))
    return refusal.EXIT_DONE


def document(proposal: Proposal) -> str:
    """A proposal as YAML, with what a person must know above it, and what is to be filled in below."""
    spec = proposal.pool.spec
    content = {
        "apiVersion": names.API_VERSION,
        "kind": names.POOL_KIND,
        "metadata": {"name": proposal.pool.name},
        "spec": {
            "capacityType": spec.capacity_type.value,
            **spec.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True),
        },
    }
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
    owned = spec.capacity_type is CapacityType.OWNED
    return "".join((*_comments(proposal), text, _OWNERSHIP if owned else _PRICE))


def _comments(proposal: Proposal) -> Iterator[str]:
    shown = ", ".join(proposal.nodes[:_NODES_NAMED])
    more = f" and {len(proposal.nodes) - _NODES_NAMED} more" if len(proposal.nodes) > _NODES_NAMED else ""
    machine = f" ({proposal.instance_type})" if proposal.instance_type else ""
    count = len(proposal.nodes)
    sentences = (
        f"{count} {'node' if count == 1 else 'nodes'}{machine}, {proposal.ready} ready: {shown}{more}.",
        *proposal.remarks,
    )
    yield from _commented(*sentences)


def _commented(*sentences: str) -> Iterator[str]:
    for sentence in sentences:
        for line in textwrap.wrap(one_line(sentence), _COLUMNS - 2, break_long_words=False, break_on_hyphens=False):
            yield f"# {line}\n"


def _of_cluster(*, every: bool) -> tuple[Sequence[Mapping[str, Any]], tuple[GpuPool, ...]]:
    from gpubench_cli import cluster  # noqa: PLC0415  # the client takes long to load

    with cluster.connect() as place:
        nodes = place.nodes()
        if every:
            return nodes, ()
        try:
            return nodes, place.pools()
        except (Refusal, kube.PermanentError):  # gpubench is not installed there yet, or this version cannot read them
            return nodes, ()


def _listed(source: str) -> tuple[Sequence[Mapping[str, Any]], tuple[GpuPool, ...]]:
    """The nodes in a file of kubectl's, JSON or YAML."""
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
        listed = json.loads(text) if text.lstrip().startswith("{") else yaml.safe_load(text)
    except OSError as error:
        raise Refusal(f"{source}: the file cannot be read: {error.strerror}") from error
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        raise Refusal(
            f"{source}: this is neither JSON nor YAML: give what `kubectl get nodes -o json` wrote"
        ) from error
    items = listed.get("items") if isinstance(listed, dict) else None
    if not isinstance(items, list) or not all(map(_is_node, items)):
        raise Refusal(f"{source}: this is no list of nodes: give what `kubectl get nodes -o json` wrote")
    return items, ()


def _is_node(item: object) -> bool:
    return (
        isinstance(item, dict)
        and item.get("kind", "Node") == "Node"
        and isinstance(item.get("metadata"), dict)
        and isinstance(item["metadata"].get("name"), str)
        and isinstance(item["metadata"].get("labels", {}), dict)
    )
