"""[quota]: default limits of projects."""
from oslo_config import cfg

GROUP = 'quota'


def _limit(name: str, default: int, what: str) -> cfg.IntOpt:
    return cfg.IntOpt(name, default=default, min=-1, max=2147483647, mutable=True, help=f'{what} -1: no limit.')


OPTIONS = [
    _limit('instances', 10, 'Maximum number of servers of a project.'),
    _limit('cores', 20, 'Maximum number of virtual CPUs of all servers of a project.'),
    _limit('ram', 51200, 'Maximum memory of all servers of a project in MiB.'),
    _limit('metadata_items', 128, 'Maximum number of metadata items of one server.'),
    _limit('injected_files', 5, 'Maximum number of personality files of one server (up to microversion 2.56).'),
    _limit('injected_file_content_bytes', 10240, 'Maximum size of one personality file in bytes.'),
    _limit('injected_file_path_length', 255, 'Maximum length of the path of one personality file in characters.'),
    _limit('key_pairs', 100, 'Maximum number of key pairs of a user.'),
    _limit('server_groups', 10, 'Maximum number of server groups of a project.'),
    _limit('server_group_members', 10, 'Maximum number of servers in one server group.'),
    _limit('image_size_total', 262144, 'Maximum total size of the images and snapshots of a project in MiB, including '
           'uploads in progress. The default allows one image of the maximum size. Embedded images only.'),
    _limit('image_count_total', 10000, 'Maximum number of images and snapshots of a project. Embedded images only.'),
    _limit('image_count_uploading', 100, 'Maximum number of concurrent uploads of a project. Embedded images only.'),
]
