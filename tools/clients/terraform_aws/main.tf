# Resources of Terraform's AWS provider that have a counterpart here. tools/clients/terraform_aws.py applies them.
# step is "first", then "changed" (changes in place), then "replaced" (changes that replace a resource).

variable "step" { default = "first" }
variable "endpoint" {}
variable "public_key" {}
variable "other_key" {}
variable "image" {}

locals {
  first    = var.step == "first"
  replaced = var.step == "replaced"
  text     = local.first ? "first" : "changed"
  tags     = local.first ? { Name = "walk", "kubernetes.io/cluster/walk" = "owned=1" } : { Name = "walk", "Größe/@+" = "ä" }
  range    = local.replaced ? "10.91" : "10.90"
}

terraform {
  required_providers {
    aws = { source = "hashicorp/aws" }
  }
}

provider "aws" {
  region                      = "RegionOne"
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  skip_region_validation      = true
  skip_requesting_account_id  = false
  max_retries                 = 2
  endpoints {
    ec2 = var.endpoint
    sts = var.endpoint
  }
}

data "aws_availability_zones" "zones" {
  state = "available"
}
data "aws_caller_identity" "me" {}
data "aws_ami" "small" {
  owners      = ["self"]
  most_recent = true
  filter {
    name   = "name"
    values = [var.image]
  }
}
data "aws_ec2_instance_type" "tiny" {
  instance_type = "m1.tiny"
}
data "aws_vpc" "made" {
  id = aws_vpc.walk.id
}
data "aws_subnets" "made" {
  filter {
    name   = "vpc-id"
    values = [aws_vpc.walk.id]
  }
  depends_on = [aws_subnet.walk]
}
data "aws_instance" "walk" {
  instance_id = aws_instance.walk.id
}

resource "aws_key_pair" "rsa" {
  key_name   = local.replaced ? "walk-rsa-2" : "walk-rsa"
  public_key = var.public_key
  tags       = local.tags
}
resource "aws_key_pair" "ed25519" {
  key_name   = "walk-ed25519"
  public_key = var.other_key
}

resource "aws_vpc" "walk" {
  cidr_block = "${local.range}.0.0/16"
  tags       = local.tags
}
resource "aws_vpc_dhcp_options" "walk" {
  domain_name_servers = [local.replaced ? "192.0.2.2" : "192.0.2.1"]
  tags                = local.tags
}
resource "aws_vpc_dhcp_options_association" "walk" {
  vpc_id          = aws_vpc.walk.id
  dhcp_options_id = aws_vpc_dhcp_options.walk.id
}
resource "aws_subnet" "walk" {
  vpc_id     = aws_vpc.walk.id
  cidr_block = "${local.range}.1.0/24"
  tags       = local.tags
}
resource "aws_subnet" "placed" {
  vpc_id            = aws_vpc.walk.id
  cidr_block        = "${local.range}.2.0/24"
  availability_zone = data.aws_availability_zones.zones.names[0]
  lifecycle {
    ignore_changes = [tags, tags_all] # aws_ec2_tag.walk
  }
}
resource "aws_internet_gateway" "walk" {
  vpc_id = aws_vpc.walk.id
  tags   = local.tags
  lifecycle {
    replace_triggered_by = [aws_vpc.walk.id] # the provider updates it, so that EC2 refuses to delete the old VPC
  }
}
resource "aws_route_table" "walk" {
  vpc_id = aws_vpc.walk.id
  route {
    cidr_block = local.first ? "0.0.0.0/0" : "198.51.100.0/24"
    gateway_id = aws_internet_gateway.walk.id
  }
  tags = local.tags
}
resource "aws_route_table" "plain" {
  vpc_id = aws_vpc.walk.id
}
resource "aws_route" "walk" {
  route_table_id         = aws_route_table.plain.id
  destination_cidr_block = local.replaced ? "203.0.113.0/25" : "203.0.113.0/24"
  gateway_id             = aws_internet_gateway.walk.id
}
resource "aws_route_table_association" "walk" {
  subnet_id      = aws_subnet.walk.id
  route_table_id = local.first ? aws_route_table.walk.id : aws_route_table.plain.id
}
resource "aws_main_route_table_association" "walk" {
  vpc_id         = aws_vpc.walk.id
  route_table_id = aws_route_table.plain.id
  lifecycle {
    replace_triggered_by = [aws_vpc.walk.id] # as aws_internet_gateway.walk
  }
}

resource "aws_security_group" "walk" {
  name        = local.replaced ? "walk-2" : "walk"
  description = "walk"
  vpc_id      = aws_vpc.walk.id
  ingress {
    description = local.text
    from_port   = 22
    to_port     = 22
    protocol    = "tcp"
    cidr_blocks = ["10.0.0.0/8"]
  }
  egress {
    from_port   = 0
    to_port     = 0
    protocol    = "-1"
    cidr_blocks = ["0.0.0.0/0"]
  }
  tags = local.tags
}
resource "aws_security_group" "rules" {
  name   = "walk-rules"
  vpc_id = aws_vpc.walk.id
}
resource "aws_vpc_security_group_ingress_rule" "walk" {
  security_group_id = aws_security_group.rules.id
  cidr_ipv4         = "10.0.0.0/8"
  from_port         = 80
  to_port           = local.first ? 80 : 81
  ip_protocol       = "tcp"
  description       = local.text
  tags              = local.tags
}
resource "aws_vpc_security_group_egress_rule" "walk" {
  security_group_id            = aws_security_group.rules.id
  referenced_security_group_id = aws_security_group.walk.id
  ip_protocol                  = "-1"
}
resource "aws_security_group_rule" "walk" {
  security_group_id = aws_security_group.rules.id
  type              = "ingress"
  from_port         = 443
  to_port           = 443
  protocol          = "tcp"
  cidr_blocks       = ["192.0.2.0/24"]
  description       = local.text
}

