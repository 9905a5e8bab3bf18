// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Config is the whole input of a process node; there are no other settings.
type Config struct {
	Kubeconfig string `json:"kubeconfig"`
	StateDir   string `json:"stateDir"` // <stateDir>/<node>/<pod uid>/ holds one pod
	Seed       string `json:"seed"`     // keeps the addresses of several clusters on one machine apart
	// HeartbeatSeconds is between two signs of life of a node; the kubelet's default of 10 if it is not set.
	HeartbeatSeconds float64          `json:"heartbeatSeconds"`
	Images           map[string]Image `json:"images"`
	Nodes            []NodeConfig     `json:"nodes"`
}

// Image is what stands in for a container image: where its programs are and what environment it brings.
type Image struct {
	Path       []string          `json:"path"`
	Env        map[string]string `json:"env"`
	Entrypoint []string          `json:"entrypoint"`
}

// NodeConfig describes one Node that this process hosts.
type NodeConfig struct {
	Name     string              `json:"name"`
	Labels   map[string]string   `json:"labels"`
	Taints   []corev1.Taint      `json:"taints"`
	Capacity corev1.ResourceList `json:"capacity"`
	Cores    []int               `json:"cores"`   // the machine's cores that this node owns; none: no pinning
	Pretend  bool                `json:"pretend"` // pods go Running without any process
}

func readConfig(path string) (Config, error) {
	var config Config
	content, err := os.ReadFile(path)
	if err != nil {
		return config, fmt.Errorf("reading --config: %w", err)
	}
	if err := yaml.UnmarshalStrict(content, &config); err != nil {
		return config, fmt.Errorf("%s: %w", path, err)
	}
	if config.StateDir == "" || config.Kubeconfig == "" {
		return config, errors.New(path + ": stateDir and kubeconfig must be set")
	}
	if config.HeartbeatSeconds <= 0 {
		config.HeartbeatSeconds = 10
	}
	return config, nil
}
