resource "openstack_images_image_v2" "this" {
  name             = "tf-${local.text}"
  local_file_path  = local.key == "f" ? var.file : var.other_file
  container_format = "bare"
  disk_format      = "raw"
  min_disk_gb      = local.text == "one" ? 1 : 2
  min_ram_mb       = 64
  visibility       = local.text == "one" ? "private" : "public"
  hidden           = local.text == "two"
  tags             = ["tf", local.text]
  properties       = { hw_disk_bus = local.text == "one" ? "virtio" : "scsi", own = local.text }
}

resource "openstack_images_image_v2" "shared" {
  name             = "tf-shared"
  local_file_path  = var.file
  container_format = "bare"
  disk_format      = "raw"
  visibility       = "shared"
}

resource "openstack_images_image_access_v2" "this" {
  image_id  = openstack_images_image_v2.shared.id
  member_id = var.member_project
}

resource "openstack_images_image_access_accept_v2" "this" {
  provider = openstack.member
  image_id = openstack_images_image_access_v2.this.image_id
  status   = local.text == "one" ? "accepted" : "rejected"
}

data "openstack_images_image_v2" "this" {
  name = "cirros-test-disk"
}

data "openstack_images_image_ids_v2" "this" {
  tags       = ["tf"]
  depends_on = [openstack_images_image_v2.this]
}

variable "file" { type = string }
variable "other_file" { type = string }
