"""[quota]: limits of a project that has none of its own."""
from oslo_config import cfg

GROUP = 'quota'


def _limit(name: str, default: int, what: str) -> cfg.IntOpt:
    return cfg.IntOpt(name, default=default, min=-1, max=2147483647, mutable=True, help=f'{what} -1: no limit.')


OPTIONS = [
    _limit('instances', 10, 'Servers of a project at most.'),
    _limit('cores', 20, 'Virtual CPUs of all servers of a project at most.'),
    _limit('ram', 51200, 'MiB of memory of all servers of a project at most.'),
    _limit('metadata_items', 128, 'Metadata items of one server at most.'),
    _limit('injected_files', 5, 'Personality files of one server at most (up to microversion 2.56).'),
    _limit('injected_file_content_bytes', 10240, 'Bytes of one personality file at most.'),
    _limit('injected_file_path_length', 255, 'Characters of the path of one personality file at most.'),
    _limit('key_pairs', 100, 'Key pairs of a user at most.'),
    _limit('server_groups', 10, 'Server groups of a project at most.'),
    _limit('server_group_members', 10, 'Servers of one server group at most.'),
    _limit('image_size_total', 262144, 'MiB of all images and snapshots of a project at most, those that are being '
           'uploaded included; the default has room for one of the largest size. Embedded images only.'),
    _limit('image_count_total', 10000, 'Images and snapshots of a project at most. Embedded images only.'),
    _limit('image_count_uploading', 100, 'Uploads of a project at the same time at most. Embedded images only.'),
]
