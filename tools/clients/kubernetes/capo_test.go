package walk

import (
	"os"
	"slices"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/keypairs"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servergroups"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/attributestags"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/portsbinding"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/portsecurity"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/rules"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/trunks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	"k8s.io/utils/ptr"
)

// The calls of the Cluster API provider (CAPO) for a cluster and a machine, in its order. Its module is not used.

const (
	described = "Created by cluster-api-provider-openstack cluster default-capo"
	capoMicro = "2.60" // the one that it sets
)

var capoTags = []string{"cluster-api-provider-openstack", "capo"}

func tag(t *testing.T, kind, id string) {
	t.Helper()
	tags, err := attributestags.ReplaceAll(ctx, network, kind, id, attributestags.ReplaceAllOpts{Tags: capoTags}).Extract()
	check(t, err)
	slices.Sort(tags)
	equal(t, "the tags of "+kind, tags, slices.Sorted(slices.Values(capoTags)))
}

func gone(t *testing.T, what string, err error) {
	t.Helper()
	equal(t, what+" is gone", gophercloud.ResponseCodeIs(err, 404), true)
}

func TestCapoNetwork(t *testing.T) {
	made, err := networks.Create(ctx, network, networks.CreateOpts{Name: "capo", AdminStateUp: ptr.To(true), Description: described}).Extract()
	check(t, err)
	tag(t, "networks", made.ID)
	subnet, err := subnets.Create(ctx, network, subnets.CreateOpts{NetworkID: made.ID, Name: "capo", IPVersion: 4,
		CIDR: "10.70.0.0/24", DNSNameservers: []string{"10.9.9.9"}, Description: described,
		AllocationPools: []subnets.AllocationPool{{Start: "10.70.0.10", End: "10.70.0.100"}}}).Extract()
	check(t, err)
	tag(t, "subnets", subnet.ID)
	for _, asked := range []networks.ListOpts{{Name: "capo"}, {Tags: "capo"}, {TagsAny: "capo,other"}, {Tags: "capo", NotTags: "other"}} {
		pages, err := networks.List(network, asked).AllPages(ctx)
		check(t, err)
		found, err := networks.ExtractNetworks(pages)
		check(t, err)
		equal(t, "the number of networks", len(found), 1)
		equal(t, "the network", found[0].ID, made.ID)
	}
	router, err := routers.Create(ctx, network, routers.CreateOpts{Name: "capo", Description: described}).Extract()
	check(t, err)
	tag(t, "routers", router.ID)
	router, err = routers.Update(ctx, network, router.ID, routers.UpdateOpts{GatewayInfo: &routers.GatewayInfo{
		NetworkID: public}}).Extract()
	check(t, err)
	equal(t, "the addresses of the gateway", len(router.GatewayInfo.ExternalFixedIPs), 1)
	_, err = routers.AddInterface(ctx, network, router.ID, routers.AddInterfaceOpts{SubnetID: subnet.ID}).Extract()
	check(t, err)
	pages, err := ports.List(network, ports.ListOpts{DeviceID: router.ID}).AllPages(ctx)
	check(t, err)
	interfaces, err := ports.ExtractPorts(pages)
	check(t, err)
	equal(t, "an interface in the subnet", slices.ContainsFunc(interfaces, func(port ports.Port) bool {
		return port.FixedIPs[0].SubnetID == subnet.ID
	}), true)
	equal(t, "a conflict of a network in use", gophercloud.ResponseCodeIs(networks.Delete(ctx, network, made.ID).ExtractErr(), 409), true)
	_, err = routers.RemoveInterface(ctx, network, router.ID, routers.RemoveInterfaceOpts{SubnetID: subnet.ID}).Extract()
	check(t, err)
	_, err = routers.RemoveInterface(ctx, network, router.ID, routers.RemoveInterfaceOpts{SubnetID: subnet.ID}).Extract()
	gone(t, "the interface", err)
	check(t, routers.Delete(ctx, network, router.ID).ExtractErr())
	check(t, networks.Delete(ctx, network, made.ID).ExtractErr())
	gone(t, "the subnet", subnets.Delete(ctx, network, subnet.ID).ExtractErr())
}

