# SPDX-License-Identifier: Apache-2.0
"""What NCCL says of the ways that it has chosen between GPUs: by which network, and by which kinds of links.

Nobody else tells: with a plugin that did not load, or a device that is not in the pod, NCCL goes over TCP and says so
in its log only. It writes that log where it is told to
(https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html).

Not run here: the lines that are read are those of published logs (`tests/jobs/test_nccl.py`). A log of another form, or
none, tells nothing; it must never end a run.
"""

import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path

from gpubench import records

ENV_FILE = "NCCL_DEBUG_FILE"
_NETWORK = re.compile(r"NCCL INFO Using network (\S.*?)\s*$", re.MULTILINE)
#: `Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/2(3)/GDRDMA comm 0x12 nRanks 16`; old versions write Ring for Channel.
_LINK = re.compile(
    r"NCCL INFO (?:Channel|Ring) \S+ : \S+ -> \S+ (?:\[\w+\] )?via (\S.*?)(?: comm 0x\S+.*)?\s*$", re.MULTILINE
)
_NUMBER = re.compile(r"\d+(\(\d+\))?")  # which adapter
_NET, _DIRECT = "NET", "GDRDMA"  # GPUDirect: the adapter reads the GPU's memory by itself
_OLD_SHARED_MEMORY = "direct shared memory"
_LOG_MAX = 16 * 2**20
NETWORK_MAX = 19  # with "nccl " before it, what a status shows of a fact


def log_of(rank: int) -> Path:
    """A file for a rank of this launcher's, in the pod's own scratch folder."""
    return Path(tempfile.gettempdir()) / f"gpubench-nccl-{os.getpid()}-{rank}.log"


def variables(log: Path) -> dict[str, str]:
    """What NCCL must find to say it, in a file of its own: each rank's log has some hundred lines at its beginning."""
    return {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT", ENV_FILE: str(log)}


def said(log: str | None) -> str:
    """What this rank's NCCL has written so far; nothing where it was sent elsewhere."""
    try:
        if log is None or not Path(log).is_file():
            return ""
        with Path(log).open("rb") as file:
            return file.read(_LOG_MAX).decode(errors="replace")
    except OSError:
        return ""


def network(text: str) -> str | None:
    """The network that was chosen for other nodes, by the name that NCCL or its plugin has for it.

    `AWS Libfabric` is EFA, `gIB`, `FasTrak` and `GPUDirectTCPX` are Google's, `IB` is InfiniBand or RoCE, `Socket` TCP.
    """
    found = _NETWORK.findall(text)
    return found[-1][:NETWORK_MAX] if found else None


def links(text: str) -> frozenset[str]:
    """Kinds of links in use: `P2P/CUMEM`, `SHM/direct`, `NET/AWS Libfabric/GDRDMA`. Which adapter is left out."""
    return frozenset(map(_kind, _LINK.findall(text)))


def united(found: Iterable[Iterable[str]]) -> str | None:
    """The links of all ranks in words, sorted; None where there are none."""
    listed = records.LINKS_BETWEEN.join(sorted({link for links_of_rank in found for link in links_of_rank}))
    return listed[: records.LINKS_MAX] or None


def transport(networks: Iterable[str]) -> str:
    """What the environment calls the all-reduce, from the networks of all ranks: the same on all, so that keys are."""
    return f"nccl {'+'.join(sorted(set(filter(None, networks))))}".strip()


def _kind(way: str) -> str:
    if way == _OLD_SHARED_MEMORY:
        return "SHM/direct"
    kind, *rest = way.split("/")
    named = [part for part in rest if not _NUMBER.fullmatch(part)]
    if kind == _NET:
        return "/".join([kind, *named[:1], *([_DIRECT] if _DIRECT in named else [])])
    return "/".join([kind, *named[:1]])
