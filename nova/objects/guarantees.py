"""Names for guaranteed bandwidth and packet rates: types of QoS rules, directions, resource classes of Placement."""
BANDWIDTH, PACKET_RATE = 'minimum_bandwidth', 'minimum_packet_rate'
DIRECTIONS = ('egress', 'ingress')
# (type of the rule, direction) -> (class of the Placement service, name for people)
CLASSES = {(BANDWIDTH, 'egress'): ('NET_BW_EGR_KILOBIT_PER_SEC', 'kbit/s egress'),
           (BANDWIDTH, 'ingress'): ('NET_BW_IGR_KILOBIT_PER_SEC', 'kbit/s ingress'),
           (PACKET_RATE, 'any'): ('NET_PACKET_RATE_KILOPACKET_PER_SEC', 'kpackets/s'),
           (PACKET_RATE, 'egress'): ('NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC', 'kpackets/s egress'),
           (PACKET_RATE, 'ingress'): ('NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC', 'kpackets/s ingress')}
NAMES = dict(CLASSES.values())
# name that stands for the missing physical network of tunnelled networks (the default of Neutron's
# tunnelled_network_rp_name)
TUNNELLED = 'rp_tunnelled'
