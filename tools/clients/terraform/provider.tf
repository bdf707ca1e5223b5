terraform {
  required_providers {
    openstack = { source = "terraform-provider-openstack/openstack" }
  }
}

# first, changed (attributes change in place) or replaced (attributes change that replace a resource)
variable "step" { type = string }
variable "image" { type = string }
variable "public" { type = string }
variable "member_project" { type = string }
variable "member_password" { type = string }

locals {
  text = var.step == "first" ? "one" : "two"
  key  = var.step == "replaced" ? "r" : "f"
}

provider "openstack" {}

provider "openstack" {
  alias       = "member"
  user_name   = "demo"
  password    = var.member_password
  tenant_name = "demo"
}
