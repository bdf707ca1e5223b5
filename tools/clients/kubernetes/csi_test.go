package walk

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cloud-provider-openstack/pkg/csi/cinder"
	"k8s.io/cloud-provider-openstack/pkg/csi/cinder/openstack"
	cpomount "k8s.io/cloud-provider-openstack/pkg/util/mount"
	"k8s.io/mount-utils"
	exec "k8s.io/utils/exec/testing"
)

const gibibyte = 1 << 30

// csiClouds is the driver's client of the cloud, from its configuration file.
func csiClouds(t *testing.T) map[string]openstack.IOpenStack {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cloud.conf")
	check(t, os.WriteFile(file, []byte(global()), 0o600))
	openstack.InitOpenStackProvider([]string{file}, "")
	cloud, err := openstack.CreateOpenStackProvider("")
	check(t, err)
	return map[string]openstack.IOpenStack{"": cloud}
}

// controller is the driver's controller service.
func controller(t *testing.T, claims ...runtime.Object) csi.ControllerServer {
	t.Helper()
	_, factory, running := kubernetes(t, claims...)
	lister := factory.Core().V1().PersistentVolumeClaims().Lister()
	factory.Start(running.Done())
	factory.WaitForCacheSync(running.Done())
	return cinder.NewControllerServer(cinder.NewDriver(&cinder.DriverOpts{
		ClusterID: "kubernetes", WithTopology: true, PVCLister: lister}), csiClouds(t))
}

func capability() *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER}}
}

func request(name string, size int64) *csi.CreateVolumeRequest {
	return &csi.CreateVolumeRequest{Name: name, VolumeCapabilities: []*csi.VolumeCapability{capability()},
		CapacityRange: &csi.CapacityRange{RequiredBytes: size * gibibyte}, Parameters: map[string]string{}}
}

// disk makes a volume that goes with the test.
func disk(t *testing.T, service csi.ControllerServer, asked *csi.CreateVolumeRequest) *csi.Volume {
	t.Helper()
	made, err := service.CreateVolume(ctx, asked)
	check(t, err)
	t.Cleanup(func() {
		if _, err := service.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: made.Volume.VolumeId}); err != nil {
			t.Errorf("unexpected error: %v", err)
		}
	})
	inStatus(t, made.Volume.VolumeId, "available")
	return made.Volume
}

func inStatus(t *testing.T, id, name string) {
	t.Helper()
	until(t, "the volume is "+name, func() bool {
		found, err := volumes.Get(ctx, volume, id).Extract()
		check(t, err)
		return found.Status == name
	})
}

// snapshot makes a snapshot, or a backup, that goes with the test.
func snapshot(t *testing.T, service csi.ControllerServer, name, source string, parameters map[string]string) *csi.Snapshot {
	t.Helper()
	made, err := service.CreateSnapshot(ctx, &csi.CreateSnapshotRequest{Name: name, SourceVolumeId: source, Parameters: parameters})
	check(t, err)
	t.Cleanup(func() {
		if _, err := service.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: made.Snapshot.SnapshotId}); err != nil {
			t.Errorf("unexpected error: %v", err)
		}
	})
	return made.Snapshot
}

func TestVolumeCreateTwice(t *testing.T) {
	service := controller(t)
	made := disk(t, service, request("twice", 1))
	equal(t, "the size", made.CapacityBytes, gibibyte)
	equal(t, "the zone", made.AccessibleTopology[0].Segments, map[string]string{"topology.cinder.csi.openstack.org/zone": zone})
	again, err := service.CreateVolume(ctx, request("twice", 1))
	check(t, err)
	equal(t, "the second answer's volume", again.Volume.VolumeId, made.VolumeId)
	_, err = service.CreateVolume(ctx, request("twice", 2))
	equal(t, "the code of another size", status.Code(err), codes.AlreadyExists)
	found, err := volumes.Get(ctx, volume, made.VolumeId).Extract()
	check(t, err)
	equal(t, "the metadata", found.Metadata, map[string]string{"cinder.csi.openstack.org/cluster": "kubernetes"})
}

