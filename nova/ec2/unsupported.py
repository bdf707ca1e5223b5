"""Unsupported operations of EC2, with the reason. Names outside of this table are answered with InvalidAction."""
# (reason, names)
REASONS = (
    ('Spot instances are not supported.',
     'RequestSpotInstances CancelSpotInstanceRequests RequestSpotFleet CancelSpotFleetRequests '
     'CreateSpotDatafeedSubscription DescribeSpotDatafeedSubscription DeleteSpotDatafeedSubscription'),
    ('Reservations and sales are not supported.',
     'PurchaseReservedInstancesOffering CreateCapacityReservation CancelCapacityReservation'),
    ('Dedicated hosts are not supported.',
     'AllocateHosts ModifyHosts ReleaseHosts'),
    ('Fleets are not supported: RunInstances starts up to MaxCount instances.',
     'CreateFleet ModifyFleet DeleteFleets'),
    ('Network ACLs are not supported: use security groups.',
     'CreateNetworkAcl DeleteNetworkAcl CreateNetworkAclEntry DeleteNetworkAclEntry ReplaceNetworkAclEntry '
     'ReplaceNetworkAclAssociation'),
    ('NAT gateways are not supported: an attached internet gateway translates addresses for all instances.',
     'CreateNatGateway DeleteNatGateway'),
    ('VPCs cannot be connected with each other or with external networks.',
     'CreateVpcPeeringConnection AcceptVpcPeeringConnection DeleteVpcPeeringConnection CreateVpnConnection '
     'DeleteVpnConnection CreateVpnGateway DeleteVpnGateway AttachVpnGateway DetachVpnGateway CreateCustomerGateway '
     'DeleteCustomerGateway CreateTransitGateway DeleteTransitGateway CreateVpcEndpoint DeleteVpcEndpoints'),
    ('Egress-only internet gateways are not supported: routes are IPv4 only.',
     'CreateEgressOnlyInternetGateway DeleteEgressOnlyInternetGateway'),
    ('Snapshots cannot be shared with other projects: create an image and share it.',
     'ModifySnapshotAttribute ResetSnapshotAttribute'),
    ('The I/O of volumes cannot be disabled: DescribeVolumeStatus shows their status.',
     'EnableVolumeIO ModifyVolumeAttribute'),
    ('Copies between regions are not supported: there is one region.',
     'CopyImage CopySnapshot'),
    ('Import and export tasks are not supported: use the image service, or RegisterImage with a bundle.',
     'ImportImage ImportSnapshot CancelImportTask ImportInstance ImportVolume ExportImage CreateInstanceExportTask '
     'BundleInstance CancelBundleTask CreateStoreImageTask'),
    ('There is no detailed monitoring.', 'MonitorInstances'),
    ('Flow logs are not supported.',
     'CreateFlowLogs DeleteFlowLogs'),
)
OF: dict[str, str] = {name: reason for reason, names in REASONS for name in names.split()}