func TestCapoSecurityGroups(t *testing.T) {
	made := map[string]*groups.SecGroup{}
	for _, name := range []string{"capo-controlplane", "capo-worker"} {
		group, err := groups.Create(ctx, network, groups.CreateOpts{Name: name, Description: "Cluster API managed group"}).Extract()
		check(t, err)
		tag(t, "security-groups", group.ID)
		made[name] = group
	}
	control, worker := made["capo-controlplane"].ID, made["capo-worker"].ID
	for _, rule := range []rules.CreateOpts{
		{SecGroupID: control, Direction: rules.DirIngress, EtherType: rules.EtherType4, Protocol: rules.ProtocolTCP,
			PortRangeMin: 6443, PortRangeMax: 6443, Description: "Kubernetes API"},
		{SecGroupID: control, Direction: rules.DirIngress, EtherType: rules.EtherType4, RemoteGroupID: worker},
		{SecGroupID: worker, Direction: rules.DirIngress, EtherType: rules.EtherType4, RemoteGroupID: control},
		{SecGroupID: worker, Direction: rules.DirIngress, EtherType: rules.EtherType4, Protocol: "4", RemoteGroupID: worker, Description: "IP-in-IP"},
		{SecGroupID: worker, Direction: rules.DirIngress, EtherType: rules.EtherType4, Protocol: rules.ProtocolTCP,
			PortRangeMin: 30000, PortRangeMax: 32767, RemoteIPPrefix: "0.0.0.0/0"},
	} {
		_, err := rules.Create(ctx, network, rule).Extract()
		check(t, err)
		_, err = rules.Create(ctx, network, rule).Extract()
		equal(t, "a conflict of the same rule", gophercloud.ResponseCodeIs(err, 409), true)
	}
	pages, err := groups.List(network, groups.ListOpts{Name: "capo-worker", Tags: "capo"}).AllPages(ctx)
	check(t, err)
	found, err := groups.ExtractGroups(pages)
	check(t, err)
	equal(t, "the number of groups", len(found), 1)
	equal(t, "the number of rules", len(found[0].Rules), 5)
	for _, rule := range found[0].Rules {
		check(t, rules.Delete(ctx, network, rule.ID).ExtractErr())
	}
	check(t, groups.Delete(ctx, network, control).ExtractErr())
	check(t, groups.Delete(ctx, network, worker).ExtractErr())
}

