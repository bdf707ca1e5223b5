package walk

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/trunks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	cloudprovider "k8s.io/cloud-provider"
	_ "k8s.io/cloud-provider-openstack/pkg/openstack"
	nodecontroller "k8s.io/cloud-provider/controllers/node"
	"k8s.io/cloud-provider/controllers/nodelifecycle"
	routecontroller "k8s.io/cloud-provider/controllers/route"
	"k8s.io/component-base/metrics/prometheus/controllers"
)

const (
	period        = time.Second
	uninitialized = "node.cloudprovider.kubernetes.io/uninitialized"
	shutdown      = "node.cloudprovider.kubernetes.io/shutdown"
)

// global is the part of a configuration file that says where the cloud is, and who asks.
func global(account ...string) string {
	if len(account) == 0 {
		account = []string{"username = " + os.Getenv("OS_USERNAME"), "password = " + os.Getenv("OS_PASSWORD"),
			"tenant-name = " + os.Getenv("OS_PROJECT_NAME"), "domain-id = default"}
	}
	return strings.Join(append([]string{"[Global]", "auth-url = " + os.Getenv("OS_AUTH_URL"), "region = " + region, ""}, account...), "\n") + "\n"
}

// manager makes the provider as the controller manager does: from the text of its configuration file.
func manager(t *testing.T, more ...string) cloudprovider.Interface {
	t.Helper()
	return managerAs(t, global(), more...)
}

func managerAs(t *testing.T, global string, more ...string) cloudprovider.Interface {
	t.Helper()
	made, err := cloudprovider.GetCloudProvider("openstack", strings.NewReader(
		global+"[LoadBalancer]\nenabled = false\n"+strings.Join(more, "\n")))
	check(t, err)
	return made
}

// kubernetes is a fake API with nodes and its informers.
func kubernetes(t *testing.T, nodes ...runtime.Object) (*fake.Clientset, informers.SharedInformerFactory, context.Context) {
	t.Helper()
	running, stop := context.WithCancel(ctx)
	t.Cleanup(stop)
	api := fake.NewClientset(nodes...)
	return api, informers.NewSharedInformerFactory(api, period), running
}

func instances(t *testing.T, more ...string) cloudprovider.InstancesV2 {
	t.Helper()
	found, supported := manager(t, more...).InstancesV2()
	equal(t, "support of instances", supported, true)
	return found
}

func addresses(found []v1.NodeAddress) []string {
	texts := []string{}
	for _, address := range found {
		texts = append(texts, string(address.Type)+" "+address.Address)
	}
	slices.Sort(texts)
	return texts
}

func TestInstanceExists(t *testing.T) {
	node, found := begun().nodes[0].object(), instances(t)
	exists, err := found.InstanceExists(ctx, node)
	check(t, err)
	equal(t, "a server's existence", exists, true)
	node.Spec.ProviderID = ""
	exists, err = found.InstanceExists(ctx, node)
	check(t, err)
	equal(t, "the existence of a server of this name", exists, true)
	node.Spec.ProviderID = "openstack:///00000000-0000-4000-8000-000000000000"
	exists, err = found.InstanceExists(ctx, node)
	check(t, err)
	equal(t, "the existence of an unknown id", exists, false)
	node.Spec.ProviderID, node.Name = "", "node"
	if exists, err = found.InstanceExists(ctx, node); err == nil {
		t.Fatalf("Failure: %v for a name that is the beginning of others", exists)
	}
}

func TestInstanceShutdown(t *testing.T) {
	server, found := begun().nodes[1], instances(t)
	is, err := found.InstanceShutdown(ctx, server.object())
	check(t, err)
	equal(t, "a running server's shutdown", is, false)
	check(t, servers.Stop(ctx, compute, server.id).ExtractErr())
	check(t, servers.WaitForStatus(ctx, compute, server.id, "SHUTOFF"))
	is, err = found.InstanceShutdown(ctx, server.object())
	check(t, err)
	equal(t, "a stopped server's shutdown", is, true)
	check(t, servers.Start(ctx, compute, server.id).ExtractErr())
	check(t, servers.WaitForStatus(ctx, compute, server.id, "ACTIVE"))
}

