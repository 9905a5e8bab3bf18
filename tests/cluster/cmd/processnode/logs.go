// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"
)

const followInterval = 100 * time.Millisecond

// serveLogs answers the API server's requests for container logs, on each node's own address. Whoever can
// reach this machine's loopback can read them: there is no authentication, as nothing secret runs here.
func (a *agent) serveLogs(ctx context.Context) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", a.containerLog)
	var addresses []net.IP
	for _, node := range a.nodes {
		addresses = append(addresses, net.ParseIP(node.address))
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey("processnode", addresses, nil)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return err
	}
	for _, node := range a.nodes {
		listener, err := tls.Listen("tcp", net.JoinHostPort(node.address, "0"), &tls.Config{Certificates: []tls.Certificate{pair}})
		if err != nil {
			return fmt.Errorf("node %s: %w", node.config.Name, err)
		}
		node.logPort = int32(listener.Addr().(*net.TCPAddr).Port)
		server := &http.Server{Handler: mux, BaseContext: func(net.Listener) context.Context { return ctx }}
		go func() { klog.Info("logs: ", server.Serve(listener)) }()
	}
	return nil
}

func (a *agent) containerLog(response http.ResponseWriter, request *http.Request) {
	pod, err := a.pods.Pods(request.PathValue("namespace")).Get(request.PathValue("pod"))
	if err != nil || a.nodes[pod.Spec.NodeName] == nil {
		http.Error(response, "no such pod on this node", http.StatusNotFound)
		return
	}
	if text, said := pod.Annotations[pretendLog]; said {
		_, _ = io.WriteString(response, text)
		return
	}
	if a.nodes[pod.Spec.NodeName].config.Pretend {
		http.Error(response, "a pretending node has no logs", http.StatusInternalServerError)
		return
	}
	here := a.nodes[pod.Spec.NodeName].container(pod.UID)
	file, err := os.Open(filepath.Join(here.dir, logFile))
	if err != nil {
		message := fmt.Sprintf("container %q in pod %q is waiting to start", request.PathValue("container"), pod.Name)
		http.Error(response, message, http.StatusBadRequest)
		return
	}
	defer file.Close()
	query := request.URL.Query()
	if lines, err := strconv.Atoi(query.Get("tailLines")); err == nil {
		skipToTail(file, lines)
	}
	response.Header().Set("Content-Type", "text/plain")
	follow := query.Get("follow") == "true"
	for {
		alive, _ := here.alive() // before copying: what is written after that is in the next round
		_, err := io.Copy(flushing{response}, file)
		if err != nil || !follow || !alive {
			return
		}
		select {
		case <-request.Context().Done():
			return
		case <-time.After(followInterval):
		}
	}
}

// flushing hands every piece on at once.
type flushing struct{ http.ResponseWriter }

func (f flushing) Write(content []byte) (int, error) {
	written, err := f.ResponseWriter.Write(content)
	f.ResponseWriter.(http.Flusher).Flush()
	return written, err
}

// skipToTail leaves the last lines to be read; logs of tests are small enough to be looked at whole.
func skipToTail(file *os.File, lines int) {
	content, _ := io.ReadAll(file)
	position := len(bytes.TrimSuffix(content, []byte("\n")))
	for range lines {
		position = max(0, bytes.LastIndexByte(content[:position], '\n'))
	}
	if position > 0 {
		position++
	}
	if lines == 0 {
		position = len(content)
	}
	_, _ = file.Seek(int64(position), io.SeekStart)
}
