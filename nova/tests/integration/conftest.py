"""The end of a run of real servers is theirs, also when it comes as SIGTERM: fixtures end what they have started."""
import signal


def _interrupt(_number, _frame):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)        # one is enough: what ends must end
    raise KeyboardInterrupt


signal.signal(signal.SIGTERM, _interrupt)
