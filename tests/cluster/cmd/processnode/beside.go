// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// One container of a pod is a process: the one of this name, or else its first. All others are stand-ins, which have
// the statuses that a kubelet gives and no process. A variable of theirs says how they end: "never" but with their
// pod, "3@1.5" with code 3 after 1.5 seconds, "oom@1" killed for memory. Without it an init container has ended well
// at once, and a sidecar never ends.
const (
	processContainer = "gang"
	endVariable      = "STAND_IN_END"
	crashLoop        = "CrashLoopBackOff"
)

// beside is what a pod has besides its process.
type beside struct {
	inits, others []corev1.ContainerStatus
	again         time.Duration // when one of them ends; 0: none does by itself
	initializing  bool          // an init container has not ended, or a native sidecar has not come up
	failed        bool          // an init container has, and with it the pod
	open          bool          // a sidecar runs
	endedBadly    bool          // a sidecar has
}

func processOf(pod *corev1.Pod) *corev1.Container {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == processContainer {
			return &pod.Spec.Containers[i]
		}
	}
	return &pod.Spec.Containers[0]
}

// besideOf brings the stand-ins of a pod one step further, beside the process in this state.
func besideOf(pod *corev1.Pod, process corev1.ContainerState) beside {
	var now beside
	told, begun := pod.DeletionTimestamp != nil, process.Running != nil || process.Terminated != nil
	for i := range pod.Spec.Containers {
		container := &pod.Spec.Containers[i]
		if container.Name == processOf(pod).Name {
			continue
		}
		status := statusOf(pod.Status.ContainerStatuses, container)
		if begun {
			status = now.step(status, endOf(container, true), told)
			now.open = now.open || status.State.Terminated == nil
			now.endedBadly = now.endedBadly || status.State.Terminated != nil && status.State.Terminated.ExitCode != 0
		}
		now.others = append(now.others, withStarted(status))
	}
	for i := range pod.Spec.InitContainers {
		container := &pod.Spec.InitContainers[i]
		native := container.RestartPolicy != nil && *container.RestartPolicy == corev1.ContainerRestartPolicyAlways
		status := statusOf(pod.Status.InitContainerStatuses, container)
		if !now.initializing {
			status = now.step(status, endOf(container, native), told || native && process.Terminated != nil && !now.open)
		}
		ended := status.State.Terminated
		switch {
		case native && ended != nil && !begun && !told && !isFinal(pod):
			status.LastTerminationState, status.State = status.State, waiting(crashLoop, "back-off 10s restarting failed container")
			now.initializing = true
		case native:
			now.initializing = now.initializing || status.State.Running == nil && !begun
		case ended == nil:
			now.initializing = true
		case ended.ExitCode != 0:
			now.initializing, now.failed = true, true
			for earlier := range now.inits { // native sidecars end with their pod
				now.inits[earlier] = withStarted(now.step(now.inits[earlier], "never", true))
			}
		}
		now.inits = append(now.inits, withStarted(status))
	}
	return now
}

// step starts a stand-in that does not run yet, and ends it when its time has come or it is told to.
func (b *beside) step(status corev1.ContainerStatus, end string, told bool) corev1.ContainerStatus {
	if status.State.Waiting != nil && status.State.Waiting.Reason == crashLoop || status.State.Terminated != nil {
		return status
	}
	if status.State.Running == nil && told {
		return status
	}
	if status.State.Running == nil {
		status.State, status.ImageID = running(time.Now()), "process://"+status.Image
	}
	what, after, _ := strings.Cut(end, "@")
	seconds, _ := strconv.ParseFloat(after, 64)
	left := time.Until(status.State.Running.StartedAt.Add(time.Duration(seconds * float64(time.Second))))
	exit := corev1.ContainerStateTerminated{Reason: "Error", Message: "told to end with " + end, StartedAt: status.State.Running.StartedAt}
	switch {
	case told:
		exit.ExitCode, exit.Message = 143, ""
	case what == "never":
		return status
	case left > 0:
		if b.again == 0 || left < b.again {
			b.again = left
		}
		return status
	case what == "oom":
		exit.ExitCode, exit.Reason = 137, "OOMKilled"
	default:
		code, _ := strconv.Atoi(what)
		exit.ExitCode = int32(code)
	}
	if exit.ExitCode == 0 {
		exit.Reason, exit.Message = "Completed", ""
	}
	exit.FinishedAt = metav1.Now()
	status.State = corev1.ContainerState{Terminated: &exit}
	return status
}

func endOf(container *corev1.Container, isSidecar bool) string {
	for _, variable := range container.Env {
		if variable.Name == endVariable {
			return variable.Value
		}
	}
	return map[bool]string{true: "never", false: "0@0"}[isSidecar]
}

// statusOf is the status that a container has so far.
func statusOf(statuses []corev1.ContainerStatus, container *corev1.Container) corev1.ContainerStatus {
	for _, status := range statuses {
		if status.Name == container.Name {
			return status
		}
	}
	return corev1.ContainerStatus{Name: container.Name, Image: container.Image, State: waiting("PodInitializing", "")}
}

func withStarted(status corev1.ContainerStatus) corev1.ContainerStatus {
	isRunning := status.State.Running != nil
	status.Started = &isRunning
	status.Ready = isRunning || status.State.Terminated != nil && status.State.Terminated.ExitCode == 0
	return status
}
