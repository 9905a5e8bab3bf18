// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubernetes/pkg/fieldpath"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"
)

// surroundings is what a container's environment is computed from, beside the pod itself.
type surroundings struct {
	seed     string
	nodeIP   string
	podIP    string
	podDir   string
	image    Image
	paths    mapping
	capacity corev1.ResourceList
	// secret gives the content of a Secret of the pod's namespace.
	secret func(name string) (map[string][]byte, error)
}

// environment gives the variables and the expanded command. Nothing is inherited from this process: a
// variable that a developer happens to have exported must not decide whether a test passes.
func environment(pod *corev1.Pod, container *corev1.Container, around surroundings) (env []string, argv []string, err error) {
	values := baseEnvironment(pod, around)
	if len(container.EnvFrom) > 0 {
		return nil, nil, fmt.Errorf("container %q: envFrom is not supported by a process node", container.Name)
	}
	declared := map[string]string{}
	expand := expansion.MappingFuncFor(declared)
	for _, variable := range container.Env {
		value, err := variableValue(pod, container, variable, around)
		if err != nil {
			return nil, nil, err
		}
		if variable.ValueFrom == nil {
			value = expansion.Expand(value, expand)
		}
		declared[variable.Name] = value
	}
	for name, value := range declared {
		if address, isPeer := resolvePeer(around.seed, pod, value); isPeer {
			value = address // there is no DNS; see address.go
		}
		values[name] = around.paths.rewrite(value)
	}
	command, args := container.Command, container.Args
	if len(command) == 0 {
		command = around.image.Entrypoint
	}
	for _, word := range append(append([]string{}, command...), args...) {
		argv = append(argv, expansion.Expand(word, expand))
	}
	return flatten(values), argv, nil
}

func baseEnvironment(pod *corev1.Pod, around surroundings) map[string]string {
	hostname := pod.Spec.Hostname
	if hostname == "" {
		hostname = pod.Name
	}
	values := map[string]string{
		"HOME":     filepath.Join(around.podDir, "home"),
		"TMPDIR":   filepath.Join(around.podDir, "tmp"),
		"PATH":     strings.Join(around.image.Path, ":"),
		"HOSTNAME": hostname,
	}
	for name, value := range around.image.Env {
		values[name] = value
	}
	return values
}

func variableValue(pod *corev1.Pod, container *corev1.Container, variable corev1.EnvVar, around surroundings) (string, error) {
	source := variable.ValueFrom
	switch {
	case source == nil:
		return variable.Value, nil
	case source.FieldRef != nil:
		return fieldValue(pod, source.FieldRef.FieldPath, around)
	case source.ResourceFieldRef != nil:
		return resourceValue(container, source.ResourceFieldRef, around.capacity)
	case source.SecretKeyRef != nil:
		return secretValue(source.SecretKeyRef, around)
	}
	return "", fmt.Errorf("variable %q: a process node knows value, fieldRef, resourceFieldRef and secretKeyRef only", variable.Name)
}

// secretValue says of what is missing what a kubelet says.
func secretValue(selector *corev1.SecretKeySelector, around surroundings) (string, error) {
	content, err := around.secret(selector.Name)
	if err != nil {
		return "", err
	}
	value, isSet := content[selector.Key]
	if !isSet {
		return "", fmt.Errorf("couldn't find key %s in Secret %s", selector.Key, selector.Name)
	}
	return string(value), nil
}

func fieldValue(pod *corev1.Pod, path string, around surroundings) (string, error) {
	switch path {
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.podIP", "status.podIPs":
		return around.podIP, nil
	case "status.hostIP", "status.hostIPs":
		return around.nodeIP, nil
	}
	return fieldpath.ExtractFieldPathAsString(pod, path)
}

// resourceValue rounds up to whole divisors and falls back to the node's capacity for a limit that is not
// set, as the kubelet does.
func resourceValue(container *corev1.Container, selector *corev1.ResourceFieldSelector, capacity corev1.ResourceList) (string, error) {
	kind, name, _ := strings.Cut(selector.Resource, ".")
	list := map[string]corev1.ResourceList{"limits": container.Resources.Limits, "requests": container.Resources.Requests}[kind]
	quantity, isSet := list[corev1.ResourceName(name)]
	if !isSet && kind == "limits" {
		quantity = capacity[corev1.ResourceName(name)]
	}
	divisor := selector.Divisor
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	if name == "cpu" {
		return strconv.FormatInt(ceilDivide(quantity.MilliValue(), divisor.MilliValue()), 10), nil
	}
	return strconv.FormatInt(ceilDivide(quantity.Value(), divisor.Value()), 10), nil
}

func ceilDivide(value, divisor int64) int64 {
	return (value + divisor - 1) / divisor
}

func flatten(values map[string]string) []string {
	env := make([]string, 0, len(values))
	for name, value := range values {
		env = append(env, name+"="+value)
	}
	sort.Strings(env)
	return env
}