// TestCapoMachine makes a machine with all that its specification can name: ports with trunks, volumes, a group, tags.
func TestCapoMachine(t *testing.T) {
	capo := *compute
	capo.Microversion = capoMicro
	key, err := keypairs.Create(ctx, &capo, keypairs.CreateOpts{Name: "capo"}).Extract()
	check(t, err)
	capo.Microversion = "2.64"
	group, err := servergroups.Create(ctx, &capo, servergroups.CreateOpts{Name: "capo", Policy: "soft-anti-affinity"}).Extract()
	check(t, err)
	capo.Microversion = capoMicro
	security, err := groups.Create(ctx, network, groups.CreateOpts{Name: "capo-machine"}).Extract()
	check(t, err)

	port, err := ports.Create(ctx, network, portsbinding.CreateOptsExt{VNICType: "normal", CreateOptsBuilder: ports.CreateOpts{
		Name: "machine-0", NetworkID: begun().network, Description: described, SecurityGroups: &[]string{security.ID},
		FixedIPs:            []ports.IP{{SubnetID: begun().subnets[0]}},
		AllowedAddressPairs: []ports.AddressPair{{IPAddress: "10.244.0.0/16"}}}}).Extract()
	check(t, err)
	tag(t, "ports", port.ID)
	trunk, err := trunks.Create(ctx, network, trunks.CreateOpts{Name: port.Name, PortID: port.ID, Description: described}).Extract()
	check(t, err)
	tag(t, "trunks", trunk.ID)
	open, err := ports.Create(ctx, network, portsecurity.PortCreateOptsExt{PortSecurityEnabled: ptr.To(false),
		CreateOptsBuilder: ports.CreateOpts{Name: "machine-1", NetworkID: begun().network, SecurityGroups: &[]string{}}}).Extract()
	check(t, err)

	disks := map[string]string{}
	for name, image := range map[string]string{"machine-root": os.Getenv("OS_IMAGE_ID"), "machine-etcd": ""} {
		pages, err := volumes.List(volume, volumes.ListOpts{Name: name}).AllPages(ctx)
		check(t, err)
		found, err := volumes.ExtractVolumes(pages)
		check(t, err)
		equal(t, "volumes of the name", len(found), 0)
		made, err := volumes.Create(ctx, volume, volumes.CreateOpts{Name: name, Description: "of machine", Size: 1, ImageID: image,
			AvailabilityZone: zone}, nil).Extract()
		check(t, err)
		inStatus(t, made.ID, "available")
		disks[name] = made.ID
	}
	server, err := servers.Create(ctx, &capo, keypairs.CreateOptsExt{KeyName: key.Name, CreateOptsBuilder: servers.CreateOpts{
		Name: "machine", FlavorRef: os.Getenv("OS_FLAVOR_ID"), AvailabilityZone: zone, UserData: []byte("#cloud-config\n"),
		Tags: []string{"capo-tag"}, Metadata: map[string]string{"cluster": "capo"}, ConfigDrive: ptr.To(true),
		Networks: []servers.Network{{Port: port.ID}, {Port: open.ID}},
		BlockDevice: []servers.BlockDevice{
			{SourceType: servers.SourceVolume, DestinationType: servers.DestinationVolume, UUID: disks["machine-root"], BootIndex: 0,
				DeleteOnTermination: true},
			{SourceType: servers.SourceVolume, DestinationType: servers.DestinationVolume, UUID: disks["machine-etcd"], BootIndex: -1,
				DeleteOnTermination: true, Tag: "etcd"}}}},
		servers.SchedulerHintOpts{Group: group.ID, AdditionalProperties: map[string]any{"query": `[">=","$free_ram_mb",1]`}}).Extract()
	check(t, err)
	check(t, servers.WaitForStatus(ctx, &capo, server.ID, "ACTIVE"))
	server, err = servers.Get(ctx, &capo, server.ID).Extract()
	check(t, err)
	equal(t, "the zone", server.AvailabilityZone, zone)
	equal(t, "the tags", *server.Tags, []string{"capo-tag"})
	equal(t, "the number of volumes", len(server.AttachedVolumes), 2)

	address, err := floatingips.Create(ctx, network, floatingips.CreateOpts{FloatingNetworkID: public, Description: described}).Extract()
	check(t, err)
	tag(t, "floatingips", address.ID)
	pages, err := ports.List(network, ports.ListOpts{DeviceID: server.ID, FixedIPs: []ports.FixedIPOpts{{
		IPAddress: port.FixedIPs[0].IPAddress}}, Limit: 1}).AllPages(ctx)
	check(t, err)
	found, err := ports.ExtractPorts(pages)
	check(t, err)
	equal(t, "the ports of the address", len(found), 1)
	equal(t, "the port of the address", found[0].ID, port.ID)
	state := func(port *string, status string) {
		t.Helper()
		_, err := floatingips.Update(ctx, network, address.ID, floatingips.UpdateOpts{PortID: port}).Extract()
		check(t, err)
		until(t, "the address is "+status, func() bool {
			found, err := floatingips.Get(ctx, network, address.ID).Extract()
			check(t, err)
			return found.Status == status
		})
	}
	state(&port.ID, "ACTIVE")
	state(new(string), "DOWN") // null
	check(t, floatingips.Delete(ctx, network, address.ID).ExtractErr())

	check(t, servers.Delete(ctx, &capo, server.ID).ExtractErr())
	until(t, "the server is gone", func() bool {
		_, err := servers.Get(ctx, &capo, server.ID).Extract()
		return gophercloud.ResponseCodeIs(err, 404)
	})
	subports, err := trunks.GetSubports(ctx, network, trunk.ID).Extract()
	check(t, err)
	equal(t, "the number of subports", len(subports), 0)
	equal(t, "a conflict of a port with a trunk", gophercloud.ResponseCodeIs(ports.Delete(ctx, network, port.ID).ExtractErr(), 409), true)
	check(t, trunks.Delete(ctx, network, trunk.ID).ExtractErr())
	check(t, ports.Delete(ctx, network, port.ID).ExtractErr())
	check(t, ports.Delete(ctx, network, open.ID).ExtractErr())
	for _, id := range disks {
		until(t, "the volume is gone", func() bool {
			_, err := volumes.Get(ctx, volume, id).Extract()
			return gophercloud.ResponseCodeIs(err, 404)
		})
	}
	check(t, groups.Delete(ctx, network, security.ID).ExtractErr())
	check(t, servergroups.Delete(ctx, &capo, group.ID).ExtractErr())
	check(t, keypairs.Delete(ctx, &capo, key.Name, nil).ExtractErr())
}

// TestCapoExternalPort finds the port through which a server reaches the external network.
func TestCapoExternalPort(t *testing.T) {
	pages, err := ports.List(network, owners{Owner: []string{"network:router_interface", "network:router_interface_distributed",
		"network:ha_router_replicated_interface"}, NetworkID: begun().network}).AllPages(ctx)
	check(t, err)
	found, err := ports.ExtractPorts(pages)
	check(t, err)
	equal(t, "the number of interfaces", len(found), 1)
	router, err := routers.Get(ctx, network, found[0].DeviceID).Extract()
	check(t, err)
	equal(t, "the external network", router.GatewayInfo.NetworkID, public)
}

type owners struct {
	Owner     []string `q:"device_owner"`
	NetworkID string   `q:"network_id"`
}

func (o owners) ToPortListQuery() (string, error) {
	query, err := gophercloud.BuildQueryString(o)
	return query.String(), err
}
