// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Pods of pretending nodes have no process: they are Running as soon as they are bound. For tests of scale.
const (
	pretendExit     = "gpubench.dev/pretend-exit"      // end after so many seconds; without it: never
	pretendExitCode = "gpubench.dev/pretend-exit-code" // 0 if it is not there
	pretendMessage  = "gpubench.dev/pretend-message"   // the termination message at that end
	pretendLog      = "gpubench.dev/pretend-log"       // all that it has said
)

// pretend brings one pod without a process one step further; all it knows is in the pod itself.
func (a *agent) pretend(ctx context.Context, node *node, pod *corev1.Pod) (time.Duration, error) {
	if isFinal(pod) {
		return 0, a.removeIfDeleted(ctx, pod)
	}
	started, again := time.Now(), time.Duration(0)
	if len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].State.Running != nil {
		started = pod.Status.ContainerStatuses[0].State.Running.StartedAt.Time
	}
	now := progress{nodeIP: node.address, podIP: podAddress(a.config.Seed, pod), state: running(started)}
	exit := Exit{StartedAt: started, FinishedAt: time.Now()}
	seconds, err := strconv.ParseFloat(pod.Annotations[pretendExit], 64)
	left := time.Until(started.Add(time.Duration(seconds * float64(time.Second))))
	switch {
	case pod.DeletionTimestamp != nil:
		exit.Code, exit.Reason = 143, "Error" // as a program ends that does not handle SIGTERM
		now.state = terminated(pod, exit, "")
	case err != nil: // no end asked for
	case left > 0:
		again = left
	default:
		exit.Code, _ = strconv.Atoi(pod.Annotations[pretendExitCode])
		exit.Reason = map[bool]string{true: "Completed", false: "Error"}[exit.Code == 0]
		now.state = terminated(pod, exit, pod.Annotations[pretendMessage])
	}
	reported, err := a.report(ctx, pod, now)
	if err != nil {
		return 0, err
	}
	return again, a.removeIfDeleted(ctx, reported)
}
