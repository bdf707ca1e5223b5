resource "openstack_networking_network_v2" "this" {
  name                  = "tf-net-${local.text}"
  description           = local.text
  tags                  = ["tf", local.text]
  mtu                   = local.text == "one" ? 1400 : 1450
  qos_policy_id         = openstack_networking_qos_policy_v2.this.id
  port_security_enabled = true
}

resource "openstack_networking_network_v2" "shared" {
  name      = "tf-shared"
  shared    = local.text == "two"
  external  = false
  tenant_id = local.key == "f" ? null : var.member_project
}

resource "openstack_networking_subnet_v2" "this" {
  network_id      = openstack_networking_network_v2.this.id
  name            = "tf-${local.text}"
  cidr            = "192.168.41.0/24"
  gateway_ip      = "192.168.41.1"
  dns_nameservers = ["192.0.2.${local.text == "one" ? 1 : 2}"]
  tags            = [local.text]
  allocation_pool {
    start = "192.168.41.10"
    end   = local.text == "one" ? "192.168.41.99" : "192.168.41.199"
  }
}

resource "openstack_networking_subnet_v2" "v6" {
  network_id        = openstack_networking_network_v2.this.id
  cidr              = local.key == "f" ? "fd00:41::/64" : "fd00:42::/64"
  ip_version        = 6
  ipv6_address_mode = "slaac"
  ipv6_ra_mode      = "slaac"
}

resource "openstack_networking_subnetpool_v2" "this" {
  name              = "tf-${local.text}"
  description       = local.text
  prefixes          = ["192.168.64.0/18"]
  default_prefixlen = local.text == "one" ? 26 : 25
  min_prefixlen     = 24
  max_prefixlen     = 28
  tags              = [local.text]
}

resource "openstack_networking_subnet_v2" "pooled" {
  network_id    = openstack_networking_network_v2.shared.id
  subnetpool_id = openstack_networking_subnetpool_v2.this.id
  prefix_length = 27
  no_gateway    = local.key == "r"
}

resource "openstack_networking_subnet_route_v2" "this" {
  subnet_id        = openstack_networking_subnet_v2.this.id
  destination_cidr = local.key == "f" ? "10.90.0.0/16" : "10.91.0.0/16"
  next_hop         = "192.168.41.254"
}

resource "openstack_networking_addressscope_v2" "this" {
  name       = "tf-${local.text}"
  ip_version = local.key == "f" ? 4 : 6
  shared     = local.text == "two"
}

resource "openstack_networking_addressscope_v2" "of_pool" {
  name       = "tf-pool"
  ip_version = 4
}

resource "openstack_networking_subnetpool_v2" "scoped" {
  name             = "tf-scoped"
  prefixes         = ["192.168.128.0/18"]
  address_scope_id = openstack_networking_addressscope_v2.of_pool.id
}

resource "openstack_networking_trunk_v2" "this" {
  name           = "tf-${local.text}"
  description    = local.text
  admin_state_up = true
  tags           = [local.text]
  port_id        = local.key == "f" ? openstack_networking_port_v2.parent.id : openstack_networking_port_v2.other_parent.id
  sub_port {
    port_id           = openstack_networking_port_v2.carried.id
    segmentation_id   = local.text == "one" ? 100 : 200
    segmentation_type = "vlan"
  }
}

resource "openstack_networking_port_v2" "parent" {
  network_id = openstack_networking_network_v2.routes.id
}

resource "openstack_networking_port_v2" "other_parent" {
  network_id = openstack_networking_network_v2.routes.id
}

resource "openstack_networking_port_v2" "carried" {
  network_id = openstack_networking_network_v2.routes.id
}

resource "openstack_networking_secgroup_v2" "this" {
  name                 = "tf-${local.text}"
  description          = local.text
  tags                 = [local.text]
  delete_default_rules = local.key == "r"
  lifecycle {
    create_before_destroy = true
  }
}

resource "openstack_networking_secgroup_rule_v2" "prefix" {
  security_group_id = openstack_networking_secgroup_v2.this.id
  direction         = "ingress"
  ethertype         = "IPv4"
  protocol          = "tcp"
  port_range_min    = local.key == "f" ? 22 : 23
  port_range_max    = 80
  remote_ip_prefix  = "0.0.0.0/0"
  description       = "tf"
}

