resource "openstack_compute_keypair_v2" "made" {
  name = "tf-${local.key}"
}

resource "openstack_compute_keypair_v2" "imported" {
  name       = "tf-imported-${local.key}"
  public_key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJDrWkFpbcIrHBcIY8NR9lbzMSiJKy8gtuTwLqE9NqJm tf"
}

resource "openstack_compute_flavor_v2" "this" {
  name        = "tf-${local.key}"
  description = local.text
  ram         = 128
  vcpus       = 1
  disk        = 1
  is_public   = false
  extra_specs = { "hw:cpu_policy" = "shared", "hw:watchdog_action" = local.text == "one" ? "reset" : "none" }
}

resource "openstack_compute_flavor_access_v2" "this" {
  flavor_id = openstack_compute_flavor_v2.this.id
  tenant_id = var.member_project
}

resource "openstack_compute_servergroup_v2" "this" {
  name     = "tf-${local.key}"
  policies = ["soft-anti-affinity"]
}

resource "openstack_compute_aggregate_v2" "this" {
  name     = "tf-${local.text}"
  metadata = { rack = local.text }
}

resource "openstack_compute_quotaset_v2" "this" {
  project_id = openstack_identity_project_v3.this.id
  instances  = local.text == "one" ? 5 : 6
  cores      = 20
}

resource "openstack_identity_project_v3" "this" {
  name = "tf-compute"
}

resource "openstack_networking_network_v2" "this" {
  name = "tf-compute"
}

resource "openstack_networking_subnet_v2" "this" {
  network_id = openstack_networking_network_v2.this.id
  cidr       = "192.168.31.0/24"
}

resource "openstack_networking_secgroup_v2" "this" {
  name = "tf-compute"
}

resource "openstack_networking_port_v2" "this" {
  network_id         = openstack_networking_network_v2.this.id
  security_group_ids = [openstack_networking_secgroup_v2.this.id]
  fixed_ip {
    subnet_id = openstack_networking_subnet_v2.this.id
  }
}

resource "openstack_networking_port_v2" "second" {
  network_id         = openstack_networking_network_v2.this.id
  security_group_ids = [openstack_networking_secgroup_v2.this.id]
  fixed_ip {
    subnet_id = openstack_networking_subnet_v2.this.id
  }
}

resource "openstack_compute_instance_v2" "this" {
  name        = "tf-${local.text}"
  image_id    = var.image
  flavor_name = local.text == "one" ? "m1.nano" : "m1.micro"
  key_pair    = openstack_compute_keypair_v2.made.name
  user_data   = "#cloud-config\n# ${local.key}\n"
  metadata    = { role = local.text }
  tags        = ["tf", local.text]
  scheduler_hints {
    group = openstack_compute_servergroup_v2.this.id
  }
  network {
    port = openstack_networking_port_v2.this.id
  }
}

resource "openstack_compute_instance_v2" "root_volume" {
  name            = "tf-root-${local.text}"
  flavor_name     = "m1.nano"
  config_drive    = local.key == "f"
  power_state     = local.text == "one" ? "active" : "shutoff"
  security_groups = [openstack_networking_secgroup_v2.this.name]
  block_device {
    uuid                  = var.image
    source_type           = "image"
    destination_type      = "volume"
    volume_size           = 2
    boot_index            = 0
    delete_on_termination = true
  }
  network {
    uuid = openstack_networking_subnet_v2.this.network_id
  }
}

resource "openstack_compute_interface_attach_v2" "this" {
  instance_id = openstack_compute_instance_v2.root_volume.id
  port_id     = openstack_networking_port_v2.second.id
}

resource "openstack_blockstorage_volume_v3" "this" {
  name = "tf-compute"
  size = 1
}

resource "openstack_compute_volume_attach_v2" "this" {
  instance_id = openstack_compute_instance_v2.this.id
  volume_id   = openstack_blockstorage_volume_v3.this.id
}

data "openstack_compute_aggregate_v2" "this" {
  name = openstack_compute_aggregate_v2.this.name
}

data "openstack_compute_availability_zones_v2" "this" {}

data "openstack_compute_instance_v2" "this" {
  id = openstack_compute_instance_v2.this.id
}

data "openstack_compute_flavor_v2" "this" {
  name = "m1.nano"
}

data "openstack_compute_hypervisor_v2" "this" {
  hostname = var.hypervisor
}

data "openstack_compute_servergroup_v2" "this" {
  name = openstack_compute_servergroup_v2.this.name
}

data "openstack_compute_keypair_v2" "this" {
  name = openstack_compute_keypair_v2.made.name
}

data "openstack_compute_quotaset_v2" "this" {
  project_id = var.member_project
}

data "openstack_compute_limits_v2" "this" {
  project_id = var.member_project
}

variable "hypervisor" { type = string }
