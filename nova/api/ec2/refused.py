"""Operations of EC2 that this cloud has nothing for, with the reason. All that stand nowhere are no valid action."""
from __future__ import annotations

# (reason, names)
REASONS = (
    ('This cloud has no spot instances.',
     'RequestSpotInstances DescribeSpotInstanceRequests CancelSpotInstanceRequests DescribeSpotPriceHistory '
     'RequestSpotFleet DescribeSpotFleetRequests CancelSpotFleetRequests CreateSpotDatafeedSubscription '
     'DescribeSpotDatafeedSubscription DeleteSpotDatafeedSubscription'),
    ('Nothing is reserved or sold here.',
     'DescribeReservedInstances DescribeReservedInstancesOfferings PurchaseReservedInstancesOffering '
     'DescribeReservedInstancesListings DescribeReservedInstancesModifications CreateCapacityReservation '
     'DescribeCapacityReservations CancelCapacityReservation'),
    ('Projects have no hosts of their own.', 'AllocateHosts DescribeHosts ModifyHosts ReleaseHosts'),
    ('Fleets are not made by this cloud: RunInstances starts up to MaxCount instances.',
     'CreateFleet DescribeFleets ModifyFleet DeleteFleets'),
    ('Security groups alone filter what reaches instances.',
     'CreateNetworkAcl DescribeNetworkAcls DeleteNetworkAcl CreateNetworkAclEntry DeleteNetworkAclEntry '
     'ReplaceNetworkAclEntry ReplaceNetworkAclAssociation'),
    ('An attached internet gateway translates addresses for all instances: NAT gateways are not there.',
     'CreateNatGateway DescribeNatGateways DeleteNatGateway'),
    ('VPCs are not joined with each other or with networks elsewhere.',
     'CreateVpcPeeringConnection DescribeVpcPeeringConnections AcceptVpcPeeringConnection DeleteVpcPeeringConnection '
     'CreateVpnConnection DescribeVpnConnections DeleteVpnConnection CreateVpnGateway DescribeVpnGateways '
     'DeleteVpnGateway AttachVpnGateway DetachVpnGateway CreateCustomerGateway DescribeCustomerGateways '
     'DeleteCustomerGateway CreateTransitGateway DescribeTransitGateways DeleteTransitGateway '
     'CreateVpcEndpoint DescribeVpcEndpoints DeleteVpcEndpoints'),
    ('Routes are of IPv4, in route tables; nothing is carried on by a gateway of IPv6.',
     'CreateEgressOnlyInternetGateway DescribeEgressOnlyInternetGateways DeleteEgressOnlyInternetGateway'),
    ('Other projects get no snapshot of yours: make an image of it and share that.', 'ModifySnapshotAttribute '
     'ResetSnapshotAttribute'),
    ('A volume is read and written, or in error: what it is in is shown by DescribeVolumeStatus.',
     'EnableVolumeIO ModifyVolumeAttribute'),
    ('There is one region.', 'CopyImage CopySnapshot'),
    ('Disks are imported by the image service, or by RegisterImage as a bundle.',
     'ImportImage DescribeImportImageTasks ImportSnapshot DescribeImportSnapshotTasks CancelImportTask '
     'ImportInstance ImportVolume ExportImage DescribeExportImageTasks CreateInstanceExportTask DescribeExportTasks '
     'BundleInstance DescribeBundleTasks CancelBundleTask CreateStoreImageTask DescribeStoreImageTasks'),
    ('A rule keeps its id as long as it is what it was: revoke it and authorize another one; descriptions change.',
     'ModifySecurityGroupRules'),
    ('Traffic is not recorded.', 'CreateFlowLogs DescribeFlowLogs DeleteFlowLogs'),
)
OF: dict[str, str] = {name: reason for reason, names in REASONS for name in names.split()}
