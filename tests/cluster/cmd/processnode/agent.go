// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const workers = 8 // pods worked on at once; one pod is never worked on twice at once

// podKey names one pod object for good: a later pod of the same name is another one.
type podKey struct {
	node, namespace, name string
	uid                   types.UID
}

func keyOf(pod *corev1.Pod) podKey {
	return podKey{node: pod.Spec.NodeName, namespace: pod.Namespace, name: pod.Name, uid: pod.UID}
}

// agent turns pods bound to its nodes into processes. Events only put keys into the queue; what is to be
// done follows from the pod and from its directory at the time it is looked at.
type agent struct {
	config   Config
	client   kubernetes.Interface
	recorder record.EventRecorder
	nodes    map[string]*node
	queue    workqueue.TypedRateLimitingInterface[podKey]
	informer cache.SharedIndexInformer
	pods     listers.PodLister

	mutex       sync.Mutex
	patched     map[types.UID]*corev1.Pod // the answer to our own patch, until the watch has caught up
	terminating map[types.UID]time.Time   // when SIGTERM was sent
	awaited     map[types.UID]bool        // a goroutine waits for the shim to end
	pulls       map[types.UID]time.Time   // first failed pull of an unknown image
}

func newAgent(ctx context.Context, config Config) (*agent, error) {
	rest, err := clientcmd.BuildConfigFromFlags("", config.Kubeconfig)
	if err != nil {
		return nil, err
	}
	rest.QPS = -1 // no throttling on this side: hundreds of pods may start at once
	rest.UserAgent = "processnode"
	client, err := kubernetes.NewForConfig(rest)
	if err != nil {
		return nil, err
	}
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[podKey](20*time.Millisecond, 5*time.Second)
	a := &agent{
		config: config, client: client, nodes: map[string]*node{},
		queue:   workqueue.NewTypedRateLimitingQueue(limiter),
		patched: map[types.UID]*corev1.Pod{}, terminating: map[types.UID]time.Time{},
		awaited: map[types.UID]bool{}, pulls: map[types.UID]time.Time{},
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	a.recorder = broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "processnode"})
	for _, nodeConfig := range config.Nodes {
		a.nodes[nodeConfig.Name] = newNode(config, nodeConfig)
	}
	return a, a.watch()
}

// watch opens one watch for the pods of all nodes.
func (a *agent) watch() error {
	bound := fields.OneTermNotEqualSelector("spec.nodeName", "").String()
	factory := informers.NewSharedInformerFactoryWithOptions(a.client, 0,
		informers.WithTweakListOptions(func(options *metav1.ListOptions) { options.FieldSelector = bound }))
	a.informer, a.pods = factory.Core().V1().Pods().Informer(), factory.Core().V1().Pods().Lister()
	_, err := a.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    a.enqueue,
		UpdateFunc: func(_, pod any) { a.enqueue(pod) },
		DeleteFunc: a.enqueue,
	})
	return err
}

func (a *agent) enqueue(object any) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	if pod, ok := object.(*corev1.Pod); ok && a.nodes[pod.Spec.NodeName] != nil {
		a.queue.Add(keyOf(pod))
	}
}

// run registers the nodes and works until the context ends.
func (a *agent) run(ctx context.Context) error {
	if err := a.serveLogs(ctx); err != nil {
		return err
	}
	go a.informer.Run(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), a.informer.HasSynced) {
		return nil // stopped before the API server could be reached
	}
	if err := a.takeOver(); err != nil {
		return err
	}
	var work sync.WaitGroup
	for _, node := range a.nodes {
		work.Go(func() { node.keepAlive(ctx, a.client) })
	}
	for range workers {
		work.Go(func() {
			for a.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	a.queue.ShutDown()
	work.Wait()
	return nil
}

// takeOver finds the pods that an earlier run of this program left behind: those whose object is gone are
// to be ended, the others keep their cores.
func (a *agent) takeOver() error {
	launches, err := filepath.Glob(filepath.Join(a.config.StateDir, "*", "*", launchFile))
	if err != nil {
		return err
	}
	for _, path := range launches {
		var launch Launch
		if err := readJSON(path, &launch); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		uid := types.UID(filepath.Base(filepath.Dir(path)))
		node := a.nodes[filepath.Base(filepath.Dir(filepath.Dir(path)))]
		if node == nil {
			continue // another process node's, under the same directory
		}
		if launch.Exclusive {
			node.cores.restore(uid, launch.Cores)
		}
		a.queue.Add(podKey{node: node.config.Name, namespace: launch.Namespace, name: launch.Name, uid: uid})
	}
	return nil
}

func (a *agent) next(ctx context.Context) bool {
	key, stopped := a.queue.Get()
	if stopped {
		return false
	}
	defer a.queue.Done(key)
	again, err := a.sync(ctx, key)
	switch {
	case err != nil && ctx.Err() == nil:
		klog.Warningf("%s/%s: %v", key.namespace, key.name, err)
		a.queue.AddRateLimited(key)
	case again > 0:
		a.queue.Forget(key)
		a.queue.AddAfter(key, again)
	default:
		a.queue.Forget(key)
	}
	return true
}

// sync brings one pod one step further; it returns when to look again if nothing else happens.
func (a *agent) sync(ctx context.Context, key podKey) (time.Duration, error) {
	node := a.nodes[key.node]
	pod := a.newest(key)
	switch {
	case pod == nil:
		return 0, a.forget(node, key)
	case node.config.Pretend:
		return a.pretend(ctx, node, pod)
	}
	return a.runPod(ctx, node, pod)
}

// newest is the pod from the cache or from the answer to our last patch, whichever is younger.
func (a *agent) newest(key podKey) *corev1.Pod {
	pod, err := a.pods.Pods(key.namespace).Get(key.name)
	if err != nil || pod.UID != key.uid {
		return nil
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	own := a.patched[key.uid]
	if own != nil && version(own) > version(pod) {
		return own
	}
	delete(a.patched, key.uid)
	return pod
}

func version(pod *corev1.Pod) uint64 {
	number, _ := strconv.ParseUint(pod.ResourceVersion, 10, 64)
	return number
}

// report writes the pod's status if it differs. A pod that is gone is an answer, not an error.
func (a *agent) report(ctx context.Context, pod *corev1.Pod, now progress) (*corev1.Pod, error) {
	patch, err := statusPatch(pod, statusFor(pod, now))
	if err != nil || patch == nil {
		return pod, err
	}
	patched, err := a.client.CoreV1().Pods(pod.Namespace).Patch(
		ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if isGone(err) {
		return pod, nil
	} else if err != nil {
		return nil, err
	}
	a.mutex.Lock()
	a.patched[pod.UID] = patched
	a.mutex.Unlock()
	return patched, nil
}

// remove deletes the object for good, which only a node may do: it knows that nothing runs any more.
func (a *agent) remove(ctx context.Context, pod *corev1.Pod) error {
	now := int64(0)
	err := a.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &pod.UID},
	})
	if isGone(err) {
		return nil
	}
	return err
}

func (a *agent) event(pod *corev1.Pod, kind, reason, message string) {
	a.recorder.Event(pod, kind, reason, message)
}

var errRestarts = errors.New("a process node runs pods of restartPolicy Never")

// unsupported is the sentence for a pod that this node will never run, or "".
func unsupported(pod *corev1.Pod) string {
	if pod.Spec.RestartPolicy == corev1.RestartPolicyNever {
		return ""
	}
	return strings.TrimSpace(errRestarts.Error())
}
