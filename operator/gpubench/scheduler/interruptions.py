# SPDX-License-Identifier: Apache-2.0
"""Who took a node or a pod away: the provider, somebody of the cluster, or nobody said a word.

A reclaim is what spot is cheap for; an eviction is the cluster's own doing and would hit nodes on demand as well; a
node that is lost gave no notice. They are counted apart, because only the first is an argument about capacity types.

Kinds come from what was seen: the reason of DisruptionTarget
(https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions), and taints that whoever is
about to take a node away puts on it. Must not happen: a kind that was guessed. Where nothing tells it, there is none.
"""

from collections.abc import Mapping

from gpubench.scheduler.ledger import Interruption
from gpubench.scheduler.observed import Disruption, ObservedNode

#: Taints of nodes that are about to go, and who puts them there. A key alone says it: the values are times and names.
LEAVING: Mapping[str, Interruption] = {
    # https://github.com/aws/aws-node-termination-handler
    "aws-node-termination-handler/spot-itn": Interruption.RECLAIM,
    "aws-node-termination-handler/rebalance-recommendation": Interruption.RECLAIM,
    "aws-node-termination-handler/scheduled-maintenance": Interruption.RECLAIM,
    "aws-node-termination-handler/asg-lifecycle-termination": Interruption.RECLAIM,
    # GKE, ahead of a preemption or of maintenance
    "cloud.google.com/impending-node-termination": Interruption.RECLAIM,
    # the cloud controller: the machine has been shut down
    "node.cloudprovider.kubernetes.io/shutdown": Interruption.RECLAIM,
    # https://github.com/kubernetes/autoscaler: the node is drained and deleted
    "ToBeDeletedByClusterAutoscaler": Interruption.EVICTION,
    # https://karpenter.sh: since 1.0, and before. It drains for a reclaim as for anything else, and does not say which.
    "karpenter.sh/disrupted": Interruption.EVICTION,
    "karpenter.sh/disruption": Interruption.EVICTION,
    # cordoned: `kubectl drain` begins with it
    "node.kubernetes.io/unschedulable": Interruption.EVICTION,
}

_BY_REASON = {
    "EvictionByEvictionAPI": Interruption.EVICTION,  # a drain, an autoscaler, somebody's request
    "PreemptionByScheduler": Interruption.EVICTION,  # room for a pod of a higher priority
    "DeletionByPodGC": Interruption.NODE_LOST,  # the pod's node does not exist any more
}
_TAINT_MANAGER = "DeletionByTaintManager"
_KUBELET = "TerminationByKubelet"
_SHUTDOWN = "node shutdown"  # in the kubelet's message; else it evicts for memory, disk, or a pod of the system


def leaving(node: ObservedNode) -> str | None:
    """The taint that says that a node is about to go; the one of a reclaim where there are several."""
    found = [taint for taint in node.taints if taint in LEAVING]
    return min(found, key=lambda taint: (LEAVING[taint] is not Interruption.RECLAIM, taint), default=None)


def of_node(node: ObservedNode) -> Interruption:
    """What became of a node that is gone, silent or about to go."""
    taint = leaving(node)
    return Interruption.NODE_LOST if taint is None else LEAVING[taint]


def of_disruption(disruption: Disruption, node: ObservedNode | None) -> Interruption | None:
    """What a DisruptionTarget is, with what is known of its pod's node; None where that does not tell it.

    A node that is being reclaimed is drained first: its taint says more than the eviction.
    """
    taint = None if node is None else leaving(node)
    if taint is not None and LEAVING[taint] is Interruption.RECLAIM:
        return Interruption.RECLAIM
    if disruption.reason == _KUBELET:
        return Interruption.RECLAIM if _SHUTDOWN in disruption.message.lower() else Interruption.EVICTION
    if disruption.reason != _TAINT_MANAGER:
        return _BY_REASON.get(disruption.reason) if taint is None else LEAVING[taint]
    if node is None or (node.ready is None and node.gone_since is None):
        return None
    return Interruption.EVICTION if node.ready else Interruption.NODE_LOST
