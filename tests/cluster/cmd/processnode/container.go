// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const maxTerminationMessage = 4096 // bytes; the kubelet keeps the tail of longer ones

// container is the node's view of one pod directory. All knowledge lies in the files and the shim's lock,
// none in memory, so that a restarted node sees exactly what the last one saw.
type container struct {
	dir string
}

// observation is one look at a container. At most one of running and exit is set.
type observation struct {
	running bool
	started time.Time
	exit    *Exit
}

func (c container) observe() (observation, error) {
	alive, err := c.alive()
	if err != nil || alive {
		var started Started
		_ = readJSON(filepath.Join(c.dir, startedFile), &started) // missing for the instant before it is written
		return observation{running: alive, started: started.At}, err
	}
	var exit Exit
	err = readJSON(filepath.Join(c.dir, exitFile), &exit)
	if err == nil {
		return observation{started: exit.StartedAt, exit: &exit}, nil
	}
	var started Started
	if readJSON(filepath.Join(c.dir, startedFile), &started) == nil {
		if alive, err := c.alive(); err != nil || alive {
			return observation{running: alive, started: started.At}, err // it took the lock since the first look
		}
		lost := lostContainer(started.At)
		return observation{started: started.At, exit: &lost}, nil
	}
	return observation{}, ignoreMissing(err)
}

// lostContainer is what a kubelet reports for a container that it started and cannot find any more.
func lostContainer(startedAt time.Time) Exit {
	return Exit{
		Code: 137, Reason: "ContainerStatusUnknown",
		Message:   "The container could not be located when the pod was terminated",
		StartedAt: startedAt, FinishedAt: startedAt,
	}
}

func (c container) alive() (bool, error) {
	lock, err := os.Open(filepath.Join(c.dir, lockFile))
	if err != nil {
		return false, ignoreMissing(err)
	}
	defer lock.Close()
	err = unix.Flock(int(lock.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}

// wait returns when the shim has ended; it costs one sleeping thread and no polling.
func (c container) wait() {
	lock, err := os.Open(filepath.Join(c.dir, lockFile))
	if err != nil {
		return
	}
	defer lock.Close()
	for errors.Is(unix.Flock(int(lock.Fd()), unix.LOCK_SH), unix.EINTR) {
	}
}

// start hands the launch to a shim and returns when the command runs or has failed to.
func (c container) start(launch Launch) error {
	for _, dir := range []string{"home", "tmp", "volumes"} {
		if err := os.MkdirAll(filepath.Join(c.dir, dir), 0o755); err != nil {
			return err
		}
	}
	// Like the kubelet's, the file is there before the program is.
	if err := os.WriteFile(filepath.Join(c.dir, terminationFile), nil, 0o666); err != nil {
		return err
	}
	if err := writeJSON(filepath.Join(c.dir, launchFile), launch); err != nil {
		return err
	}
	return c.spawnShim()
}

func (c container) spawnShim() error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	shimLog, err := os.Create(filepath.Join(c.dir, "shim.log"))
	if err != nil {
		return err
	}
	defer shimLog.Close()
	ready, signalReady, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ready.Close()
	command := exec.Command(program, shimCommand, c.dir)
	command.Env = []string{} // nothing of the node's environment may reach a pod
	command.Stdout, command.Stderr = shimLog, shimLog
	command.ExtraFiles = []*os.File{signalReady}
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a signal to the node's group is not for pods
	err = command.Start()
	signalReady.Close()
	if err != nil {
		return err
	}
	go func() { _ = command.Wait() }()
	_, _ = io.ReadAll(ready) // ends when the shim closes it, or ends itself
	return nil
}

// signal reaches the shim only while it holds the lock, so that no stranger with its old id is hit.
func (c container) signal(sent syscall.Signal) error {
	var started Started
	if err := readJSON(filepath.Join(c.dir, startedFile), &started); err != nil {
		return ignoreMissing(err)
	}
	shim, err := unix.PidfdOpen(started.ShimPid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	} else if err != nil {
		return err
	}
	defer unix.Close(shim)
	if alive, err := c.alive(); err != nil || !alive {
		return err
	}
	if err := unix.PidfdSendSignal(shim, sent, nil, 0); !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}

// terminationMessage is what the program left in its file, or the end of its log where the pod asks for that.
func (c container) terminationMessage(fallbackToLog bool) string {
	message := tail(filepath.Join(c.dir, terminationFile), maxTerminationMessage)
	if message != "" || !fallbackToLog {
		return message
	}
	lines := strings.SplitAfter(tail(filepath.Join(c.dir, logFile), 2048), "\n")
	return strings.Join(lines[max(0, len(lines)-81):], "") // 80 lines and what follows the last line's end
}

// tail reads the last bytes of a file; what is no text is dropped, as the API takes valid UTF-8 only.
func tail(path string, limit int64) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	if stat, err := file.Stat(); err == nil && stat.Size() > limit {
		_, _ = file.Seek(-limit, io.SeekEnd)
	}
	content, _ := io.ReadAll(io.LimitReader(file, limit))
	return strings.ToValidUTF8(string(content), "")
}

// sweep kills all pods of a node and returns when their processes are gone; "*" is every node of the directory.
func sweep(stateDir, node string) error {
	launches, err := filepath.Glob(filepath.Join(stateDir, node, "*", launchFile))
	if err != nil {
		return err
	}
	for _, launch := range launches {
		if err := (container{dir: filepath.Dir(launch)}).signal(forceKill); err != nil {
			return fmt.Errorf("killing %s: %w", filepath.Dir(launch), err)
		}
	}
	for _, launch := range launches {
		container{dir: filepath.Dir(launch)}.wait()
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
