"""RPC methods of a compute host; each goes to ``compute.<host>``. ``instance`` is an objects.Instance."""
from nova.rpc.interface import Interface, Method

INTERFACE = Interface(
    'compute', '1.0',
    Method('build_instance', ('instance', 'spec')),
    Method('terminate_instance', ('instance',)),
    Method('start_instance', ('instance',)),
    Method('stop_instance', ('instance', 'clean_shutdown')),
    Method('reboot_instance', ('instance', 'reboot_type')),          # 'SOFT' or 'HARD'
    Method('pause_instance', ('instance',)),
    Method('unpause_instance', ('instance',)),
    Method('suspend_instance', ('instance',)),
    Method('resume_instance', ('instance',)),
    Method('rebuild_instance', ('instance', 'spec', 'preserve_ephemeral')),
    Method('snapshot_instance', ('instance', 'image_id')),
    # the last `length` lines, all (bounded) when None -> str
    Method('get_console_output', ('instance', 'length'), call=True),
    # the service answers on its own queue -> 'pong'
    Method('ping', (), call=True, timeout=10),
)
