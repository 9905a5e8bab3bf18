// SPDX-License-Identifier: Apache-2.0

// Command processnode is a test double for a kubelet. It registers Nodes and runs the pods that the real
// scheduler binds to them as local processes: no root, no images, no containers, no network namespaces.
//
// It keeps what an operator relies on: phases and conditions, container states with exit code and
// termination message, SIGTERM, grace period and SIGKILL, an object that goes only after its processes,
// and restarts that neither lose nor double a pod. It must never know anything about gpubench: whatever
// it does for our pods it does for any pod.
//
// Isolation it has none. Security contexts, resource limits, probes and init containers are not kept;
// see the README beside the module for the list.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/klog/v2"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == shimCommand {
		os.Exit(runShim(os.Args[2])) // before flags and clients: a pod starts as fast as this program loads
	}
	configFile := flag.String("config", "", "file (YAML) that describes the nodes")
	sweepOnly := flag.Bool("sweep", false, "kill every pod process that the state directory knows of, and exit")
	flag.Parse()
	config, err := readConfig(*configFile)
	if err == nil && *sweepOnly {
		err = sweep(config.StateDir, "*")
	} else if err == nil {
		err = serve(config)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "processnode:", err)
		os.Exit(1)
	}
}

// serve runs until SIGTERM, which means that the machine goes down: the pods' processes go with it.
// A crash (SIGKILL) leaves the processes alone, and the next start takes them over, as a kubelet does.
func serve(config Config) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	agent, err := newAgent(ctx, config)
	if err != nil {
		return err
	}
	if err := agent.run(ctx); err != nil {
		return err
	}
	klog.Info("stopping: killing the processes of all pods")
	var failed []error
	for _, node := range config.Nodes { // other programs have their nodes in the same directory
		failed = append(failed, sweep(config.StateDir, node.Name))
	}
	return errors.Join(failed...)
}
