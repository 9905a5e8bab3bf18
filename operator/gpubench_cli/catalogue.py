# SPDX-License-Identifier: Apache-2.0
"""Prices from a checkout of SkyPilot's catalogue (github.com/skypilot-org/skypilot-catalog, CSV of version 8).

A provider has a file; a row is a machine in a zone, with the price of an hour on demand and on spot in USD. Where GPUs
have rows of their own (GCP), the machine's row is without them. Must not happen: a price of another machine, region or
way of renting; a host without its GPUs; a price whose day and source are not said.
"""

import functools
import statistics
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import NamedTuple

import click
import yaml

from gpubench.api.pool_price import Price, PriceComponent
from gpubench.units import rfc3339
from gpubench_cli import documents, options, terminal
from gpubench_cli.terminal import CliError

#: The folders of providers, by what gpubench calls a cloud; all others have their own name.
_FOLDERS = {"gke": "gcp", "eks": "aws", "aks": "azure", "oke": "oci", "digitalocean": "do"}
_COLUMNS = ("InstanceType", "AcceleratorName", "AcceleratorCount", "Region", "AvailabilityZone", "Price", "SpotPrice")
_PLACES = 6
_PERIODS = {"day": 24, "week": 168, "month": 730}  # hours
_Row = dict[str, str]


class Machine(NamedTuple):
    """What is asked for."""

    provider: str  # gke, or gcp
    instance_type: str
    region: str
    zones: tuple[str, ...] = ()  # any of them; all of the region where none is in the catalogue
    is_spot: bool = False
    gpu: str | None = None
    gpus: int = 0


class Priced(NamedTuple):
    """What the catalogue says, and what must be known of it."""

    price: Price
    hour: Decimal  # of a node, with its GPUs, in USD
    remark: str | None = None


def priced(folder: Path, machine: Machine) -> Priced:
    """CliError says what is missing."""
    path = _file(folder, _FOLDERS.get(machine.provider, machine.provider))
    rows = [row for row in _rows(path) if row["Region"] == machine.region]
    if not (hosts := [row for row in rows if row["InstanceType"] == machine.instance_type]):
        raise CliError(f"{path} has no {machine.instance_type} in {machine.region}: write its price by hand")
    parts = {machine.instance_type: hosts}
    if machine.gpus and not any(row["AcceleratorName"] for row in hosts):
        parts[f"{machine.gpus} x {machine.gpu}"] = _of_gpus(path, rows, machine)
    figures = {name: _figures(path, found, machine, name=name) for name, found in parts.items()}
    typical = {name: statistics.median_high(found) for name, found in figures.items()}
    components = [PriceComponent(name=name[:63], per_hour=_text(hour)) for name, hour in typical.items()]
    price = Price(
        per_node_hour=components[0].per_hour if len(components) == 1 else None,
        components=tuple(components) if len(components) > 1 else None,
        currency="USD",
        as_of=rfc3339(path.stat().st_mtime)[: len("2026-11-01")],
        source=f"SkyPilot's catalogue, {path.parent.parent.name}/{path.parent.name}, {machine.region}",
    )
    hour, remark = sum(typical.values(), Decimal(0)), None
    lowest, highest = (sum(map(end, figures.values()), Decimal(0)) for end in (min, max))
    if not machine.gpus and not all(row["InstanceType"] for row in rows):
        remark = "The catalogue lists GPUs apart here: this is the machine without any, unless --gpus says."
    elif lowest != highest:
        moved = f"from USD {_text(lowest)} to {_text(highest)}"
        remark = f"In the zones of {machine.region} it costs {moved}: this is the median."
    return Priced(price, hour, remark)


def _file(folder: Path, provider: str) -> Path:
    for place in (folder / "catalogs" / "v8", folder / "v8", folder):
        if (path := place / provider / "vms.csv").is_file():
            return path
    raise CliError(f"{folder} has no v8/{provider}/vms.csv: give a checkout of skypilot-org/skypilot-catalog")


@functools.cache
def _rows(path: Path) -> tuple[_Row, ...]:
    rows = documents.csv_rows(path, _COLUMNS, "give a catalogue of version 8")
    return tuple({name: (row[name] or "").strip() for name in _COLUMNS} for _, row in rows)


def _of_gpus(path: Path, rows: Sequence[_Row], machine: Machine) -> list[_Row]:
    """The rows of so many GPUs, by the longest name of which the machine's GPU has all parts.

    The catalogue's A100 is that of 40 GB; A100-80GB has its memory in its name, and H100-MEGA is that of a3-megagpu.
    """
    apart = [row for row in rows if not row["InstanceType"] and row["AcceleratorName"]]
    said = {*(machine.gpu or "").upper().split("-"), *(["MEGA"] if "mega" in machine.instance_type else [])}
    names = (row["AcceleratorName"] for row in apart if said.issuperset(row["AcceleratorName"].upper().split("-")))
    name = max(names, key=lambda one: one.count("-"), default=None)
    found = [
        row for row in apart if row["AcceleratorName"] == name and _number(row["AcceleratorCount"]) == machine.gpus
    ]
    if not found:
        raise CliError(
            f"{path} has the price of {machine.instance_type} without its GPUs, and none of {machine.gpus} x "
            f"{machine.gpu or 'its GPU'} there"
        )
    return found


def _figures(path: Path, rows: Sequence[_Row], machine: Machine, *, name: str) -> list[Decimal]:
    column = "SpotPrice" if machine.is_spot else "Price"
    here = [row for row in rows if row["AvailabilityZone"] in machine.zones] or rows
    found = [price for row in here if (price := _number(row[column])) is not None and price > 0]
    if not found:
        raise CliError(f"{path} has no {column} of {name} in {machine.region}: write it by hand")
    return found


def _number(text: str) -> Decimal | None:
    try:
        found = Decimal(text)
    except InvalidOperation:
        return None
    return found if found.is_finite() else None


def _text(hour: Decimal) -> str:
    return f"{round(hour, _PLACES).normalize():f}"


@click.command("prices")
@click.argument("catalogue", type=options.PATH, metavar="DIR", help="a checkout of skypilot-org/skypilot-catalog")
@click.argument("machine", metavar="PROVIDER/TYPE", help="a folder of the catalogue and a machine: gcp/a2-highgpu-8g")
@click.option("--region", required=True, metavar="REGION", help="such as us-central1")
@click.option("--spot", is_flag=True, help="the price on spot")
@click.option("--gpus", metavar="COUNTxNAME", default="", help="such as 8xA100-40GB, where GPUs are listed apart (GCP)")
def prices(catalogue: Path, machine: str, region: str, spot: bool, gpus: str) -> None:
    """The price of a machine from SkyPilot's catalogue, as a GpuPool has it."""
    provider, slash, instance_type = machine.partition("/")
    count, _, gpu = gpus.partition("x")
    if not slash or (gpus and not (gpu and count.isdecimal() and len(count) < len("100"))):
        raise CliError("write PROVIDER/TYPE such as gcp/a2-highgpu-8g, and --gpus as 8xA100-40GB")
    found = priced(catalogue, Machine(provider, instance_type, region, (), spot, gpu or None, int(count or 0)))
    terminal.write(yaml.safe_dump({"price": found.price.to_wire()}, sort_keys=False).rstrip("\n"))
    longer = ", ".join(f"{_text(found.hour * hours)} a {name}" for name, hours in _PERIODS.items())
    terminal.tell(f"USD {_text(found.hour)} an hour: {longer} of {_PERIODS['month']} hours")
    if found.remark is not None:
        terminal.tell(found.remark)