func TestVolumeOfTooLargeAQuota(t *testing.T) {
	_, err := controller(t).CreateVolume(ctx, request("large", 5000))
	equal(t, "the code", status.Code(err), codes.ResourceExhausted)
}

func TestVolumeZone(t *testing.T) {
	service, asked := controller(t), request("zone", 1)
	asked.AccessibilityRequirements = &csi.TopologyRequirement{Preferred: []*csi.Topology{{
		Segments: map[string]string{"topology.cinder.csi.openstack.org/zone": zone}}}}
	equal(t, "the zones", len(disk(t, service, asked).AccessibleTopology), 1)
	asked = request("elsewhere", 1)
	asked.Parameters["availability"] = "elsewhere"
	if _, err := service.CreateVolume(ctx, asked); err == nil {
		t.Fatal("Failure: a volume was made in an unknown zone")
	}
}

func TestVolumeAffinity(t *testing.T) {
	first := disk(t, controller(t), request("first", 1))
	service := controller(t, &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "claim", Namespace: "default", Annotations: map[string]string{"cinder.csi.openstack.org/affinity": "first"}}})
	asked := request("second", 1)
	asked.Parameters["csi.storage.k8s.io/pvc/name"], asked.Parameters["csi.storage.k8s.io/pvc/namespace"] = "claim", "default"
	equal(t, "the context", disk(t, service, asked).VolumeContext["affinity"], first.VolumeId)
}

func TestVolumePublish(t *testing.T) {
	service, server := controller(t), begun().nodes[0]
	made := disk(t, service, request("published", 1))
	asked := &csi.ControllerPublishVolumeRequest{
		VolumeId: made.VolumeId, NodeId: server.id, VolumeCapability: capability()}
	for range 2 {
		published, err := service.ControllerPublishVolume(ctx, asked)
		check(t, err)
		equal(t, "the device", published.PublishContext["DevicePath"] != "", true)
	}
	one, err := service.ControllerGetVolume(ctx, &csi.ControllerGetVolumeRequest{VolumeId: made.VolumeId})
	check(t, err)
	equal(t, "the volume's nodes", one.Status.PublishedNodeIds, []string{server.id})
	list, err := service.ListVolumes(ctx, &csi.ListVolumesRequest{})
	check(t, err)
	at := slices.IndexFunc(list.Entries, func(entry *csi.ListVolumesResponse_Entry) bool { return entry.Volume.VolumeId == made.VolumeId })
	equal(t, "the listed volume's nodes", list.Entries[at].Status.PublishedNodeIds, []string{server.id})
	if _, err = service.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: made.VolumeId}); err == nil {
		t.Fatal("Failure: a volume in use was deleted")
	}
	asked.NodeId = begun().nodes[1].id
	if _, err = service.ControllerPublishVolume(ctx, asked); err == nil {
		t.Fatal("Failure: a volume in use was attached to a second server")
	}
	for range 2 {
		_, err = service.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: made.VolumeId, NodeId: server.id})
		check(t, err)
	}
	inStatus(t, made.VolumeId, "available")
}

func TestVolumeForTwoServers(t *testing.T) {
	service, asked := controller(t), request("shared", 1)
	asked.Parameters["type"] = "multiattach"
	made := disk(t, service, asked)
	for _, server := range begun().nodes {
		_, err := service.ControllerPublishVolume(ctx, &csi.ControllerPublishVolumeRequest{
			VolumeId: made.VolumeId, NodeId: server.id, VolumeCapability: capability()})
		check(t, err)
	}
	one, err := service.ControllerGetVolume(ctx, &csi.ControllerGetVolumeRequest{VolumeId: made.VolumeId})
	check(t, err)
	equal(t, "the number of the volume's nodes", len(one.Status.PublishedNodeIds), 2)
	for _, server := range begun().nodes {
		_, err := service.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: made.VolumeId, NodeId: server.id})
		check(t, err)
	}
	inStatus(t, made.VolumeId, "available")
	asked = request("of no type", 1)
	asked.Parameters["type"] = "unknown"
	if _, err = service.CreateVolume(ctx, asked); err == nil {
		t.Fatal("Failure: a volume of an unknown type was made")
	}
}

