// SPDX-License-Identifier: Apache-2.0

// Command kube is the whole Kubernetes control plane of the embedded cluster in one binary.
//
// It runs the program it is called as (busybox style): one link saves four copies of the packages
// that the programs share, in link time as well as in size. Nothing of Kubernetes or etcd is changed
// here, and nothing of this project may creep in: what the tests talk to must be the real thing.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

var programs = map[string]func() int{
	"etcd":                    runEtcd,
	"kube-apiserver":          cobraProgram(apiserver.NewAPIServerCommand),
	"kube-controller-manager": cobraProgram(controllermanager.NewControllerManagerCommand),
	"kube-scheduler":          runScheduler,
	"kubectl":                 runKubectl,
	"service-account-key":     writeServiceAccountKey,
}

func main() {
	program, known := programs[filepath.Base(os.Args[0])]
	if !known {
		fmt.Fprintf(os.Stderr, "call this binary by one of these names (a symbolic link): %s\n", strings.Join(names(), " "))
		os.Exit(2)
	}
	os.Exit(program())
}

func names() []string {
	all := make([]string, 0, len(programs))
	for name := range programs {
		all = append(all, name)
	}
	sort.Strings(all)
	return all
}

func cobraProgram(command func() *cobra.Command) func() int {
	return func() int { return cli.Run(command()) }
}

func runScheduler() int {
	return cli.Run(scheduler.NewSchedulerCommand())
}

// runKubectl prints an error the way kubectl does: one line, no usage text.
func runKubectl() int {
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err) // exits with kubectl's own code
	}
	return 0
}

func runEtcd() int {
	etcdmain.Main(os.Args)
	return 0
}
