"""The EC2 driver of apache-libcloud against a cloud; run by tools/ec2_walk.py in an environment of its own."""
import os
import time
import urllib.parse

from libcloud.compute import base
from libcloud.compute import providers
from libcloud.compute import types

URL = urllib.parse.urlsplit(os.environ['AWS_ENDPOINT_URL'])
WAIT_S = 60


def until(what, done):
    deadline = time.monotonic() + WAIT_S
    while not (found := done()):
        if time.monotonic() > deadline:
            raise RuntimeError(f'{what}: not within {WAIT_S} s')
        time.sleep(0.2)
    return found


def main():
    cls = providers.get_driver(types.Provider.EC2)
    driver = cls(os.environ['AWS_ACCESS_KEY_ID'], os.environ['AWS_SECRET_ACCESS_KEY'], secure=False, host=URL.hostname,
                 port=URL.port, region='us-east-1',
                 signature_version='2')        # its version 4 leaves the port out of the host
    driver.path = URL.path                       # below which EC2 has it, and this cloud something else

    def step(name, function, /, *args, **more):
        found = function(*args, **more)
        print('ok     libcloud', name, flush=True)
        return found

    def node():
        return driver.list_nodes(ex_node_ids=[made.id])[0]
    driver.region_name = os.environ['AWS_REGION']
    here = step('list_locations', driver.list_locations)[0]
    step('ex_list_availability_zones', driver.ex_list_availability_zones)
    image = step('list_images', driver.list_images, ex_owner='self')[0]
    step('get_image', driver.get_image, image.id)
    step('create_key_pair', driver.create_key_pair, 'libcloud')
    step('list_key_pairs', driver.list_key_pairs)
    group = step('ex_create_security_group', driver.ex_create_security_group, 'libcloud', 'walk')
    step('ex_authorize_security_group_ingress', driver.ex_authorize_security_group_ingress, group['group_id'], 22, 22,
         cidr_ips=['10.0.0.0/8'])
    step('ex_get_security_groups', driver.ex_get_security_groups)
    step('ex_revoke_security_group_ingress', driver.ex_revoke_security_group_ingress, group['group_id'], 22, 22,
         cidr_ips=['10.0.0.0/8'])
    step('ex_list_networks', driver.ex_list_networks)
    subnet = next(row for row in step('ex_list_subnets', driver.ex_list_subnets)
                  if row.extra['cidr_block'] == os.environ['EC2_WALK_CIDR'])
    size = base.NodeSize('m1.tiny', 'm1.tiny', 512, 1, 0, 0, driver)
    made = step('create_node', driver.create_node, name='libcloud', image=image, size=size, ex_keyname='libcloud',
                ex_security_group_ids=[group['group_id']], ex_subnet=subnet, ex_userdata='#!/bin/sh',
                ex_metadata={'by': 'libcloud'})
    until('running', lambda: node().state == types.NodeState.RUNNING)
    step('list_nodes', driver.list_nodes)
    step('ex_create_tags', driver.ex_create_tags, made, {'a': 'b'})
    step('ex_describe_tags', driver.ex_describe_tags, made)
    step('ex_delete_tags', driver.ex_delete_tags, made, {'a': 'b'})
    step('ex_get_console_output', driver.ex_get_console_output, made)
    step('ex_describe_all_addresses', driver.ex_describe_all_addresses)
    address = step('ex_allocate_address', driver.ex_allocate_address, domain='vpc')
    step('ex_associate_address_with_node', driver.ex_associate_address_with_node, made, address, domain='vpc')
    address = next(row for row in driver.ex_describe_all_addresses() if row.ip == address.ip)
    step('ex_disassociate_address', driver.ex_disassociate_address, address, domain='vpc')
    step('ex_release_address', driver.ex_release_address, address, domain='vpc')
    volume = step('create_volume', driver.create_volume, 1, 'libcloud', location=here)

    def volume_is(state):
        return next(row for row in driver.list_volumes() if row.id == volume.id).extra['state'] == state
    until('volume', lambda: volume_is('available'))
    step('attach_volume', driver.attach_volume, made, volume, '/dev/vdb')
    until('attached', lambda: volume_is('in-use'))
    step('detach_volume', driver.detach_volume, volume)
    until('detached', lambda: volume_is('available'))
    snapshot = step('create_volume_snapshot', driver.create_volume_snapshot, volume, 'libcloud')
    until('snapshot', lambda: next(row for row in driver.list_snapshots(owner='self') if row.id == snapshot.id).extra[
        'state'] == 'completed')
    step('destroy_volume_snapshot', driver.destroy_volume_snapshot, snapshot)
    until('volume', lambda: volume_is('available'))
    step('destroy_volume', driver.destroy_volume, volume)
    step('reboot_node', driver.reboot_node, made)
    until('running', lambda: node().state == types.NodeState.RUNNING)
    step('stop_node', driver.stop_node, made)
    until('stopped', lambda: node().state == types.NodeState.STOPPED)
    step('start_node', driver.start_node, made)
    until('running', lambda: node().state == types.NodeState.RUNNING)
    copy = step('create_image', driver.create_image, made, 'libcloud')
    until('image', lambda: driver.get_image(copy.id).extra['state'] == 'available')
    step('delete_image', driver.delete_image, copy)
    step('destroy_node', driver.destroy_node, made)
    until('gone', lambda: node().state in (types.NodeState.TERMINATED, types.NodeState.UNKNOWN))
    step('ex_delete_security_group_by_id', driver.ex_delete_security_group_by_id, group['group_id'])
    step('delete_key_pair', driver.delete_key_pair, driver.get_key_pair('libcloud'))


if __name__ == '__main__':
    main()
