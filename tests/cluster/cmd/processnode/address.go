// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"hash/fnv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Every pod has an address of its own in 127.0.0.0/8, all of which Linux delivers to this machine, so that
// fixed ports of two pods do not collide. The address is a pure function of the pod's name: a peer's
// address is known before the peer exists, hence there is no DNS and nothing to wait for.

func podAddress(seed string, pod *corev1.Pod) string {
	if pod.Spec.Hostname != "" && pod.Spec.Subdomain != "" {
		return hostAddress(seed, pod.Namespace, pod.Spec.Hostname, pod.Spec.Subdomain)
	}
	return hashAddress(seed, "pod", pod.Namespace, pod.Name)
}

func hostAddress(seed, namespace, hostname, subdomain string) string {
	return hashAddress(seed, "pod", namespace, hostname+"."+subdomain)
}

func nodeAddress(seed, node string) string {
	return hashAddress(seed, "node", node)
}

// hashAddress avoids 127.0.0.0/16, where programs of the machine listen, and the ends .0 and .255.
func hashAddress(parts ...string) string {
	hash := fnv.New64a()
	hash.Write([]byte(strings.Join(parts, "\x00")))
	sum := hash.Sum64()
	sum ^= sum >> 32 // the low bits of FNV alone are poor for names that differ in the last letter
	return fmt.Sprintf("127.%d.%d.%d", 1+sum%254, sum>>8&0xff, 1+(sum>>16)%254)
}

// resolvePeer gives the address that a value stands for if it is the host name of a pod under the same
// subdomain (headless Service) as this pod. Other names are left alone: nothing would resolve them either.
func resolvePeer(seed string, pod *corev1.Pod, value string) (string, bool) {
	hostname, rest, found := strings.Cut(value, ".")
	subdomain := pod.Spec.Subdomain
	if !found || subdomain == "" || hostname == "" {
		return "", false
	}
	inNamespace := subdomain + "." + pod.Namespace
	switch rest {
	case subdomain, inNamespace, inNamespace + ".svc", inNamespace + ".svc.cluster.local":
		return hostAddress(seed, pod.Namespace, hostname, subdomain), true
	}
	return "", false
}
