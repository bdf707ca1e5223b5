"""What a request takes of a node besides numbers; see claiming.py."""


class Extra:
    """What one request takes of a node besides numbers; made by a function of KINDS, found in ``request.extras``.

    A filter guesses from the table which hosts have it; ``take`` decides.
    """

    def take(self, conn, node, claim):
        """Take it of a node, in the claim's transaction; whether the node has it.

        The node's row is locked until the transaction ends, its numbers are claimed, and what this writes is undone
        when it, or another extra after it, gives False. Extras are asked in the order of KINDS.

        :param node: the whole compute_nodes row as it is now, a dict
        :param claim: the Claim, for whom it is; a column that the holder's row is to have goes into ``claim.values``
        """
        raise NotImplementedError

    def closely(self, hosts):
        """A view on which the filter guesses no more: every host that it let through on this one has refused."""
        return hosts

    def consume(self, hosts, position):
        """Let a view, which nobody else has, be as if the node had given it: before the next server is chosen for."""
