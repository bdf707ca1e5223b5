"""Unsupported operations of EC2, with the reason. Unlisted names are invalid actions."""
from __future__ import annotations

# (reason, names)
REASONS = (
    ('Spot instances are not supported.',
     'RequestSpotInstances DescribeSpotInstanceRequests CancelSpotInstanceRequests DescribeSpotPriceHistory '
     'RequestSpotFleet DescribeSpotFleetRequests CancelSpotFleetRequests CreateSpotDatafeedSubscription '
     'DescribeSpotDatafeedSubscription DeleteSpotDatafeedSubscription'),
    ('Reservations and sales are not supported.',
     'DescribeReservedInstances DescribeReservedInstancesOfferings PurchaseReservedInstancesOffering '
     'DescribeReservedInstancesListings DescribeReservedInstancesModifications CreateCapacityReservation '
     'DescribeCapacityReservations CancelCapacityReservation'),
    ('Dedicated hosts are not supported.', 'AllocateHosts DescribeHosts ModifyHosts ReleaseHosts'),
    ('Fleets are not supported: RunInstances starts up to MaxCount instances.',
     'CreateFleet DescribeFleets ModifyFleet DeleteFleets'),
    ('Network ACLs are not supported: use security groups.',
     'CreateNetworkAcl DescribeNetworkAcls DeleteNetworkAcl CreateNetworkAclEntry DeleteNetworkAclEntry '
     'ReplaceNetworkAclEntry ReplaceNetworkAclAssociation'),
    ('NAT gateways are not supported: an attached internet gateway translates addresses for all instances.',
     'CreateNatGateway DescribeNatGateways DeleteNatGateway'),
    ('VPCs cannot be connected with each other or with external networks.',
     'CreateVpcPeeringConnection DescribeVpcPeeringConnections AcceptVpcPeeringConnection DeleteVpcPeeringConnection '
     'CreateVpnConnection DescribeVpnConnections DeleteVpnConnection CreateVpnGateway DescribeVpnGateways '
     'DeleteVpnGateway AttachVpnGateway DetachVpnGateway CreateCustomerGateway DescribeCustomerGateways '
     'DeleteCustomerGateway CreateTransitGateway DescribeTransitGateways DeleteTransitGateway '
     'CreateVpcEndpoint DescribeVpcEndpoints DeleteVpcEndpoints'),
    ('Egress-only internet gateways are not supported: routes are IPv4 only.',
     'CreateEgressOnlyInternetGateway DescribeEgressOnlyInternetGateways DeleteEgressOnlyInternetGateway'),
    ('Snapshots cannot be shared with other projects: create an image and share it.', 'ModifySnapshotAttribute '
     'ResetSnapshotAttribute'),
    ('The I/O of volumes cannot be disabled: DescribeVolumeStatus shows their status.',
     'EnableVolumeIO ModifyVolumeAttribute'),
    ('Copies between regions are not supported: there is one region.', 'CopyImage CopySnapshot'),
    ('Import and export tasks are not supported: use the image service, or RegisterImage with a bundle.',
     'ImportImage DescribeImportImageTasks ImportSnapshot DescribeImportSnapshotTasks CancelImportTask '
     'ImportInstance ImportVolume ExportImage DescribeExportImageTasks CreateInstanceExportTask DescribeExportTasks '
     'BundleInstance DescribeBundleTasks CancelBundleTask CreateStoreImageTask DescribeStoreImageTasks'),
    ('Only the description of a rule can be modified: revoke it and authorize another one.',
     'ModifySecurityGroupRules'),
    ('Flow logs are not supported.', 'CreateFlowLogs DescribeFlowLogs DeleteFlowLogs'),
)
OF: dict[str, str] = {name: reason for reason, names in REASONS for name in names.split()}
