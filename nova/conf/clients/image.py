"""[image]: where images come from, and the bounds of the embedded image store."""
from oslo_config import cfg
from oslo_config import types

GROUP = 'image'

OPTIONS = [
    cfg.StrOpt('backend', default='embedded', choices=['embedded', 'glance'],
               help='Image service. embedded: this deployment stores its images. glance: the service that [glance] '
                    'configures.'),
    cfg.StrOpt('directory',
               help='Directory of the embedded store. Default: images below the state path.'),
    cfg.StrOpt('certificates_directory', default='', max_length=4096,
               help='Directory on a compute host with the certificates of image signers, each <id>.pem. The id is '
                    'the one in img_signature_certificate_uuid of an image and trusted_image_certificates of a '
                    'server. Empty: this host cannot verify images and gets no servers with signed images.'),
    cfg.StrOpt('certificate_backend', default='files', choices=['files', 'barbican'],
               help='Source of signer certificates. files: certificates_directory only. barbican: certificates '
                    'that are not in the directory come from the Key Manager service that [barbican] configures. '
                    'It is queried with the token of the user who creates the server, or with the account in '
                    '[barbican].'),
    cfg.IntOpt('max_size', default=256, min=1, max=65536,
               help='Maximum size of one uploaded image in GiB. It prevents one upload from filling the disk.'),
    cfg.ListOpt('import_methods', default=['glance-direct', 'web-download'],
                item_type=types.String(choices=['glance-direct', 'web-download']),
                help='Methods of the embedded image service to import data. glance-direct: clients stage the data '
                     'first. web-download: the service downloads a URL that the user names, at most max_size and four '
                     'hours. It reaches only http and https servers with public addresses, follows at most five '
                     'redirects and checks each. Without this method, users upload the data themselves.'),
    cfg.ListOpt('import_networks', default=[], item_type=types.String(max_length=64),
                help='Networks (192.0.2.0/24, 2001:db8::/32) that web-download may reach although their addresses are '
                     'private or belong to this cloud, for example of an internal mirror. Every user can then send GET '
                     'requests to all hosts in them.'),
    cfg.IntOpt('free_disk_reserve', default=1024, min=0, max=16777216,
               help='MiB of disk space that the following writers leave free: uploads to the embedded image and '
                    'object stores; volumes created from images, snapshots and volumes; backups; and, on a compute '
                    'host, images, snapshots and guests that arrive from other hosts. The databases may be on the '
                    'same file system. All writers on a machine claim their space in <state_path>/disk-space '
                    'before they write. A request without enough space gets 507 (Insufficient Storage), and a '
                    'volume without enough space ends in error; other operations continue. 0: no reserve and no '
                    'claims.'),
    cfg.IntOpt('max_virtual_size', default=2048, min=1, max=1048576,
               help='Maximum virtual size of a disk image in GiB. A file of a few KiB can claim exabytes.'),
    cfg.StrOpt('policy_file', default='image_policy.yaml', max_length=4096,
               help='Policy file of the embedded image API, absolute or in a configuration directory. Changes take '
                    'effect within seconds. It is separate because rules such as context_is_admin have a meaning of '
                    'their own in each API. The default file need not exist.'),
]