resource "openstack_networking_secgroup_rule_v2" "group" {
  security_group_id = openstack_networking_secgroup_v2.this.id
  direction         = "ingress"
  ethertype         = "IPv6"
  protocol          = local.key == "f" ? "udp" : "ipv6-icmp"
  remote_group_id   = openstack_networking_secgroup_v2.this.id
}

resource "openstack_networking_address_group_v2" "this" {
  name      = "tf-${local.text}"
  addresses = ["192.0.2.0/24"]
}

resource "openstack_networking_port_v2" "this" {
  network_id         = openstack_networking_network_v2.this.id
  name               = "tf-${local.text}"
  description        = local.text
  admin_state_up     = local.text == "one"
  security_group_ids = [openstack_networking_secgroup_v2.this.id]
  qos_policy_id      = openstack_networking_qos_policy_v2.this.id
  mac_address        = local.key == "f" ? "fa:16:3e:00:41:01" : "fa:16:3e:00:41:02"
  tags               = [local.text]
  fixed_ip {
    subnet_id  = openstack_networking_subnet_v2.this.id
    ip_address = local.text == "one" ? "192.168.41.20" : "192.168.41.21"
  }
  allowed_address_pairs {
    ip_address = local.text == "one" ? "192.168.41.30" : "192.168.41.31"
  }
  extra_dhcp_option {
    name  = "bootfile-name"
    value = local.text
  }
}

resource "openstack_networking_port_v2" "bare" {
  network_id            = openstack_networking_network_v2.this.id
  port_security_enabled = local.text == "two"
  no_security_groups    = true
  no_fixed_ip           = local.text == "one"
  device_owner          = local.key == "f" ? "tf:one" : "tf:two"
  binding {
    vnic_type = "normal"
  }
}

resource "openstack_networking_port_v2" "inner" {
  network_id = openstack_networking_network_v2.this.id
  fixed_ip {
    subnet_id = openstack_networking_subnet_v2.this.id
  }
}

resource "openstack_networking_port_secgroup_associate_v2" "this" {
  port_id            = openstack_networking_port_v2.inner.id
  security_group_ids = local.text == "one" ? [] : [openstack_networking_secgroup_v2.this.id]
  enforce            = true
}

resource "openstack_networking_router_v2" "this" {
  name                = "tf-${local.text}"
  description         = local.text
  external_network_id = var.public
  enable_snat         = local.text == "one"
  tags                = [local.text]
}

resource "openstack_networking_router_v2" "inner" {
  name           = "tf-inner"
  admin_state_up = var.step != "changed" # the provider creates routers enabled
  tenant_id      = local.key == "f" ? null : var.member_project
}

resource "openstack_networking_router_interface_v2" "subnet" {
  router_id = openstack_networking_router_v2.this.id
  subnet_id = openstack_networking_subnet_v2.this.id
}

resource "openstack_networking_port_v2" "of_router" {
  network_id = openstack_networking_network_v2.shared.id
  fixed_ip {
    subnet_id = openstack_networking_subnet_v2.pooled.id
  }
}

resource "openstack_networking_router_interface_v2" "port" {
  router_id = openstack_networking_router_v2.this.id
  port_id   = openstack_networking_port_v2.of_router.id
}

resource "openstack_networking_router_route_v2" "this" {
  router_id        = openstack_networking_router_interface_v2.subnet.router_id
  destination_cidr = local.key == "f" ? "10.80.0.0/16" : "10.81.0.0/16"
  next_hop         = "192.168.41.254"
}

resource "openstack_networking_router_v2" "routes" {
  name = "tf-routes"
}

resource "openstack_networking_network_v2" "routes" {
  name = "tf-routes"
}

resource "openstack_networking_subnet_v2" "routes" {
  network_id = openstack_networking_network_v2.routes.id
  cidr       = "192.168.42.0/24"
}

resource "openstack_networking_router_interface_v2" "routes" {
  router_id = openstack_networking_router_v2.routes.id
  subnet_id = openstack_networking_subnet_v2.routes.id
}

resource "openstack_networking_router_routes_v2" "this" {
  router_id = openstack_networking_router_interface_v2.routes.router_id
  routes {
    destination_cidr = local.text == "one" ? "10.70.0.0/16" : "10.71.0.0/16"
    next_hop         = "192.168.42.254"
  }
}

resource "openstack_networking_floatingip_v2" "this" {
  pool        = "public"
  description = local.text
  tags        = [local.text]
}

