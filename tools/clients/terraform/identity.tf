resource "openstack_identity_project_v3" "this" {
  name        = "tf-${local.text}"
  description = local.text
  enabled     = local.text == "one"
  tags        = [local.text]
}

resource "openstack_identity_project_v3" "child" {
  name      = "tf-child"
  parent_id = local.key == "f" ? openstack_identity_project_v3.base.id : null
}

resource "openstack_identity_project_v3" "base" {
  name = "tf-base"
}

resource "openstack_identity_user_v3" "this" {
  name                      = "tf-${local.text}"
  description               = local.text
  password                  = "a long password ${local.text}"
  default_project_id        = openstack_identity_project_v3.base.id
  extra                     = { email = "${local.text}@example.com" }
  ignore_password_expiry    = local.text == "one"
  multi_factor_auth_enabled = true
  multi_factor_auth_rule {
    rule = ["password"]
  }
}

resource "openstack_identity_group_v3" "this" {
  name        = "tf-${local.text}"
  description = local.text
}

resource "openstack_identity_user_membership_v3" "this" {
  user_id  = openstack_identity_user_v3.this.id
  group_id = openstack_identity_group_v3.this.id
}

resource "openstack_identity_role_v3" "this" {
  name = "tf-${local.text}"
}

resource "openstack_identity_role_assignment_v3" "user" {
  user_id    = openstack_identity_user_v3.this.id
  project_id = openstack_identity_project_v3.base.id
  role_id    = local.key == "f" ? openstack_identity_role_v3.this.id : data.openstack_identity_role_v3.this.id
}

resource "openstack_identity_role_assignment_v3" "group" {
  group_id  = openstack_identity_group_v3.this.id
  domain_id = "default"
  role_id   = openstack_identity_role_v3.this.id
}

resource "openstack_identity_inherit_role_assignment_v3" "this" {
  user_id    = openstack_identity_user_v3.this.id
  project_id = openstack_identity_project_v3.base.id
  role_id    = openstack_identity_role_v3.this.id
}

resource "openstack_identity_service_v3" "this" {
  name        = "tf-${local.text}"
  type        = "tf-${local.text}"
  description = local.text
}

resource "openstack_identity_endpoint_v3" "this" {
  name            = "tf-${local.text}"
  service_id      = openstack_identity_service_v3.this.id
  endpoint_region = "RegionOne"
  url             = "http://127.0.0.1/${local.text}"
}

resource "openstack_identity_application_credential_v3" "this" {
  name        = "tf-${local.key}"
  description = "tf"
  roles       = ["member"]
  access_rules {
    path    = "/v2.1/servers"
    service = "compute"
    method  = "GET"
  }
  expires_at = "2099-01-01T00:00:00Z"
}

resource "openstack_identity_ec2_credential_v3" "this" {
  project_id = local.key == "f" ? null : data.openstack_identity_project_v3.admin.id
}

resource "openstack_identity_registered_limit_v3" "this" {
  service_id    = openstack_identity_service_v3.this.id
  resource_name = "tf"
  default_limit = local.text == "one" ? 10 : 11
  description   = local.text
}

resource "openstack_identity_limit_v3" "this" {
  project_id     = openstack_identity_project_v3.base.id
  service_id     = openstack_identity_registered_limit_v3.this.service_id
  resource_name  = openstack_identity_registered_limit_v3.this.resource_name
  resource_limit = local.text == "one" ? 5 : 6
}

data "openstack_identity_role_v3" "this" {
  name = "reader"
}

data "openstack_identity_project_v3" "admin" {
  name = "admin"
}

data "openstack_identity_project_ids_v3" "this" {
  name_regex = "^admin$"
}

data "openstack_identity_user_v3" "this" {
  name = "admin"
}

data "openstack_identity_auth_scope_v3" "this" {
  name = "scope"
}

data "openstack_identity_service_v3" "this" {
  type = "compute"
}

data "openstack_identity_endpoint_v3" "this" {
  service_type = "compute"
  interface    = "public"
}

data "openstack_identity_group_v3" "this" {
  name = openstack_identity_group_v3.this.name
}
