resource "openstack_networking_network_v2" "this" {
  count = 10
  name  = "tf-many-${count.index}"
}

resource "openstack_networking_subnet_v2" "this" {
  count      = 10
  network_id = openstack_networking_network_v2.this[count.index].id
  cidr       = "192.168.${100 + count.index}.0/24"
}

resource "openstack_networking_port_v2" "this" {
  count      = 10
  network_id = openstack_networking_network_v2.this[count.index].id
  fixed_ip {
    subnet_id = openstack_networking_subnet_v2.this[count.index].id
  }
}

resource "openstack_blockstorage_volume_v3" "this" {
  count = 10
  name  = "tf-many-${count.index}"
  size  = 1
}

resource "openstack_compute_instance_v2" "this" {
  count       = 10
  name        = "tf-many-${count.index}"
  image_id    = var.image
  flavor_name = "m1.nano"
  network {
    port = openstack_networking_port_v2.this[count.index].id
  }
}
