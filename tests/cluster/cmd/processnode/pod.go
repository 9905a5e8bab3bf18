// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pullBackOff is after how long ErrImagePull turns into ImagePullBackOff.
const pullBackOff = 2 * time.Second

// runPod brings one pod with a process one step further.
func (a *agent) runPod(ctx context.Context, node *node, pod *corev1.Pod) (time.Duration, error) {
	here := node.container(pod.UID)
	seen, err := here.observe()
	if err != nil {
		return 0, err
	}
	now := progress{nodeIP: node.address, podIP: podAddress(a.config.Seed, pod)}
	again := time.Duration(0)
	switch {
	case seen.exit != nil:
		node.cores.release(pod.UID)
		fallback := processOf(pod).TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError
		now.state = terminated(pod, *seen.exit, here.terminationMessage(fallback && seen.exit.Code != 0))
	case seen.running:
		now.state = running(seen.started)
		a.await(here, pod)
		again, err = a.terminate(here, pod)
	case isFinal(pod):
		return 0, a.removeIfDeleted(ctx, pod) // somebody else ended it before it started here
	case unsupported(pod) != "":
		now.rejected = unsupported(pod)
	case pod.DeletionTimestamp != nil:
		now.neverSeen, now.podIP, now.state = true, "", waiting("ContainerCreating", "")
	default:
		now.beside = besideOf(pod, now.state)
		if len(now.beside.inits) > 0 {
			now.state = waiting("PodInitializing", "")
			pod, err = a.report(ctx, pod, now)
		}
		if err == nil && !now.beside.initializing {
			return a.startPod(ctx, node, pod, here, now)
		}
	}
	if err != nil {
		return 0, err
	}
	now.beside = besideOf(pod, now.state)
	if again == 0 || 0 < now.beside.again && now.beside.again < again {
		again = now.beside.again
	}
	reported, err := a.report(ctx, pod, now)
	if err != nil || !isFinal(reported) {
		return again, err
	}
	return 0, a.removeIfDeleted(ctx, reported)
}

// startPod starts the process, or says why the container has to wait.
func (a *agent) startPod(ctx context.Context, node *node, pod *corev1.Pod, here container, now progress) (time.Duration, error) {
	image, known := a.config.Images[processOf(pod).Image]
	if !known {
		return a.waitForImage(ctx, pod, now)
	}
	launch, err := a.prepare(ctx, node, pod, here, image)
	if err != nil {
		a.event(pod, corev1.EventTypeWarning, "Failed", "Error: "+err.Error())
		now.state, now.podIP = waiting("CreateContainerConfigError", err.Error()), ""
		_, err = a.report(ctx, pod, now)
		return 5 * time.Second, err // what it needs may appear, as a claim does
	}
	if err := here.start(launch); err != nil {
		return 0, fmt.Errorf("starting: %w", err)
	}
	a.event(pod, corev1.EventTypeNormal, "Started", "Started container "+processOf(pod).Name)
	return time.Nanosecond, nil // at once: the next look sees what became of it
}

// waitForImage shows an image without an entry in the table as a kubelet shows one that no registry has.
func (a *agent) waitForImage(ctx context.Context, pod *corev1.Pod, now progress) (time.Duration, error) {
	image := processOf(pod).Image
	cause := fmt.Sprintf("failed to pull and unpack image %q: failed to resolve reference %q: %s: not found", image, image, image)
	a.mutex.Lock()
	first, tried := a.pulls[pod.UID]
	if !tried {
		first = time.Now()
		a.pulls[pod.UID] = first
	}
	a.mutex.Unlock()
	again := max(0, pullBackOff-time.Since(first))
	now.podIP = ""
	if again > 0 {
		now.state = waiting("ErrImagePull", cause)
	} else {
		now.state = waiting("ImagePullBackOff", fmt.Sprintf("Back-off pulling image %q: ErrImagePull: %s", image, cause))
	}
	reported, err := a.report(ctx, pod, now)
	if err == nil && reported != pod {
		a.event(pod, corev1.EventTypeWarning, "Failed", "Failed to pull image \""+image+"\": "+cause)
	}
	return again, err
}

