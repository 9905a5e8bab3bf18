// SPDX-License-Identifier: Apache-2.0

// Command pause holds a pod's namespaces and does nothing else, in the image that containerd starts before all containers
// of a pod. It is the first process in no process namespace but its own, so there is nothing that it must reap.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGINT, syscall.SIGTERM)
	<-end
}
