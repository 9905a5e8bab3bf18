// SPDX-License-Identifier: Apache-2.0

// Command karpenter is Karpenter's core with its kwok provider, which makes Nodes without machines, dressed as
// Amazon's: provider ids, labels of the GPU, and stock that runs out by a file.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kwok "sigs.k8s.io/karpenter/kwok/cloudprovider"
	kwokoptions "sigs.k8s.io/karpenter/kwok/options"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/overlay"
	"sigs.k8s.io/karpenter/pkg/controllers"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/operator"
	"sigs.k8s.io/karpenter/pkg/scheduling"
)

const (
	kwokPrefix = "kwok://"
	awsPrefix  = "aws:///us-east-1/"
	// Amazon's provider takes an offering that failed off the list for three minutes.
	forgotten = 20 * time.Second
)

func main() {
	ctx, op := operator.NewOperator()
	types, err := kwok.ConstructInstanceTypes(ctx)
	if err == nil {
		err = addLabels(types, kwokoptions.FromContext(ctx).InstanceTypesFilePath)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "karpenter:", err)
		os.Exit(1)
	}
	cli := op.GetClient()
	own := nodes{cli}
	plain := &provider{kwok.NewCloudProvider(ctx, own, types), own, types, sync.Mutex{}, map[string]time.Time{}}
	decorated := overlay.Decorate(plain, cli, op.InstanceTypeStore)
	cluster := state.NewCluster(op.Clock, cli, decorated)
	op.WithControllers(ctx, controllers.NewControllers(
		ctx, op.Manager, op.Clock, cli, op.EventRecorder, decorated, plain, cluster, op.InstanceTypeStore,
	)...).Start(ctx)
}

// addLabels gives each type what its entry says beside what the kwok provider reads.
func addLabels(types []*cloudprovider.InstanceType, path string) error {
	var entries []struct{ Labels map[string]string }
	content, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(content, &entries)
	}
	for i, entry := range entries {
		for key, value := range entry.Labels {
			v1.WellKnownLabels.Insert(key)
			types[i].Requirements.Add(scheduling.NewRequirement(key, corev1.NodeSelectorOpIn, value))
		}
	}
	return err
}

// provider is the kwok provider with Amazon's provider ids, and with stock-outs.
type provider struct {
	*kwok.CloudProvider
	client client.Client
	types  []*cloudprovider.InstanceType // the kwok provider has the same ones
	lock   sync.Mutex
	failed map[string]time.Time // by "TYPE CAPACITY"
}

// Create fails where each offering that the claim allows stands in the file STOCK_OUT, as "TYPE CAPACITY" lines.
func (p *provider) Create(ctx context.Context, claim *v1.NodeClaim) (*v1.NodeClaim, error) {
	p.lock.Lock()
	defer p.lock.Unlock()
	content, _ := os.ReadFile(os.Getenv("STOCK_OUT")) // no file: nothing is out of stock
	sold := strings.Split(string(content), "\n")
	claim = claim.DeepCopy()
	allowed := scheduling.NewNodeSelectorRequirementsWithMinValues(claim.Spec.Requirements...)
	var left, refused []string
	for _, kind := range p.types {
		if !allowed.Get(corev1.LabelInstanceTypeStable).Has(kind.Name) {
			continue
		}
		for _, offering := range kind.Offerings.Compatible(allowed) {
			name := kind.Name + " " + offering.CapacityType()
			if offering.Available = !slices.Contains(sold, name); !offering.Available {
				p.failed[name] = time.Now()
				refused = append(refused, fmt.Sprintf("InsufficientInstanceCapacity: We currently do not have "+
					"sufficient %s capacity in the Availability Zone you requested (%s)", kind.Name, offering.Zone()))
			}
		}
		if len(kind.Offerings.Available().Compatible(allowed)) > 0 {
			left = append(left, kind.Name)
		}
	}
	if len(left) == 0 {
		return nil, cloudprovider.NewInsufficientCapacityError(
			fmt.Errorf("creating instance, insufficient capacity, with fleet error(s), %s", strings.Join(refused, "; ")))
	}
	for i, requirement := range claim.Spec.Requirements {
		if requirement.Key == corev1.LabelInstanceTypeStable {
			claim.Spec.Requirements[i].Values = left // the kwok provider fails on a type without an offering
		}
	}
	created, err := p.CloudProvider.Create(ctx, claim)
	if err == nil {
		created.Status.ProviderID = awsPrefix + claim.Name
	}
	return created, err
}

// GetInstanceTypes returns copies: Karpenter computes what a type offers once for each.
func (p *provider) GetInstanceTypes(context.Context, *v1.NodePool) ([]*cloudprovider.InstanceType, error) {
	p.lock.Lock()
	defer p.lock.Unlock()
	copies := make([]*cloudprovider.InstanceType, len(p.types))
	for i, kind := range p.types {
		copies[i] = &cloudprovider.InstanceType{}
		kind.DeepCopyInto(copies[i])
		for _, offering := range copies[i].Offerings {
			offering.Available = time.Since(p.failed[kind.Name+" "+offering.CapacityType()]) > forgotten
		}
	}
	return copies, nil
}

func (p *provider) Get(ctx context.Context, id string) (*v1.NodeClaim, error) {
	return p.CloudProvider.Get(ctx, strings.Replace(id, awsPrefix, kwokPrefix, 1))
}

func (p *provider) List(ctx context.Context) ([]*v1.NodeClaim, error) {
	var found corev1.NodeList
	var claims []*v1.NodeClaim
	err := p.client.List(ctx, &found)
	for _, node := range found.Items {
		if strings.HasPrefix(node.Spec.ProviderID, awsPrefix) {
			if claim, err := p.Get(ctx, node.Spec.ProviderID); err == nil { // else it is going
				claims = append(claims, claim)
			}
		}
	}
	return claims, err
}

// nodes is the client of the kwok provider. Nodes are called after their claims, and begin as a kubelet reports
// itself at first: not ready, and no device plugin has brought GPUs.
type nodes struct{ client.Client }

func (n nodes) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	if node, ok := object.(*corev1.Node); ok {
		node.Name = node.Labels[corev1.LabelHostname]
		node.Spec.ProviderID = awsPrefix + node.Name
		node.Status.Conditions = []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady"},
		}
		node.Status.Allocatable = maps.Clone(node.Status.Allocatable) // the claim's status has the same one
		delete(node.Status.Allocatable, "nvidia.com/gpu")
		node.Status.Capacity = node.Status.Allocatable
	}
	return n.Client.Create(ctx, object, options...)
}
