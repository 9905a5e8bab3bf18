# SPDX-License-Identifier: Apache-2.0
"""What is read from NCCL's log of the links that it uses. The excerpts are from published logs; no GPU is here."""

from pathlib import Path

import pytest

from gangs import make_assignment
from gpubench import records
from gpubench.api import status_sizes
from gpubench_jobs.engines import launch

#: Two p4d.24xlarge: https://github.com/aws-samples/aws-efa-eks, README.md; without the marks that mpirun puts before.
EFA = """\
nccl-tests-efa-worker-0:26:67 [0] NCCL INFO Channel 00 : 8[101c0] -> 0[101c0] [receive] via NET/AWS Libfabric/0/GDRDMA
nccl-tests-efa-worker-0:35:68 [7] NCCL INFO Channel 01 : 7[a01d0] -> 0[101c0] via P2P/IPC/read
nccl-tests-efa-worker-1:27:65 [2] NCCL INFO Connected all trees
nccl-tests-efa-worker-0:26:67 [0] NCCL INFO Channel 00 : 0[101c0] -> 8[101c0] [send] via NET/AWS Libfabric/0/GDRDMA
nccl-tests-efa-worker-1:27:65 [2] NCCL INFO comm 0x7f8cf8000dc0 rank 10 nranks 16 cudaDev 2 busId 201c0 - Init COMPLETE
"""
#: Two machines with one GPU each under ParallelCluster; EFA without GPUDirect. Published on GitHub, found by its words.
EFA_WITHOUT_GPUDIRECT = """\
compute-gpu-st-distributed-ml-1:7614:7691 [0] NCCL INFO NET/OFI Selected Provider is efa (found 1 nics)
compute-gpu-st-distributed-ml-1:7614:7691 [0] NCCL INFO Using network AWS Libfabric
compute-gpu-st-distributed-ml-1:7614:7691 [0] NCCL INFO DMA-BUF is available on GPU device 0
compute-gpu-st-distributed-ml-1:7614:7694 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/AWS Libfabric/0
"""
#: An old NCCL writes Ring: a test of EFA on EKS. Published on GitHub, found by its words.
RING = """\
ip-192-168-2-54:14:20 [0] NCCL INFO Ring 01 : 0[160] -> 1[160] [send] via NET/AWS Libfabric/0
"""
#: Two nodes with H20: https://github.com/NVIDIA/nccl/issues/1189.
INFINIBAND = """\
H20-GPU-06:4015539:4015652 [0] NCCL INFO Channel 07/0 : 0[0] -> 2[0] [receive] via NET/IB/3/GDRDMA
H20-GPU-06:4015540:4015653 [1] NCCL INFO Channel 00/0 : 3[1] -> 2[0] via P2P/CUMEM
"""
#: https://github.com/NVIDIA/nccl/issues/1412.
WITHOUT_GPUDIRECT = """\
swat1-04:2017630:2017697 [7] NCCL INFO Channel 00/0 : 7[7] -> 6[6] via P2P/direct pointer/read
swat1-04:2017630:2017699 [5] NCCL INFO Channel 03/0 : 5[5] -> 12[4] [send] via NET/IB/3
"""
#: A3 Ultra on GKE, a benchmark under Ray. Published on GitHub, found by its words.
GOOGLE = """\
ray-cluster-ccc-gpu-group-worker-4wkhd:2050:3084 [0] NCCL INFO Channel 03/0 : 2[2] -> 11[3] [send] via NET/gIB/3/GDRDMA
"""
#: TCP, of three logs; the last two lines show what some versions write behind the link. Found by their words.
TCP = """\
3767c65d25c4:880:887 [0] NCCL INFO Using network Socket
corona:927:927 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0 comm 0x2083dd50 nRanks 02
VM-16-64-ubuntu:28471:28471 [0] NCCL INFO Channel 01/1 : 0[0] -> 1[1] [send] via NET/Socket/0/Shared
"""
#: One node, through the processor's memory, as NCCL writes it now and as it did. Found by their words.
SHARED_MEMORY = """\
NCCL INFO Channel 00 : 0[3000] -> 1[44000] via SHM/direct/direct
tesla-105:1477:2150 [1] NCCL INFO Channel 00 : 1[1a000] -> 2[af000] via direct shared memory
"""


@pytest.mark.parametrize(
    ("log", "network", "links"),
    [
        (EFA, None, {"NET/AWS Libfabric/GDRDMA", "P2P/IPC"}),
        (EFA_WITHOUT_GPUDIRECT, "AWS Libfabric", {"NET/AWS Libfabric"}),
        (RING, None, {"NET/AWS Libfabric"}),
        (INFINIBAND, None, {"NET/IB/GDRDMA", "P2P/CUMEM"}),
        (WITHOUT_GPUDIRECT, None, {"NET/IB", "P2P/direct pointer"}),
        (GOOGLE, None, {"NET/gIB/GDRDMA"}),
        (TCP, "Socket", {"NET/Socket"}),
        (SHARED_MEMORY, None, {"SHM/direct"}),
        ("a log of another form\n", None, set()),
        ("", None, set()),
    ],
)
def test_network_and_links_are_those_of_published_logs(log: str, network: str | None, links: set[str]) -> None:
    assert launch.network(log) == network
    assert launch.links(log) == links


def test_the_transport_is_the_same_whichever_rank_names_it_and_fits_a_status() -> None:
    assert launch.transport_name(["AWS Libfabric", "AWS Libfabric"]) == "nccl AWS Libfabric"
    assert launch.transport_name(["Socket", "IB"]) == launch.transport_name(["IB", "Socket"]) == "nccl IB+Socket"
    assert launch.transport_name(["", ""]) == "nccl"
    longest = launch.network("node:1:2 [0] NCCL INFO Using network " + "x" * 99)
    assert len(launch.transport_name([longest or ""])) == status_sizes.FACT_MAX


def test_links_of_all_ranks_are_united_and_bounded() -> None:
    assert launch.joined_links([("P2P/CUMEM",), ("NET/IB", "P2P/CUMEM")]) == "NET/IB, P2P/CUMEM"
    assert launch.joined_links([(), ()]) is None
    many = launch.joined_links([tuple(f"NET/{number:030}" for number in range(9))])
    assert many is not None
    assert len(many) == records.LINKS_MAX


def test_a_rank_with_a_gpu_has_variables_for_it_unless_the_pods_say_otherwise() -> None:
    def found(*, gpu: bool = True, **inherited: str) -> dict[str, str]:
        return launch.worker_environment(
            make_assignment(gpu=gpu), 0, inherited=inherited, rendezvous_address="10.0.0.1", interface="eth0"
        )

    assert found()["NCCL_DEBUG"] == "INFO"
    assert found()["NCCL_DEBUG_FILE"].endswith("-0.log")
    assert found(NCCL_DEBUG_FILE="/dev/stderr")["NCCL_DEBUG_FILE"] == "/dev/stderr"
    assert found()["TF_GPU_THREAD_MODE"] == "gpu_private"
    assert found(TF_GPU_THREAD_MODE="global")["TF_GPU_THREAD_MODE"] == "global"
    assert not any(name.startswith(("NCCL_DEBUG", "TF_GPU")) for name in found(gpu=False))


def test_a_log_that_is_not_there_or_is_no_file_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(EFA_WITHOUT_GPUDIRECT.encode() + b"\xff\n")
    assert launch.network(launch.read_nccl_log(str(tmp_path / "log"))) == "AWS Libfabric"
    assert [launch.read_nccl_log(place) for place in (None, str(tmp_path / "none"), str(tmp_path), "/dev/null")] == [
        ""
    ] * 4