func TestInstanceMetadata(t *testing.T) {
	server := begun().nodes[0]
	data, err := instances(t).InstanceMetadata(ctx, server.object())
	check(t, err)
	equal(t, "the provider's id", data.ProviderID, "openstack:///"+server.id)
	equal(t, "the type", data.InstanceType, os.Getenv("FLAVOR_NAME"))
	equal(t, "the zone", data.Zone, zone)
	equal(t, "the region", data.Region, region)
	equal(t, "the addresses", addresses(data.NodeAddresses), []string{"InternalIP " + server.address})
	t.Setenv("OS_CCM_REGIONAL", "true")
	data, err = instances(t).InstanceMetadata(ctx, server.object())
	check(t, err)
	equal(t, "the regional id", data.ProviderID, "openstack://"+region+"/"+server.id)
}

func TestInstanceMetadataFloatingAddress(t *testing.T) {
	server := begun().nodes[0]
	address, err := floatingips.Create(ctx, network, floatingips.CreateOpts{
		FloatingNetworkID: public, PortID: server.port}).Extract()
	check(t, err)
	defer floatingips.Delete(ctx, network, address.ID)
	want := []string{"ExternalIP " + address.FloatingIP, "InternalIP " + server.address}
	found := instances(t)
	until(t, "the floating address is shown", func() bool {
		data, err := found.InstanceMetadata(ctx, server.object())
		check(t, err)
		return slices.Equal(addresses(data.NodeAddresses), want)
	})
}

func TestInstanceMetadataPublicNetwork(t *testing.T) {
	server := begun().nodes[0]
	data, err := instances(t, "[Networking]", "public-network-name = nodes").InstanceMetadata(ctx, server.object())
	check(t, err)
	equal(t, "the addresses", addresses(data.NodeAddresses), []string{"ExternalIP " + server.address})
}

func TestInstanceMetadataTrunk(t *testing.T) {
	parent := begun().open("trunk")
	other, err := networks.Create(ctx, network, networks.CreateOpts{Name: "tagged"}).Extract()
	check(t, err)
	defer networks.Delete(ctx, network, other.ID)
	_, err = subnets.Create(ctx, network, subnets.CreateOpts{NetworkID: other.ID, CIDR: "10.60.0.0/24", IPVersion: 4}).Extract()
	check(t, err)
	port, err := ports.Create(ctx, network, ports.CreateOpts{NetworkID: other.ID}).Extract()
	check(t, err)
	defer ports.Delete(ctx, network, port.ID)
	trunk, err := trunks.Create(ctx, network, trunks.CreateOpts{PortID: parent.ID, Subports: []trunks.Subport{{
		SegmentationID: 7, SegmentationType: "vlan", PortID: port.ID}}}).Extract()
	check(t, err)
	defer trunks.Delete(ctx, network, trunk.ID)
	server := begun().boot(parent)
	defer servers.Delete(ctx, compute, server.id)
	data, err := instances(t).InstanceMetadata(ctx, server.object())
	check(t, err)
	equal(t, "the addresses", addresses(data.NodeAddresses), []string{
		"InternalIP " + server.address, "InternalIP " + port.FixedIPs[0].IPAddress})
}