func TestVolumePublishUnknown(t *testing.T) {
	service, unknown := controller(t), "00000000-0000-4000-8000-000000000000"
	made := disk(t, service, request("unknown", 1))
	_, err := service.ControllerPublishVolume(ctx, &csi.ControllerPublishVolumeRequest{
		VolumeId: unknown, NodeId: begun().nodes[0].id, VolumeCapability: capability()})
	equal(t, "the code of an unknown volume", status.Code(err), codes.NotFound)
	_, err = service.ControllerPublishVolume(ctx, &csi.ControllerPublishVolumeRequest{
		VolumeId: made.VolumeId, NodeId: unknown, VolumeCapability: capability()})
	equal(t, "the code of an unknown server", status.Code(err), codes.NotFound)
	_, err = service.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: made.VolumeId, NodeId: unknown})
	check(t, err)
	_, err = service.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: unknown})
	check(t, err)
}

func TestVolumeExpand(t *testing.T) {
	service, server := controller(t), begun().nodes[0]
	made := disk(t, service, request("expanded", 1))
	size := func(size int64) {
		t.Helper()
		_, err := service.ControllerExpandVolume(ctx, &csi.ControllerExpandVolumeRequest{
			VolumeId: made.VolumeId, CapacityRange: &csi.CapacityRange{RequiredBytes: size * gibibyte}})
		check(t, err)
		found, err := volumes.Get(ctx, volume, made.VolumeId).Extract()
		check(t, err)
		equal(t, "the size", found.Size, size)
	}
	size(2)
	_, err := service.ControllerPublishVolume(ctx, &csi.ControllerPublishVolumeRequest{
		VolumeId: made.VolumeId, NodeId: server.id, VolumeCapability: capability()})
	check(t, err)
	size(3)
	inStatus(t, made.VolumeId, "in-use")
	_, err = service.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: made.VolumeId, NodeId: server.id})
	check(t, err)
}

func TestVolumesInPages(t *testing.T) {
	service := controller(t)
	made := map[string]bool{}
	for number := range 5 {
		made[disk(t, service, request(fmt.Sprint("page-", number), 1)).VolumeId] = true
	}
	for asked := (&csi.ListVolumesRequest{MaxEntries: 2}); ; {
		page, err := service.ListVolumes(ctx, asked)
		check(t, err)
		equal(t, "a page of two at most", len(page.Entries) <= 2, true)
		for _, entry := range page.Entries {
			delete(made, entry.Volume.VolumeId)
		}
		if asked.StartingToken = page.NextToken; page.NextToken == "" {
			break
		}
	}
	equal(t, "the volumes on no page", len(made), 0)
}

func TestSnapshot(t *testing.T) {
	service := controller(t)
	made := disk(t, service, request("original", 1))
	taken := snapshot(t, service, "snapshot", made.VolumeId, map[string]string{"csi.storage.k8s.io/volumesnapshot/name": "claimed"})
	equal(t, "its readiness", taken.ReadyToUse, true)
	equal(t, "its source", taken.SourceVolumeId, made.VolumeId)
	again, err := service.CreateSnapshot(ctx, &csi.CreateSnapshotRequest{Name: "snapshot", SourceVolumeId: made.VolumeId})
	check(t, err)
	equal(t, "the second answer's snapshot", again.Snapshot.SnapshotId, taken.SnapshotId)
	for _, asked := range []*csi.ListSnapshotsRequest{
		{SnapshotId: taken.SnapshotId}, {SourceVolumeId: made.VolumeId}, {SourceVolumeId: made.VolumeId, MaxEntries: 1}} {
		list, err := service.ListSnapshots(ctx, asked)
		check(t, err)
		equal(t, "the number of snapshots", len(list.Entries), 1)
		equal(t, "the listed snapshot", list.Entries[0].Snapshot.SnapshotId, taken.SnapshotId)
	}
	asked := request("restored", 2)
	asked.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
		Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: taken.SnapshotId}}}
	restored := disk(t, service, asked)
	equal(t, "the restored volume's source", restored.ContentSource.GetSnapshot().GetSnapshotId(), taken.SnapshotId)
	equal(t, "the restored volume's size", restored.CapacityBytes, 2*gibibyte)
}

