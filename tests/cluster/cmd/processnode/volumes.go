// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const serviceAccountMount = "/var/run/secrets/kubernetes.io/serviceaccount"

// mapping says where a path of the container really lies on this machine. There are no mounts here, so
// every environment value that names such a path is rewritten; a path in a program's text is not.
type mapping map[string]string

// rewrite maps a path at or below a mount point; the longest mount point wins, as with real mounts.
func (m mapping) rewrite(value string) string {
	best := ""
	for mount := range m {
		below := value == mount || strings.HasPrefix(value, strings.TrimSuffix(mount, "/")+"/")
		if below && len(mount) > len(best) {
			best = mount
		}
	}
	if best == "" {
		return value
	}
	return m[best] + strings.TrimPrefix(value, best)
}

// mountVolumes makes the directories behind the container's mounts.
func mountVolumes(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, container *corev1.Container, podDir string) (mapping, error) {
	paths := mapping{container.TerminationMessagePath: filepath.Join(podDir, terminationFile)}
	volumes := map[string]corev1.Volume{}
	for _, volume := range pod.Spec.Volumes {
		volumes[volume.Name] = volume
	}
	for _, mount := range container.VolumeMounts {
		if mount.MountPath == serviceAccountMount {
			continue // admission adds it to every pod; without mounts nobody could find the token
		}
		source, err := volumeSource(ctx, client, pod, volumes[mount.Name], podDir)
		if err != nil {
			return nil, err
		}
		paths[strings.TrimSuffix(mount.MountPath, "/")] = filepath.Join(source, mount.SubPath)
		if err := os.MkdirAll(filepath.Join(source, mount.SubPath), 0o755); err != nil {
			return nil, fmt.Errorf("volume %q: %w", mount.Name, err)
		}
	}
	return paths, nil
}

func volumeSource(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, volume corev1.Volume, podDir string) (string, error) {
	switch {
	case volume.EmptyDir != nil:
		return filepath.Join(podDir, "volumes", volume.Name), nil
	case volume.HostPath != nil:
		return volume.HostPath.Path, nil
	case volume.PersistentVolumeClaim != nil:
		return claimPath(ctx, client, pod.Namespace, volume.PersistentVolumeClaim.ClaimName)
	}
	return "", fmt.Errorf("volume %q: a process node mounts emptyDir, hostPath and claims on hostPath volumes only", volume.Name)
}

func claimPath(ctx context.Context, client kubernetes.Interface, namespace, name string) (string, error) {
	claim, err := client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("claim %q: %w", name, err)
	}
	volume, err := client.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("volume of claim %q: %w", name, err)
	}
	if volume.Spec.HostPath == nil {
		return "", fmt.Errorf("claim %q: its volume %q is not a hostPath volume", name, volume.Name)
	}
	return volume.Spec.HostPath.Path, nil
}
