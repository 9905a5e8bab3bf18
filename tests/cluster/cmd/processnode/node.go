// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"path/filepath"
	"runtime"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
)

const (
	leaseDuration = 40 // seconds
	retryRegister = 200 * time.Millisecond
)

// node is one Node object and what stands behind it.
type node struct {
	config  NodeConfig
	dir     string
	address string
	beats   time.Duration // between two signs of life
	logPort int32         // where kubectl logs is served
	cores   *corePool
}

func newNode(config Config, own NodeConfig) *node {
	return &node{
		config: own, dir: filepath.Join(config.StateDir, own.Name),
		address: nodeAddress(config.Seed, own.Name), cores: newCorePool(own.Cores),
		beats: time.Duration(config.HeartbeatSeconds * float64(time.Second)),
	}
}

func (n *node) container(uid types.UID) container {
	return container{dir: filepath.Join(n.dir, string(uid))}
}

// keepAlive registers the node and then tells the control plane every few seconds that it lives. Like a
// kubelet it does not come back by itself when somebody deletes the Node; a restart registers it again.
func (n *node) keepAlive(ctx context.Context, client kubernetes.Interface) {
	for !n.register(ctx, client) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryRegister):
		}
	}
	ticker := time.NewTicker(n.beats)
	defer ticker.Stop()
	for {
		if err := n.beat(ctx, client); err != nil && ctx.Err() == nil {
			klog.Warningf("node %s: heartbeat: %v", n.config.Name, err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (n *node) register(ctx context.Context, client kubernetes.Interface) bool {
	labels := map[string]string{
		corev1.LabelHostname: n.config.Name, corev1.LabelOSStable: runtime.GOOS, corev1.LabelArchStable: runtime.GOARCH,
	}
	for key, value := range n.config.Labels {
		labels[key] = value
	}
	_, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.config.Name, Labels: labels},
		Spec:       corev1.NodeSpec{Taints: n.config.Taints},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		klog.Warningf("node %s: registering: %v", n.config.Name, err)
		return false
	}
	return true
}

func (n *node) beat(ctx context.Context, client kubernetes.Interface) error {
	// From the API server's cache, as the kubelet reads it: only the times of transitions are taken from it.
	present, err := client.CoreV1().Nodes().Get(ctx, n.config.Name, metav1.GetOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"status": n.status(present.Status.Conditions)})
	if err != nil {
		return err
	}
	if _, err := client.CoreV1().Nodes().PatchStatus(ctx, n.config.Name, patch); err != nil {
		return err
	}
	return n.renewLease(ctx, client)
}

func (n *node) status(present []corev1.NodeCondition) corev1.NodeStatus {
	now := metav1.Now()
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason string) corev1.NodeCondition {
		changed := now
		for _, old := range present {
			if old.Type == kind && old.Status == status {
				changed = old.LastTransitionTime
			}
		}
		return corev1.NodeCondition{
			Type: kind, Status: status, Reason: reason, LastHeartbeatTime: now, LastTransitionTime: changed,
		}
	}
	return corev1.NodeStatus{
		Capacity: n.config.Capacity, Allocatable: n.config.Capacity,
		Conditions: []corev1.NodeCondition{
			condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady"),
			condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory"),
			condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure"),
			condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID"),
		},
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: n.address}, {Type: corev1.NodeHostName, Address: n.config.Name},
		},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: n.logPort}},
		NodeInfo: corev1.NodeSystemInfo{
			OperatingSystem: runtime.GOOS, Architecture: runtime.GOARCH, OSImage: "process node (a test double)",
			KubeletVersion: "v0.0.0-processnode", ContainerRuntimeVersion: "process://0",
		},
	}
}

func (n *node) renewLease(ctx context.Context, client kubernetes.Interface) error {
	leases := client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	now, seconds := metav1.NowMicro(), int32(leaseDuration)
	spec := coordinationv1.LeaseSpec{HolderIdentity: &n.config.Name, LeaseDurationSeconds: &seconds, RenewTime: &now}
	patch, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return err
	}
	_, err = leases.Patch(ctx, n.config.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: n.config.Name}, Spec: spec}
		_, err = leases.Create(ctx, lease, metav1.CreateOptions{})
	}
	return err
}
