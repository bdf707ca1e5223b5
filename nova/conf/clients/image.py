"""[image]: where images come from, and the bounds of the embedded image store."""
from oslo_config import cfg

GROUP = 'image'

OPTIONS = [
    cfg.StrOpt('backend', default='embedded', choices=['embedded', 'glance'],
               help='embedded: this deployment keeps its images itself. glance: the Image service that the '
                    '[glance] section names.'),
    cfg.StrOpt('directory',
               help='Directory of the embedded store. Default: images below the state path.'),
    cfg.StrOpt('certificates_directory', default='', max_length=4096,
               help="Directory of a compute host with the certificates that images may be signed with, each <id>.pem; "
                    "the id is what the image's img_signature_certificate_uuid and a server's "
                    'trusted_image_certificates name. Empty: this host verifies no images, and gets no servers of '
                    'signed ones.'),
    cfg.StrOpt('certificate_backend', default='files', choices=['files', 'barbican'],
               help='Where certificates of signers are. files: in certificates_directory alone. barbican: what is not '
                    'there is asked of the Key Manager service that [barbican] names, with the token of who makes the '
                    'server, or by the account there.'),
    cfg.IntOpt('max_size', default=256, min=1, max=65536,
               help='GiB of one uploaded image, at most: one upload must not fill the disk.'),
    cfg.IntOpt('free_disk_reserve', default=1024, min=0, max=16777216,
               help='MiB that writers leave free: uploads to the embedded image and object stores, volumes that are '
                    'made of images, snapshots and volumes, backups, and on a compute host images, snapshots '
                    'and guests of other hosts. Their file system may be that of the databases. Writers on one '
                    'machine claim their room before they write, all of them together, in <state_path>/disk-space. '
                    'What finds no room is refused with 507 (Insufficient Storage), or a volume ends in error; '
                    'everything else goes on. 0: no reserve, and no claims.'),
    cfg.IntOpt('max_virtual_size', default=2048, min=1, max=1048576,
               help='Largest virtual size of a disk image, in GiB: a file of some KiB can claim exabytes.'),
]