func TestNodeController(t *testing.T) {
	server, cloud := begun().nodes[0], manager(t)
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: server.name}, Spec: v1.NodeSpec{
		Taints: []v1.Taint{{Key: uninitialized, Value: "true", Effect: v1.TaintEffectNoSchedule}}}}
	api, factory, running := kubernetes(t, node)
	made, err := nodecontroller.NewCloudNodeController(factory.Core().V1().Nodes(), api, cloud, period, 1)
	check(t, err)
	factory.Start(running.Done())
	go made.RunWithContext(running, controllers.NewControllerManagerMetrics("node"))
	until(t, "the node is initialized", func() bool {
		node, err = api.CoreV1().Nodes().Get(ctx, server.name, metav1.GetOptions{})
		check(t, err)
		return len(node.Spec.Taints) == 0 && len(node.Status.Addresses) > 0
	})
	equal(t, "the provider's id", node.Spec.ProviderID, "openstack:///"+server.id)
	equal(t, "the addresses", addresses(node.Status.Addresses), []string{"InternalIP " + server.address})
	equal(t, "the type", node.Labels[v1.LabelInstanceTypeStable], os.Getenv("FLAVOR_NAME"))
	equal(t, "the zone", node.Labels[v1.LabelTopologyZone], zone)
	equal(t, "the region", node.Labels[v1.LabelTopologyRegion], region)
}