resource "openstack_networking_floatingip_v2" "fixed" {
  pool    = "public"
  address = local.key == "f" ? "172.24.5.5" : "172.24.5.6"
}

resource "openstack_networking_floatingip_associate_v2" "this" {
  floating_ip = openstack_networking_floatingip_v2.this.address
  port_id     = local.text == "one" ? openstack_networking_port_v2.this.id : openstack_networking_port_v2.inner.id
  depends_on  = [openstack_networking_router_interface_v2.subnet]
}

resource "openstack_networking_floatingip_v2" "forwarding" {
  pool = "public"
}

resource "openstack_networking_portforwarding_v2" "this" {
  floatingip_id       = openstack_networking_floatingip_v2.forwarding.id
  internal_port_id    = openstack_networking_port_v2.inner.id
  internal_ip_address = openstack_networking_port_v2.inner.all_fixed_ips[0]
  internal_port       = local.text == "one" ? 25 : 26
  external_port       = 2230
  protocol            = "tcp"
  description         = local.text
  depends_on          = [openstack_networking_router_interface_v2.subnet]
}

resource "openstack_networking_qos_policy_v2" "this" {
  name        = "tf-${local.text}"
  description = local.text
  tags        = [local.text]
}

resource "openstack_networking_qos_bandwidth_limit_rule_v2" "this" {
  qos_policy_id  = openstack_networking_qos_policy_v2.this.id
  max_kbps       = local.text == "one" ? 3000 : 4000
  max_burst_kbps = 300
  direction      = "egress"
}

resource "openstack_networking_qos_dscp_marking_rule_v2" "this" {
  qos_policy_id = openstack_networking_qos_policy_v2.this.id
  dscp_mark     = local.text == "one" ? 26 : 28
}

resource "openstack_networking_qos_minimum_bandwidth_rule_v2" "this" {
  qos_policy_id = openstack_networking_qos_policy_v2.this.id
  min_kbps      = 200
}

resource "openstack_networking_quota_v2" "this" {
  project_id = openstack_identity_project_v3.this.id
  network    = local.text == "one" ? 4 : 5
  router     = 3
}

resource "openstack_identity_project_v3" "this" {
  name = "tf-network"
}

resource "openstack_networking_rbac_policy_v2" "this" {
  action        = "access_as_shared"
  object_type   = "network"
  object_id     = openstack_networking_network_v2.routes.id
  target_tenant = local.text == "one" ? openstack_identity_project_v3.this.id : var.member_project
}

data "openstack_networking_network_v2" "this" {
  name = openstack_networking_network_v2.this.name
}

data "openstack_networking_subnet_v2" "this" {
  subnet_id = openstack_networking_subnet_v2.this.id
}

data "openstack_networking_subnet_ids_v2" "this" {
  network_id = openstack_networking_subnet_v2.this.network_id
}

data "openstack_networking_secgroup_v2" "this" {
  secgroup_id = openstack_networking_secgroup_v2.this.id
}

data "openstack_networking_subnetpool_v2" "this" {
  name = openstack_networking_subnetpool_v2.this.name
}

data "openstack_networking_floatingip_v2" "this" {
  address = openstack_networking_floatingip_v2.this.address
}

data "openstack_networking_router_v2" "this" {
  router_id = openstack_networking_router_v2.this.id
}

data "openstack_networking_port_v2" "this" {
  port_id = openstack_networking_port_v2.inner.id
}

data "openstack_networking_port_ids_v2" "this" {
  network_id = openstack_networking_port_v2.inner.network_id
}

data "openstack_networking_qos_policy_v2" "this" {
  name = openstack_networking_qos_policy_v2.this.name
}

data "openstack_networking_qos_bandwidth_limit_rule_v2" "this" {
  qos_policy_id = openstack_networking_qos_policy_v2.this.id
  max_kbps      = openstack_networking_qos_bandwidth_limit_rule_v2.this.max_kbps
}

data "openstack_networking_qos_dscp_marking_rule_v2" "this" {
  qos_policy_id = openstack_networking_qos_policy_v2.this.id
  dscp_mark     = openstack_networking_qos_dscp_marking_rule_v2.this.dscp_mark
}

data "openstack_networking_addressscope_v2" "this" {
  name = openstack_networking_addressscope_v2.of_pool.name
}

data "openstack_networking_trunk_v2" "this" {
  trunk_id = openstack_networking_trunk_v2.this.id
}

data "openstack_networking_quota_v2" "this" {
  project_id = var.member_project
}
