// SPDX-License-Identifier: Apache-2.0

// Command kubelet is what a real node runs of Kubernetes, kubelet and kube-proxy, in one binary.
//
// It is not part of cmd/kube: only the end-to-end check has real nodes, and whoever runs the tests need not wait for the
// compiler. Nothing of Kubernetes is changed here.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	switch name := filepath.Base(os.Args[0]); name {
	case "kubelet":
		os.Exit(cli.Run(kubelet.NewKubeletCommand(context.Background())))
	case "kube-proxy":
		os.Exit(cli.Run(proxy.NewProxyCommand()))
	default:
		fmt.Fprintf(os.Stderr, "%s: call this binary kubelet or kube-proxy (a symbolic link)\n", name)
		os.Exit(2)
	}
}
