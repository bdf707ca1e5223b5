resource "openstack_blockstorage_volume_v3" "this" {
  name                 = "tf-${local.text}"
  description          = local.text
  size                 = local.text == "one" ? 1 : 2
  enable_online_resize = true
  metadata             = { step = local.text }
}

resource "openstack_blockstorage_volume_v3" "of_image" {
  name     = "tf-of-image"
  size     = local.key == "f" ? 1 : 2
  image_id = var.image
}

resource "openstack_blockstorage_volume_v3" "copy" {
  name          = "tf-copy-${local.text}"
  size          = openstack_blockstorage_volume_v3.of_image.size
  source_vol_id = openstack_blockstorage_volume_v3.of_image.id
}

resource "openstack_blockstorage_volume_v3" "near" {
  name = "tf-near"
  size = 1
  scheduler_hints {
    same_host = [openstack_blockstorage_volume_v3.of_image.id]
  }
}

resource "openstack_blockstorage_volume_v3" "typed" {
  name                 = "tf-typed"
  size                 = 1
  volume_type          = local.text == "one" ? openstack_blockstorage_volume_type_v3.this.name : openstack_blockstorage_volume_type_v3.other.name
  volume_retype_policy = "on-demand"
}

resource "openstack_blockstorage_volume_type_v3" "this" {
  name        = "tf-a-${local.text}"
  description = local.text
  is_public   = false
  extra_specs = { multiattach = local.text == "one" ? "<is> False" : "<is> True" }
}

resource "openstack_blockstorage_volume_type_v3" "other" {
  name = "tf-b"
}

resource "openstack_blockstorage_volume_type_v3" "specs" {
  name        = "tf-c"
  extra_specs = { volume_backend_name = "fast" }
}

resource "openstack_blockstorage_volume_type_access_v3" "this" {
  volume_type_id = openstack_blockstorage_volume_type_v3.this.id
  project_id     = var.member_project
}

resource "openstack_blockstorage_quotaset_v3" "this" {
  project_id = openstack_identity_project_v3.this.id
  volumes    = local.text == "one" ? 5 : 6
  gigabytes  = 100
}

resource "openstack_identity_project_v3" "this" {
  name = "tf-volume"
}

resource "openstack_blockstorage_qos_v3" "this" {
  name     = "tf"
  consumer = "front-end"
  specs    = { read_iops_sec = local.text == "one" ? "2000" : "3000" }
}

resource "openstack_blockstorage_qos_association_v3" "this" {
  qos_id         = openstack_blockstorage_qos_v3.this.id
  volume_type_id = openstack_blockstorage_volume_type_v3.other.id
}

resource "openstack_blockstorage_volume_attach_v3" "this" {
  volume_id   = openstack_blockstorage_volume_v3.near.id
  host_name   = "tf-${local.key}"
  device      = "auto"
  attach_mode = "rw"
  initiator   = "iqn.1993-08.org.debian:01:tf"
  ip_address  = "127.0.0.1"
  platform    = "x86_64"
}

data "openstack_blockstorage_availability_zones_v3" "this" {}

data "openstack_blockstorage_volume_v3" "this" {
  name = openstack_blockstorage_volume_v3.this.name
}

data "openstack_blockstorage_quotaset_v3" "this" {
  project_id = var.member_project
}

data "openstack_blockstorage_snapshot_v3" "this" {
  name = var.snapshot
}

variable "snapshot" { type = string }
