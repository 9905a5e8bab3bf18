// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The shim is the parent of one container's processes. It outlives the process node, so that a crash of
// that program neither ends a pod nor loses its exit code. It holds a lock on the pod's directory for as
// long as anything of the pod runs; whoever wants to know whether a pod lives asks for that lock. Process
// ids alone would not do: they are used again.

const (
	shimCommand     = "shim"
	lockFile        = "lock"
	launchFile      = "launch.json"  // what to run, written by the node
	startedFile     = "started.json" // written once, before the command starts: never start twice
	exitFile        = "exit.json"    // written last, after every process of the pod is gone
	logFile         = "log"
	terminationFile = "termination-message"
	oomMarkerFile   = "oom-killed" // a test puts it there before it kills the pod: the kernel's verdict, played

	forceKill     = syscall.SIGUSR1 // the grace period is over
	startErrorExt = 128             // what container runtimes report when a command cannot be started
	readinessFd   = 3
)

// Launch is the order for one container.
type Launch struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Argv      []string `json:"argv"` // argv[0] is an absolute path
	Env       []string `json:"env"`
	Dir       string   `json:"dir"`
	Cores     []int    `json:"cores"`
	Exclusive bool     `json:"exclusive"` // the cores are this pod's own
}

// Started tells who supervises the pod.
type Started struct {
	ShimPid int       `json:"shimPid"`
	At      time.Time `json:"at"`
}

// Exit is the end of one container.
type Exit struct {
	Code       int       `json:"code"`
	Reason     string    `json:"reason"`
	Message    string    `json:"message"`
	StartedAt  time.Time `json:"startedAt"`
	FinishedAt time.Time `json:"finishedAt"`
}

// runShim runs the container of one pod directory and records its end.
func runShim(podDir string) int {
	runtime.LockOSThread()           // affinity and the death signal below belong to a thread
	syscall.CloseOnExec(readinessFd) // else the command would hold it, and the node wait, until its end
	lock, err := lockPod(podDir)
	if err != nil {
		return 0 // another shim runs this pod
	}
	defer lock.Close()
	var launch Launch
	if err := readJSON(filepath.Join(podDir, launchFile), &launch); err != nil {
		fmt.Fprintln(os.Stderr, "shim:", err)
		return 1
	}
	if err := writeOnce(filepath.Join(podDir, startedFile), Started{ShimPid: os.Getpid(), At: time.Now()}); err != nil {
		return 0 // it has been started before, by a shim that was killed; its end is unknown
	}
	exit := supervise(podDir, launch)
	if err := writeJSON(filepath.Join(podDir, exitFile), exit); err != nil {
		fmt.Fprintln(os.Stderr, "shim:", err)
		return 1
	}
	return 0
}

func supervise(podDir string, launch Launch) Exit {
	// Orphans of the container become the shim's children, whatever session they put themselves into.
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, forceKill)
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP)

	exit := Exit{StartedAt: time.Now()}
	err := pin(launch.Cores)
	var process *os.Process
	if err == nil {
		process, err = startCommand(podDir, launch)
	}
	if err != nil {
		exit.Code, exit.Reason, exit.Message, exit.FinishedAt = startErrorExt, "StartError", err.Error(), time.Now()
		return exit
	}
	closeReadiness()
	go forwardSignals(signals, process)
	status := reapUntil(process.Pid)
	killDescendants() // as the end of a container's first process ends the others
	exit.FinishedAt = time.Now()
	exit.Code, exit.Reason = status.ExitStatus(), "Error"
	if status.Signaled() {
		exit.Code = 128 + int(status.Signal())
	}
	if exit.Code == 0 {
		exit.Reason = "Completed"
	}
	if _, err := os.Stat(filepath.Join(podDir, oomMarkerFile)); err == nil && exit.Code == 137 {
		exit.Reason = "OOMKilled"
	}
	return exit
}

func startCommand(podDir string, launch Launch) (*os.Process, error) {
	output, err := os.OpenFile(filepath.Join(podDir, logFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer output.Close()
	input, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer input.Close()
	return os.StartProcess(launch.Argv[0], launch.Argv, &os.ProcAttr{
		Dir:   launch.Dir,
		Env:   launch.Env,
		Files: []*os.File{input, output, output},
		Sys:   &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	})
}

// forwardSignals passes SIGTERM to the first process only, as a kubelet does. A process that has ended is
// not signalled: os.Process holds a pidfd.
func forwardSignals(signals <-chan os.Signal, process *os.Process) {
	for received := range signals {
		if received == forceKill {
			received = syscall.SIGKILL
		}
		_ = process.Signal(received)
	}
}

// pin gives the shim, and all that it starts, its cores. A pod that ran unpinned would measure its neighbour.
func pin(cores []int) error {
	if len(cores) == 0 {
		return nil
	}
	var set unix.CPUSet
	for _, core := range cores {
		set.Set(core)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("pinning to cores %v: %w", cores, err)
	}
	return nil
}

// reapUntil waits for the first process and buries orphans meanwhile.
func reapUntil(pid int) syscall.WaitStatus {
	for {
		var status syscall.WaitStatus
		ended, err := syscall.Wait4(-1, &status, 0, nil)
		if ended == pid || errors.Is(err, syscall.ECHILD) {
			return status
		}
	}
}

// killDescendants ends what is left: killing a child makes its children ours, until there are none.
func killDescendants() {
	for {
		for _, child := range children(os.Getpid()) {
			_ = syscall.Kill(child, syscall.SIGKILL)
		}
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(-1, &status, 0, nil); errors.Is(err, syscall.ECHILD) {
			return
		}
	}
}

// children scans /proc, because /proc/PID/task/TID/children is not in every kernel.
func children(parent int) []int {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	var found []int
	for _, stat := range stats {
		content, err := os.ReadFile(stat)
		if err != nil {
			continue // it ended meanwhile
		}
		// The name, in parentheses, may hold anything; state and parent follow the last one.
		fields := strings.Fields(string(content[strings.LastIndexByte(string(content), ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(stat)))
			found = append(found, pid)
		}
	}
	return found
}

// closeReadiness tells the node, which waits at the other end, that the command runs.
func closeReadiness() {
	_ = os.NewFile(readinessFd, "readiness").Close()
}

// lockPod takes the pod's lock for the life of this process. The node tests the lock now and then by
// holding it shared for an instant, hence the few attempts.
func lockPod(podDir string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(podDir, lockFile), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for range 20 {
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return file, nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	file.Close()
	return nil, err
}

func readJSON(path string, value any) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(content, value)
}

// writeJSON writes beside and renames: whoever reads sees a whole record or none.
func writeJSON(path string, value any) error {
	beside, err := writeBeside(path, value)
	if err != nil {
		return err
	}
	return os.Rename(beside, path)
}

// writeOnce is writeJSON that fails if the file exists.
func writeOnce(path string, value any) error {
	beside, err := writeBeside(path, value)
	if err != nil {
		return err
	}
	defer os.Remove(beside)
	return os.Link(beside, path)
}

func writeBeside(path string, value any) (string, error) {
	content, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	beside := fmt.Sprintf("%s.%d", path, os.Getpid())
	return beside, os.WriteFile(beside, content, 0o644)
}
