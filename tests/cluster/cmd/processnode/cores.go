// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// corePool hands out a node's cores like the kubelet's static CPU manager: a pod that asks for a whole
// number of cores has them for itself, the others share the rest. Unlike there, a pod that already
// shares is not moved when somebody takes a core of the rest.
type corePool struct {
	mutex sync.Mutex
	owned []int
	taken map[types.UID][]int
}

func newCorePool(owned []int) *corePool {
	return &corePool{owned: slices.Clone(owned), taken: map[types.UID][]int{}}
}

// assign gives the cores that a pod may run on, and whether they are its own. Asking again changes nothing.
func (p *corePool) assign(uid types.UID, request int) (cores []int, exclusive bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if held, ok := p.taken[uid]; ok {
		return held, true
	}
	free := p.free()
	if request > 0 && request <= len(free) {
		p.taken[uid] = free[:request]
		return free[:request], true
	}
	if len(free) == 0 {
		return p.owned, false
	}
	return free, false
}

// restore notes cores that a pod was given by an earlier run of this program.
func (p *corePool) restore(uid types.UID, cores []int) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.taken[uid] = cores
}

func (p *corePool) release(uid types.UID) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	delete(p.taken, uid)
}

func (p *corePool) free() []int {
	var free []int
	for _, core := range p.owned {
		inUse := false
		for _, cores := range p.taken {
			inUse = inUse || slices.Contains(cores, core)
		}
		if !inUse {
			free = append(free, core)
		}
	}
	return free
}

// wholeCores is the number of cores that a container asks for, or 0 if that is not a whole number.
func wholeCores(container *corev1.Container) int {
	request := container.Resources.Requests.Cpu()
	if request.MilliValue()%1000 != 0 {
		return 0
	}
	return int(request.Value())
}
