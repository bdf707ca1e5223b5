"""The network driver of a host that is left alone: tests, and users without root."""


class FakeDriver:
    """Addresses and ports are real rows; nothing is set up.

    :param conf: the configuration
    """

    def __init__(self, conf):
        self.conf = conf

    def start(self):
        """Look at what this host can do; raises NetworkPlumbingError when something needed is missing."""

    def refresh(self, load):
        """Make the host's bridges, DHCP and filters as ``load()``, a HostState, says."""

    def teardown(self):
        """Remove all that was set up."""
