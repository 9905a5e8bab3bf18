// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Pod statuses as pure functions. Only what a kubelet owns is ever named here: conditions of others
// (PodScheduled, DisruptionTarget) survive because the patch merges conditions by type.

// progress is what the node knows of a pod.
type progress struct {
	state     corev1.ContainerState
	nodeIP    string
	podIP     string
	rejected  string // a sentence: this node will never run this pod
	neverSeen bool   // the pod is deleted before its container ever started
	beside    beside
}

func waiting(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func running(startedAt time.Time) corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(startedAt)}}
}

func terminated(pod *corev1.Pod, exit Exit, message string) corev1.ContainerState {
	if exit.Message != "" {
		message = exit.Message
	}
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: int32(exit.Code), Reason: exit.Reason, Message: message,
		StartedAt: metav1.NewTime(exit.StartedAt), FinishedAt: metav1.NewTime(exit.FinishedAt),
		ContainerID: containerID(pod),
	}}
}

func containerID(pod *corev1.Pod) string { return "process://" + string(pod.UID) }

// statusFor is the status that the pod should have now.
func statusFor(pod *corev1.Pod, now progress) corev1.PodStatus {
	phase := phaseOf(pod, now)
	status := corev1.PodStatus{
		ObservedGeneration: pod.Generation,
		Phase:              phase,
		HostIP:             now.nodeIP,
		HostIPs:            []corev1.HostIP{{IP: now.nodeIP}},
		StartTime:          pod.Status.StartTime,
	}
	if status.StartTime == nil {
		status.StartTime = startTime(now.state)
	}
	if now.rejected != "" {
		status.Reason, status.Message = "UnsupportedByProcessNode", now.rejected
		return status
	}
	if now.podIP != "" {
		status.PodIP, status.PodIPs = now.podIP, []corev1.PodIP{{IP: now.podIP}}
	}
	status.InitContainerStatuses = now.beside.inits
	status.ContainerStatuses = containerStatuses(pod, now)
	status.Conditions = conditions(pod, phase, now)
	return status
}

// startTime is when the node took the pod on, which is not later than its container's start.
func startTime(state corev1.ContainerState) *metav1.Time {
	switch {
	case state.Running != nil:
		return state.Running.StartedAt.DeepCopy()
	case state.Terminated != nil && !state.Terminated.StartedAt.IsZero():
		return state.Terminated.StartedAt.DeepCopy()
	}
	return &metav1.Time{Time: time.Now()}
}

func phaseOf(pod *corev1.Pod, now progress) corev1.PodPhase {
	if phase := pod.Status.Phase; phase == corev1.PodSucceeded || phase == corev1.PodFailed {
		return phase // final, whoever set it
	}
	switch {
	case now.rejected != "" || now.neverSeen || now.beside.failed:
		return corev1.PodFailed
	case now.state.Running != nil || now.state.Terminated != nil && now.beside.open:
		return corev1.PodRunning
	case now.state.Terminated == nil:
		return corev1.PodPending
	case now.state.Terminated.ExitCode == 0 && !now.beside.endedBadly:
		return corev1.PodSucceeded
	}
	return corev1.PodFailed
}

func containerStatuses(pod *corev1.Pod, now progress) []corev1.ContainerStatus {
	state, isRunning := now.state, now.state.Running != nil
	statuses := make([]corev1.ContainerStatus, 0, len(pod.Spec.Containers))
	for i := range pod.Spec.Containers {
		container := &pod.Spec.Containers[i]
		if len(now.beside.others) > 0 && container.Name != processOf(pod).Name {
			statuses = append(statuses, statusOf(now.beside.others, container))
			continue
		}
		status := corev1.ContainerStatus{
			Name: container.Name, Image: container.Image, State: state, Ready: isRunning, Started: &isRunning,
		}
		if state.Waiting == nil {
			status.ImageID, status.ContainerID = "process://"+container.Image, containerID(pod)
		}
		statuses = append(statuses, status)
	}
	return statuses
}

func conditions(pod *corev1.Pod, phase corev1.PodPhase, now progress) []corev1.PodCondition {
	ready, reason := corev1.ConditionFalse, "ContainersNotReady"
	isInitialized, initialized := corev1.ConditionTrue, ""
	if now.beside.initializing {
		isInitialized, initialized = corev1.ConditionFalse, "ContainersNotInitialized"
	}
	switch phase {
	case corev1.PodRunning:
		if now.state.Running != nil {
			ready, reason = corev1.ConditionTrue, ""
		}
	case corev1.PodSucceeded:
		reason, initialized = "PodCompleted", "PodCompleted"
	case corev1.PodFailed:
		reason = "PodFailed"
	}
	return []corev1.PodCondition{
		condition(pod, corev1.PodInitialized, isInitialized, initialized),
		condition(pod, corev1.ContainersReady, ready, reason),
		condition(pod, corev1.PodReady, ready, reason),
	}
}

// condition keeps the time of the last transition unless there is one.
func condition(pod *corev1.Pod, kind corev1.PodConditionType, status corev1.ConditionStatus, reason string) corev1.PodCondition {
	changed := metav1.NewTime(time.Now().Truncate(time.Second))
	for _, old := range pod.Status.Conditions {
		if old.Type == kind && old.Status == status {
			changed = old.LastTransitionTime
		}
	}
	return corev1.PodCondition{
		Type: kind, Status: status, Reason: reason, LastTransitionTime: changed, ObservedGeneration: pod.Generation,
	}
}

// statusPatch is a strategic merge patch, or nil if the pod already looks like that. The uid in it makes the
// API server refuse the patch if another pod has taken the name.
func statusPatch(pod *corev1.Pod, wanted corev1.PodStatus) ([]byte, error) {
	merged := merge(pod.Status, wanted)
	if equality.Semantic.DeepEqual(roundTimes(merged), roundTimes(pod.Status)) {
		return nil, nil
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": wanted})
}

// merge is what the patch will make of the present status, as far as it matters for "nothing to do".
func merge(present, wanted corev1.PodStatus) corev1.PodStatus {
	merged := *present.DeepCopy()
	merged.ObservedGeneration, merged.Phase = wanted.ObservedGeneration, wanted.Phase
	merged.HostIP, merged.HostIPs, merged.StartTime = wanted.HostIP, wanted.HostIPs, wanted.StartTime
	if wanted.PodIP != "" {
		merged.PodIP, merged.PodIPs = wanted.PodIP, wanted.PodIPs
	}
	if wanted.Reason != "" {
		merged.Reason, merged.Message = wanted.Reason, wanted.Message
	}
	if wanted.InitContainerStatuses != nil {
		merged.InitContainerStatuses = wanted.InitContainerStatuses
	}
	if wanted.ContainerStatuses != nil {
		merged.ContainerStatuses = wanted.ContainerStatuses
	}
	for _, own := range wanted.Conditions {
		merged.Conditions = replaceCondition(merged.Conditions, own)
	}
	return merged
}

func replaceCondition(all []corev1.PodCondition, own corev1.PodCondition) []corev1.PodCondition {
	for i := range all {
		if all[i].Type == own.Type {
			all[i] = own
			return all
		}
	}
	return append(all, own)
}

// roundTimes drops what the API does not store, fractions of seconds, so that statuses compare equal.
func roundTimes(status corev1.PodStatus) corev1.PodStatus {
	var rounded corev1.PodStatus
	content, err := json.Marshal(status)
	if err == nil {
		err = json.Unmarshal(content, &rounded)
	}
	if err != nil {
		return status // cannot happen to a type of the API; comparing unrounded only costs a patch
	}
	return rounded
}