// prepare computes all that the shim needs. Doing it twice gives the same.
func (a *agent) prepare(ctx context.Context, node *node, pod *corev1.Pod, here container, image Image) (Launch, error) {
	container := processOf(pod)
	paths, err := mountVolumes(ctx, a.client, pod, container, here.dir)
	if err != nil {
		return Launch{}, err
	}
	env, argv, err := environment(pod, container, surroundings{
		seed: a.config.Seed, nodeIP: node.address, podIP: podAddress(a.config.Seed, pod),
		podDir: here.dir, image: image, paths: paths, capacity: node.config.Capacity,
		secret: func(name string) (map[string][]byte, error) {
			found, err := a.client.CoreV1().Secrets(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return nil, err // such as: secrets "x" not found
			}
			return found.Data, nil
		},
	})
	if err != nil {
		return Launch{}, err
	}
	if len(argv) == 0 {
		return Launch{}, fmt.Errorf("container %q has no command, and its image no entrypoint in the table", container.Name)
	}
	argv[0] = lookUp(argv[0], image.Path)
	cores, exclusive := node.cores.assign(pod.UID, wholeCores(container))
	return Launch{
		Namespace: pod.Namespace, Name: pod.Name, Argv: argv, Env: env,
		Dir: filepath.Join(here.dir, "home"), Cores: cores, Exclusive: exclusive,
	}, nil
}

// lookUp finds a program in the image's path and nowhere else. What is not there stays as it is, under a
// directory that cannot exist, so that the start fails as it would in a container.
func lookUp(program string, path []string) string {
	if !strings.Contains(program, "/") {
		for _, dir := range path {
			file := filepath.Join(dir, program)
			if stat, err := os.Stat(file); err == nil && !stat.IsDir() && stat.Mode()&0o111 != 0 {
				return file
			}
		}
	}
	return filepath.Join("/nonexistent/not-in-the-image", program)
}

// terminate sends SIGTERM to a deleted pod once, and SIGKILL when its grace period is over.
func (a *agent) terminate(here container, pod *corev1.Pod) (time.Duration, error) {
	if isFinal(pod) {
		return 0, here.signal(forceKill) // ended by decree, for instance by the garbage collector
	}
	if pod.DeletionTimestamp == nil {
		return 0, nil
	}
	a.mutex.Lock()
	since, sent := a.terminating[pod.UID]
	if !sent {
		since = time.Now()
		a.terminating[pod.UID] = since
	}
	a.mutex.Unlock()
	grace := time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
	left := grace - time.Since(since)
	if left <= 0 {
		return 0, here.signal(forceKill)
	}
	if sent {
		return left, nil
	}
	a.event(pod, corev1.EventTypeNormal, "Killing", "Stopping container "+processOf(pod).Name)
	return left, here.signal(syscall.SIGTERM)
}

// await wakes the pod's key when its processes are gone.
func (a *agent) await(here container, pod *corev1.Pod) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.awaited[pod.UID] {
		return
	}
	a.awaited[pod.UID] = true
	key := keyOf(pod)
	go func() {
		here.wait()
		a.queue.Add(key)
	}()
}

func (a *agent) removeIfDeleted(ctx context.Context, pod *corev1.Pod) error {
	if pod.DeletionTimestamp == nil {
		return nil
	}
	return a.remove(ctx, pod)
}

// forget ends what is left of a pod whose object is gone, and only then drops its directory.
func (a *agent) forget(node *node, key podKey) error {
	here := node.container(key.uid)
	if err := here.signal(forceKill); err != nil {
		return err
	}
	if seen, err := here.observe(); err != nil {
		return err
	} else if seen.running {
		here.wait()
	}
	node.cores.release(key.uid)
	a.mutex.Lock()
	delete(a.patched, key.uid)
	delete(a.terminating, key.uid)
	delete(a.awaited, key.uid)
	delete(a.pulls, key.uid)
	a.mutex.Unlock()
	return os.RemoveAll(here.dir)
}

func isFinal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// isGone says that the pod is not there any more, or that another one has its name.
func isGone(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsConflict(err)
}
