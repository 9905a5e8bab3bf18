# SPDX-License-Identifier: Apache-2.0
"""What a GPU would run of a training step, by TensorFlow's own optimizer; `make bench-graph` shows every network."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gpubench.workloads import Precision
from gpubench_jobs import models

TESTS = Path(__file__).parents[1]
#: With gamma, without gamma, and without batch normalisation.
NETWORKS = ("resnet50", "inception3", "alexnet")
PRECISIONS = (Precision.FLOAT32, Precision.MIXED_FLOAT16)
LAYERS = {"resnet50": 53, "inception3": 94, "alexnet": 0}

each_network = pytest.mark.parametrize("network", NETWORKS)
each_precision = pytest.mark.parametrize("precision", PRECISIONS)


@cache
def rows() -> dict[tuple[str, str], dict[str, Any]]:
    """A process of its own: it calls `hvd.init()`."""
    command = [sys.executable, str(TESTS / "benchmarks" / "graph.py"), *NETWORKS, "--precision", *PRECISIONS, "--json"]
    ended = subprocess.run(
        command, stdout=subprocess.PIPE, check=False, env={**os.environ, "PYTHONPATH": str(TESTS / "support")}
    )
    found = json.loads(ended.stdout.splitlines()[-1])
    assert ended.returncode == 0, found
    return {(row["workload"], row["precision"]): row for row in found}


@each_network
@each_precision
def test_every_layer_of_batch_normalisation_is_one_fused_kernel(network: str, precision: str) -> None:
    row = rows()[network, precision]
    assert row["normalizations"] == LAYERS[network]
    assert row["fused"] == LAYERS[network]


@each_network
@each_precision
def test_images_are_transposed_at_the_borders_of_a_network_only(network: str, precision: str) -> None:
    assert max(rows()[network, precision]["transposed"].values()) <= 8


@each_network
@each_precision
def test_every_gradient_is_reduced_when_it_is_there(network: str, precision: str) -> None:
    gradients = len(models.build(network).trainable)
    assert rows()[network, precision]["all_reduces"] == {"HorovodAllreduce": gradients}


@pytest.mark.parametrize(("network", "share"), [("resnet50", 0.3), ("inception3", 0.5)])
def test_mixed_float16_moves_far_less_than_with_the_layer_of_keras(network: str, share: float) -> None:
    row = rows()[network, Precision.MIXED_FLOAT16]
    assert row["megabytes"] < share * row["megabytes_of_keras"]
    assert row["megabytes"] < rows()[network, Precision.FLOAT32]["megabytes"]