func TestSnapshotOfAVolumeInUse(t *testing.T) {
	service, server := controller(t), begun().nodes[0]
	made := disk(t, service, request("busy", 1))
	_, err := service.ControllerPublishVolume(ctx, &csi.ControllerPublishVolumeRequest{
		VolumeId: made.VolumeId, NodeId: server.id, VolumeCapability: capability()})
	check(t, err)
	if _, err = service.CreateSnapshot(ctx, &csi.CreateSnapshotRequest{Name: "refused", SourceVolumeId: made.VolumeId}); err == nil {
		t.Fatal("Failure: a snapshot of a volume in use was made without force-create")
	}
	snapshot(t, service, "forced", made.VolumeId, map[string]string{"force-create": "true"})
	_, err = service.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: made.VolumeId, NodeId: server.id})
	check(t, err)
}

func TestBackup(t *testing.T) {
	service := controller(t)
	made := disk(t, service, request("saved", 1))
	taken := snapshot(t, service, "backup", made.VolumeId, map[string]string{"type": "backup"})
	asked := request("of a backup", 1)
	asked.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
		Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: taken.SnapshotId}}}
	equal(t, "the restored volume's source", disk(t, service, asked).ContentSource.GetSnapshot().GetSnapshotId(), taken.SnapshotId)
}

func TestClone(t *testing.T) {
	service := controller(t)
	made := disk(t, service, request("cloned", 1))
	asked := request("clone", 1)
	asked.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
		Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: made.VolumeId}}}
	equal(t, "the clone's source", disk(t, service, asked).ContentSource.GetVolume().GetVolumeId(), made.VolumeId)
}

// mounts is a node's mounts: directories without file systems.
type mounts struct {
	cpomount.IMount
	mounter *mount.SafeFormatAndMount
}

func (m *mounts) Mounter() *mount.SafeFormatAndMount   { return m.mounter }
func (m *mounts) ScanForAttach(string) error           { return nil }
func (m *mounts) GetDevicePath(string) (string, error) { return cinder.FakeDevicePath, nil }
func (m *mounts) IsLikelyNotMountPointAttach(path string) (bool, error) {
	return true, os.MkdirAll(path, 0o700)
}
func (m *mounts) UnmountPath(path string) error { return os.RemoveAll(path) }
func (m *mounts) MakeFile(string) error         { return nil }
func (m *mounts) MakeDir(string) error          { return nil }
func (m *mounts) GetDeviceStats(string) (*cpomount.DeviceStats, error) {
	return cinder.FakeFsStats, nil
}
func (m *mounts) GetMountFs(string) ([]byte, error) { return []byte("ext4"), nil }

// GetInstanceID and GetAvailabilityZone make a server the metadata service of itself.
func (n node) GetInstanceID() (string, error)       { return n.id, nil }
func (n node) GetAvailabilityZone() (string, error) { return zone, nil }

// TestSanity runs csi-test, the conformance tests of CSI drivers, on the driver with this cloud.
func TestSanity(t *testing.T) {
	endpoint := "unix://" + filepath.Join(t.TempDir(), "csi")
	driver := cinder.NewDriver(&cinder.DriverOpts{ClusterID: "sanity", Endpoint: endpoint, WithTopology: true})
	driver.SetupControllerService(csiClouds(t))
	driver.SetupNodeService(&mounts{mounter: &mount.SafeFormatAndMount{
		Interface: mount.NewFakeMounter(nil), Exec: &exec.FakeExec{DisableScripts: true}}},
		begun().nodes[0], openstack.BlockStorageOpts{}, map[string]string{})
	go driver.Run()
	config := sanity.NewTestConfig()
	config.Address, config.TestVolumeSize = endpoint, gibibyte
	config.TargetPath, config.StagingPath = filepath.Join(t.TempDir(), "mount"), filepath.Join(t.TempDir(), "stage")
	config.IdempotentCount = 2
	sanity.Test(t, config)
}