resource "aws_placement_group" "walk" {
  name     = local.replaced ? "walk-2" : "walk"
  strategy = "spread"
  tags     = local.tags
}

resource "aws_instance" "walk" {
  ami                         = data.aws_ami.small.id
  instance_type               = local.first ? "m1.tiny" : "m1.small"
  key_name                    = aws_key_pair.rsa.key_name
  subnet_id                   = aws_subnet.walk.id
  vpc_security_group_ids      = local.first ? [aws_security_group.walk.id] : [aws_security_group.walk.id, aws_security_group.rules.id]
  user_data                   = local.replaced ? "replaced" : "first"
  user_data_replace_on_change = true
  root_block_device {
    volume_size = local.first ? 2 : 3
    volume_type = "gp3"
    tags        = { Name = "root" }
  }
  metadata_options {
    http_tokens                 = local.first ? "required" : "optional"
    http_put_response_hop_limit = 2
  }
  tags = local.tags
}
resource "aws_instance" "plain" {
  ami                         = data.aws_ami.small.id
  instance_type               = "m1.tiny"
  subnet_id                   = aws_subnet.placed.id
  associate_public_ip_address = false
  placement_group             = aws_placement_group.walk.name
}
resource "aws_instance" "templated" {
  launch_template {
    id      = aws_launch_template.walk.id
    version = "1"
  }
  subnet_id = aws_subnet.placed.id
  tags      = { Name = "templated" }
}
resource "aws_instance" "interface" {
  launch_template {
    id      = aws_launch_template.interface.id
    version = "1"
  }
  depends_on = [aws_internet_gateway.walk]
}

resource "aws_ebs_volume" "walk" {
  availability_zone = data.aws_availability_zones.zones.names[0]
  size              = local.first ? 1 : 2
  type              = "gp3"
  tags              = local.tags
}
resource "aws_volume_attachment" "walk" {
  device_name = "/dev/vdb"
  volume_id   = aws_ebs_volume.walk.id
  instance_id = aws_instance.walk.id
}
resource "aws_ebs_volume" "source" {
  availability_zone = data.aws_availability_zones.zones.names[0]
  size              = 1
}
resource "aws_ebs_snapshot" "walk" {
  volume_id   = aws_ebs_volume.source.id
  description = local.replaced ? "replaced" : "first"
  tags        = local.tags
}
resource "aws_ebs_volume" "copied" {
  availability_zone = data.aws_availability_zones.zones.names[0]
  snapshot_id       = aws_ebs_snapshot.walk.id
  type              = "gp2"
}
resource "aws_ami" "walk" {
  name                = local.replaced ? "walk-2" : "walk"
  description         = local.text
  root_device_name    = "/dev/vda"
  virtualization_type = "hvm"
  ebs_block_device {
    device_name = "/dev/vda"
    snapshot_id = aws_ebs_snapshot.walk.id
    volume_size = 1
  }
  tags = local.tags
}
resource "aws_ami_from_instance" "walk" {
  name                    = "walk-instance"
  source_instance_id      = aws_instance.plain.id
  snapshot_without_reboot = true
}
resource "aws_ami_launch_permission" "walk" {
  image_id   = aws_ami_from_instance.walk.id
  account_id = "012345678901"
}
resource "aws_instance" "snapshot" {
  ami           = aws_ami.walk.id
  instance_type = "m1.tiny"
  subnet_id     = aws_subnet.placed.id
  root_block_device {
    volume_size           = 2
    delete_on_termination = true
  }
}

resource "aws_network_interface" "walk" {
  subnet_id       = aws_subnet.walk.id
  security_groups = [aws_security_group.walk.id]
  description     = local.text
  tags            = local.tags
}
resource "aws_network_interface_attachment" "walk" {
  instance_id          = aws_instance.plain.id
  network_interface_id = aws_network_interface.walk.id
  device_index         = 1
}
resource "aws_eip" "walk" {
  domain     = "vpc"
  tags       = local.tags
  depends_on = [aws_internet_gateway.walk]
}
resource "aws_eip_association" "walk" {
  allocation_id = aws_eip.walk.id
  instance_id   = aws_instance.walk.id
}
resource "aws_launch_template" "walk" {
  name          = local.replaced ? "walk-2" : "walk"
  image_id      = data.aws_ami.small.id
  instance_type = local.first ? "m1.tiny" : "m1.small"
  key_name      = aws_key_pair.ed25519.key_name
  tags          = local.tags
  metadata_options {
    http_tokens = "required"
  }
  tag_specifications {
    resource_type = "instance"
    tags          = { Name = "templated" }
  }
}
resource "aws_launch_template" "interface" {
  name          = local.replaced ? "walk-interface-2" : "walk-interface"
  image_id      = data.aws_ami.small.id
  instance_type = "m1.tiny"
  network_interfaces {
    associate_public_ip_address = true
    delete_on_termination       = true
    device_index                = 0
    security_groups             = [aws_security_group.walk.id]
    subnet_id                   = aws_subnet.walk.id
  }
}
resource "aws_ec2_tag" "walk" {
  resource_id = aws_subnet.placed.id
  key         = "Purpose"
  value       = local.text
}
