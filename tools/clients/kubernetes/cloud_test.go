// Package walk runs the controllers of Kubernetes' cloud-provider-openstack and its Cinder CSI driver, unmodified,
// against a cloud whose address and account are in the environment. The Kubernetes API is client-go's fake one.
package walk

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	wait     = 60 * time.Second // for a change that the cloud has accepted
	microver = "2.90"           // with the flavor in the server
)

var (
	ctx     = context.Background()
	compute *gophercloud.ServiceClient
	network *gophercloud.ServiceClient
	volume  *gophercloud.ServiceClient
	begun   = sync.OnceValue(func() *cluster { return build("nodes", []string{"10.50.0.0/24"}, "node-a", "node-b") })
	zone    = "nova"
	public  = os.Getenv("OS_EXTGW_ID")
	region  = os.Getenv("OS_REGION_NAME")
)

// A cluster is a network with a router and two servers that are nodes.
type cluster struct {
	network, router string
	subnets         []string
	nodes           []node
}

type node struct {
	id, name, port, address string
	addresses               []string
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// check ends a test because of an error.
func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
}

// equal ends a test unless two values print alike.
func equal(t *testing.T, what string, is, should any) {
	t.Helper()
	if fmt.Sprint(is) != fmt.Sprint(should) {
		t.Fatalf("Failure: %s is %v, must be %v", what, is, should)
	}
}

// until waits until a condition holds.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(wait); !condition(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("Failure: not after %v: %s", wait, what)
		}
	}
}

// build makes a cluster with subnets of these ranges.
func build(name string, ranges []string, nodes ...string) *cluster {
	made := &cluster{network: must(networks.Create(ctx, network, networks.CreateOpts{Name: name}).Extract()).ID}
	made.router = must(routers.Create(ctx, network, routers.CreateOpts{
		Name: name, GatewayInfo: &routers.GatewayInfo{NetworkID: public}}).Extract()).ID
	for _, cidr := range ranges {
		asked := subnets.CreateOpts{NetworkID: made.network, CIDR: cidr, IPVersion: gophercloud.IPv4}
		if strings.Contains(cidr, ":") {
			asked.IPVersion, asked.IPv6AddressMode, asked.IPv6RAMode = gophercloud.IPv6, "slaac", "slaac"
		}
		subnet := must(subnets.Create(ctx, network, asked).Extract()).ID
		must(routers.AddInterface(ctx, network, made.router, routers.AddInterfaceOpts{SubnetID: subnet}).Extract())
		made.subnets = append(made.subnets, subnet)
	}
	for _, name := range nodes {
		made.nodes = append(made.nodes, made.boot(made.open(name)))
	}
	return made
}

// open makes a port of a node.
func (c *cluster) open(name string) *ports.Port {
	return must(ports.Create(ctx, network, ports.CreateOpts{Name: name, NetworkID: c.network}).Extract())
}

// boot makes a server with a port of its own, as CAPO does.
func (c *cluster) boot(port *ports.Port) node {
	server := must(servers.Create(ctx, compute, servers.CreateOpts{
		Name: port.Name, ImageRef: os.Getenv("OS_IMAGE_ID"), FlavorRef: os.Getenv("OS_FLAVOR_ID"), AvailabilityZone: zone,
		Networks: []servers.Network{{Port: port.ID}}}, nil).Extract())
	if err := servers.WaitForStatus(ctx, compute, server.ID, "ACTIVE"); err != nil {
		panic(err)
	}
	made := node{id: server.ID, name: port.Name, port: port.ID}
	for _, fixed := range port.FixedIPs {
		made.addresses = append(made.addresses, fixed.IPAddress)
	}
	made.address = made.addresses[0]
	return made
}

// object is a node as its kubelet registers it.
func (n node) object() *v1.Node {
	made := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name}, Spec: v1.NodeSpec{ProviderID: "openstack:///" + n.id}}
	for _, address := range n.addresses {
		made.Status.Addresses = append(made.Status.Addresses, v1.NodeAddress{Type: v1.NodeInternalIP, Address: address})
	}
	return made
}

func TestMain(m *testing.M) {
	options := must(openstack.AuthOptionsFromEnv())
	options.AllowReauth = true
	provider := must(openstack.AuthenticatedClient(ctx, options))
	where := gophercloud.EndpointOpts{Region: region}
	compute = must(openstack.NewComputeV2(provider, where))
	compute.Microversion = microver
	network = must(openstack.NewNetworkV2(provider, where))
	volume = must(openstack.NewBlockStorageV3(provider, where))
	os.Exit(m.Run())
}
