"""Driver for bare metal servers, a client of the Bare Metal service (Ironic); see ADR 0022."""