func TestNodeLifecycleController(t *testing.T) {
	stopped, deleted, cloud := begun().boot(begun().open("stopped")), begun().boot(begun().open("deleted")), manager(t)
	defer servers.Delete(ctx, compute, stopped.id)
	api, factory, running := kubernetes(t, begun().nodes[0].object(), stopped.object(), deleted.object())
	made, err := nodelifecycle.NewCloudNodeLifecycleController(factory.Core().V1().Nodes(), api, cloud, period)
	check(t, err)
	factory.Start(running.Done())
	go made.Run(running, controllers.NewControllerManagerMetrics("lifecycle"))
	check(t, servers.Stop(ctx, compute, stopped.id).ExtractErr())
	check(t, servers.Delete(ctx, compute, deleted.id).ExtractErr())
	until(t, "the node of the deleted server goes", func() bool {
		_, err := api.CoreV1().Nodes().Get(ctx, deleted.name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	until(t, "the node of the stopped server is tainted", func() bool {
		node, err := api.CoreV1().Nodes().Get(ctx, stopped.name, metav1.GetOptions{})
		check(t, err)
		return slices.ContainsFunc(node.Spec.Taints, func(taint v1.Taint) bool { return taint.Key == shutdown })
	})
	node, err := api.CoreV1().Nodes().Get(ctx, begun().nodes[0].name, metav1.GetOptions{})
	check(t, err)
	equal(t, "the taints of a running server's node", node.Spec.Taints, []v1.Taint{})
}

// routesOf are a manager's routes, with an API that has these nodes.
func routesOf(t *testing.T, router string, nodes ...runtime.Object) (cloudprovider.Routes, *fake.Clientset, informers.SharedInformerFactory, context.Context) {
	t.Helper()
	cloud := manager(t, "[Route]", "router-id = "+router)
	api, factory, running := kubernetes(t, nodes...)
	cloud.(cloudprovider.InformerUser).SetInformers(factory)
	found, supported := cloud.Routes()
	equal(t, "support of routes", supported, true)
	factory.Start(running.Done())
	factory.WaitForCacheSync(running.Done())
	return found, api, factory, running
}

// inCloud are the routes of the router and the allowed addresses of the nodes' ports.
func inCloud(t *testing.T, of *cluster) (map[string]string, map[string][]string) {
	t.Helper()
	router, err := routers.Get(ctx, network, of.router).Extract()
	check(t, err)
	hops, allowed := map[string]string{}, map[string][]string{}
	for _, route := range router.Routes {
		hops[route.DestinationCIDR] = route.NextHop
	}
	for _, node := range of.nodes {
		port, err := ports.Get(ctx, network, node.port).Extract()
		check(t, err)
		for _, pair := range port.AllowedAddressPairs {
			allowed[node.name] = append(allowed[node.name], pair.IPAddress)
		}
		slices.Sort(allowed[node.name])
	}
	return hops, allowed
}

func TestRoutes(t *testing.T) {
	a, b := begun().nodes[0], begun().nodes[1]
	found, _, _, _ := routesOf(t, begun().router, a.object(), b.object())
	list, err := found.ListRoutes(ctx, "kubernetes")
	check(t, err)
	equal(t, "the number of routes", len(list), 0)
	routes := []*cloudprovider.Route{
		{TargetNode: types.NodeName(a.name), DestinationCIDR: "10.244.0.0/24"},
		{TargetNode: types.NodeName(b.name), DestinationCIDR: "10.244.1.0/24"}}
	for _, route := range routes {
		check(t, found.CreateRoute(ctx, "kubernetes", "hint", route))
		check(t, found.CreateRoute(ctx, "kubernetes", "hint", route))
	}
	hops, allowed := inCloud(t, begun())
	equal(t, "the router's routes", hops, map[string]string{"10.244.0.0/24": a.address, "10.244.1.0/24": b.address})
	equal(t, "the ports' allowed addresses", allowed, map[string][]string{
		a.name: {"10.244.0.0/24"}, b.name: {"10.244.1.0/24"}})
	list, err = found.ListRoutes(ctx, "kubernetes")
	check(t, err)
	named := map[types.NodeName]string{}
	for _, route := range list {
		named[route.TargetNode] = route.DestinationCIDR
	}
	equal(t, "the listed routes", named, map[types.NodeName]string{
		types.NodeName(a.name): "10.244.0.0/24", types.NodeName(b.name): "10.244.1.0/24"})
	for _, route := range list {
		check(t, found.DeleteRoute(ctx, "kubernetes", route))
	}
	hops, allowed = inCloud(t, begun())
	equal(t, "routes and allowed addresses afterwards", len(hops)+len(allowed[a.name])+len(allowed[b.name]), 0)
}

func TestRoutesAtOnce(t *testing.T) {
	a := begun().nodes[0]
	found, _, _, _ := routesOf(t, begun().router, a.object())
	_, err := found.ListRoutes(ctx, "kubernetes")
	check(t, err)
	var group sync.WaitGroup
	failed := make(chan error, 10)
	each := func(call func(*cloudprovider.Route) error) {
		for number := range 10 {
			group.Go(func() {
				failed <- call(&cloudprovider.Route{TargetNode: types.NodeName(a.name),
					DestinationCIDR: fmt.Sprintf("10.245.%d.0/24", number)})
			})
		}
		group.Wait()
		for range 10 {
			check(t, <-failed)
		}
	}
	each(func(route *cloudprovider.Route) error { return found.CreateRoute(ctx, "kubernetes", "hint", route) })
	hops, _ := inCloud(t, begun())
	equal(t, "the number of routes", len(hops), 10)
	each(func(route *cloudprovider.Route) error { return found.DeleteRoute(ctx, "kubernetes", route) })
	hops, _ = inCloud(t, begun())
	equal(t, "the number of routes afterwards", len(hops), 0)
	_, err = ports.Update(ctx, network, a.port, ports.UpdateOpts{AllowedAddressPairs: &[]ports.AddressPair{}}).Extract()
	check(t, err)
}

func TestRoutesBlackhole(t *testing.T) {
	a := begun().nodes[0]
	found, api, _, _ := routesOf(t, begun().router, a.object())
	_, err := found.ListRoutes(ctx, "kubernetes")
	check(t, err)
	check(t, found.CreateRoute(ctx, "kubernetes", "hint", &cloudprovider.Route{
		TargetNode: types.NodeName(a.name), DestinationCIDR: "10.246.0.0/24"}))
	check(t, api.CoreV1().Nodes().Delete(ctx, a.name, metav1.DeleteOptions{}))
	var list []*cloudprovider.Route
	until(t, "the route is a black hole", func() bool {
		list, err = found.ListRoutes(ctx, "kubernetes")
		check(t, err)
		return len(list) == 1 && list[0].Blackhole
	})
	equal(t, "its target", list[0].TargetNode, a.address)
	check(t, found.DeleteRoute(ctx, "kubernetes", list[0]))
	hops, _ := inCloud(t, begun())
	equal(t, "the number of routes", len(hops), 0)
	_, err = ports.Update(ctx, network, a.port, ports.UpdateOpts{AllowedAddressPairs: &[]ports.AddressPair{}}).Extract()
	check(t, err)
}

func TestRouteController(t *testing.T) {
	a, b := begun().nodes[0], begun().nodes[1]
	first, second := a.object(), b.object()
	first.Spec.PodCIDR, first.Spec.PodCIDRs = "10.247.0.0/24", []string{"10.247.0.0/24"}
	second.Spec.PodCIDR, second.Spec.PodCIDRs = "10.247.1.0/24", []string{"10.247.1.0/24"}
	found, api, factory, running := routesOf(t, begun().router, first, second)
	_, pods, err := net.ParseCIDR("10.247.0.0/16")
	check(t, err)
	made := routecontroller.New(found, api, factory.Core().V1().Nodes(), "kubernetes", []*net.IPNet{pods})
	go made.Run(running, period, controllers.NewControllerManagerMetrics("route"))
	want := map[string]string{"10.247.0.0/24": a.address, "10.247.1.0/24": b.address}
	until(t, "the nodes have routes", func() bool {
		hops, _ := inCloud(t, begun())
		return fmt.Sprint(hops) == fmt.Sprint(want)
	})
	until(t, "the nodes' network is available", func() bool {
		node, err := api.CoreV1().Nodes().Get(ctx, a.name, metav1.GetOptions{})
		check(t, err)
		return slices.ContainsFunc(node.Status.Conditions, func(condition v1.NodeCondition) bool {
			return condition.Type == v1.NodeNetworkUnavailable && condition.Status == v1.ConditionFalse
		})
	})
	for _, node := range []string{a.name, b.name} {
		check(t, api.CoreV1().Nodes().Delete(ctx, node, metav1.DeleteOptions{}))
	}
	until(t, "the routes go with the nodes", func() bool {
		hops, _ := inCloud(t, begun())
		return len(hops) == 0
	})
}

func TestTwoStacks(t *testing.T) {
	made := build("two-stacks", []string{"10.51.0.0/24", "fd00:51::/64"}, "two-stacks")
	server := made.nodes[0]
	equal(t, "the number of addresses", len(server.addresses), 2)
	six := server.addresses[slices.IndexFunc(server.addresses, func(text string) bool { return strings.Contains(text, ":") })]
	four := server.addresses[slices.IndexFunc(server.addresses, func(text string) bool { return !strings.Contains(text, ":") })]
	shown := func(want []string, more ...string) {
		t.Helper()
		data, err := instances(t, more...).InstanceMetadata(ctx, server.object())
		check(t, err)
		equal(t, "the addresses", addresses(data.NodeAddresses), want)
	}
	shown([]string{"InternalIP " + four, "InternalIP " + six})
	shown([]string{"InternalIP " + four}, "[Networking]", "ipv6-support-disabled = true")
	data, err := instances(t, "[Networking]", "address-sort-order = fd00::/8").InstanceMetadata(ctx, server.object())
	check(t, err)
	equal(t, "the first address", data.NodeAddresses[0].Address, six)

	found, _, _, _ := routesOf(t, made.router, server.object())
	_, err = found.ListRoutes(ctx, "kubernetes")
	check(t, err)
	routes := []*cloudprovider.Route{
		{TargetNode: types.NodeName(server.name), DestinationCIDR: "10.248.0.0/24"},
		{TargetNode: types.NodeName(server.name), DestinationCIDR: "fd00:248::/64"}}
	for _, route := range routes {
		check(t, found.CreateRoute(ctx, "kubernetes", "hint", route))
	}
	hops, allowed := inCloud(t, made)
	equal(t, "the router's routes", hops, map[string]string{"10.248.0.0/24": four, "fd00:248::/64": six})
	equal(t, "the port's allowed addresses", allowed[server.name], []string{"10.248.0.0/24", "fd00:248::/64"})
	for _, route := range routes {
		check(t, found.DeleteRoute(ctx, "kubernetes", route))
	}
	hops, allowed = inCloud(t, made)
	equal(t, "routes and allowed addresses afterwards", len(hops)+len(allowed[server.name]), 0)
}
