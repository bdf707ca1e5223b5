"""First-boot script of a VPN instance: it writes the configuration of OpenVPN, for an image with OpenVPN.

The script creates ``/etc/openvpn/start``, which cloud-init or the image runs at each boot. Clients get addresses of a
separate network. The instance translates them to its own address, because port security drops packets with other
addresses. A client needs an unrevoked certificate of the project.
Projects may share an authority, so the script checks that the organizational unit in the certificate is the project.
"""
from collections.abc import Sequence
import string

PORT = 1194                      # IANA's port for OpenVPN
PIECES = {'ca': '/etc/openvpn/ca.pem', 'certificate': '/etc/openvpn/server.pem', 'key': '/etc/openvpn/server.key'}

_SCRIPT = string.Template('''#!/bin/sh
# OpenVPN for the project $project
PATH=/usr/sbin:/usr/bin:/sbin:/bin
umask 077
mkdir -p /etc/openvpn /run
command -v openvpn >/dev/null || { echo "vpn: this image has no OpenVPN"; exit 1; }
$files
cat >/etc/openvpn/revoked <<'END'
$revoked
END
cat >/etc/openvpn/verify <<'END'
#!/bin/sh
# Called by OpenVPN with the depth of a certificate; 0 is the client's.
[ "$$1" = 0 ] || exit 0
[ "$$X509_0_OU" = '$project' ] || exit 1
while read -r serial; do [ "$$serial" != "$$tls_serial_0" ] || exit 1; done </etc/openvpn/revoked
END
cat >/etc/openvpn/start <<'START'
#!/bin/sh
PATH=/usr/sbin:/usr/bin:/sbin:/bin
[ -s /run/openvpn.pid ] && kill -0 "$$(cat /run/openvpn.pid)" 2>/dev/null && exit 0
device=$$(ip -4 route | awk '$$1 == "default" { print $$5; exit }')
[ -n "$$device" ] || device=$$(ip -4 route | awk '$$1 ~ "/" { print $$3; exit }')
network=$$(ip -4 route | awk -v device="$$device" '$$1 ~ "/" && $$3 == device { print $$1; exit }')
[ -n "$$network" ] || { echo "vpn: no network"; exit 1; }
mask= left=$${network#*/}
for _ in 1 2 3 4; do
    bits=$$((left > 8 ? 8 : left)) left=$$((left - (left > 8 ? 8 : left)))
    mask=$$mask$${mask:+.}$$((256 - (1 << (8 - bits))))
done
case $$network in 10.*) pool=172.27.240.0 ;; *) pool=10.8.0.0 ;; esac
cat >/etc/openvpn/server.conf <<END
port $port
proto udp
dev tun
topology subnet
server $$pool 255.255.255.0
push "route remote_host 255.255.255.255 net_gateway"
push "route $${network%/*} $$mask"
ca /etc/openvpn/ca.pem
cert /etc/openvpn/server.pem
key /etc/openvpn/server.key
dh none
tls-version-min 1.2
remote-cert-tls client
script-security 2
tls-verify /etc/openvpn/verify
max-clients 100
keepalive 10 60
persist-key
persist-tun
verb 1
END

modprobe tun 2>/dev/null
mkdir -p /dev/net; [ -c /dev/net/tun ] || mknod /dev/net/tun c 10 200
echo 1 >/proc/sys/net/ipv4/ip_forward
nft delete table ip vpn 2>/dev/null
nft -f - <<END || { echo "vpn: the addresses of clients cannot be translated"; exit 1; }
table ip vpn {
    chain out {
        type nat hook postrouting priority 100;
        ip saddr $$pool/24 oifname "$$device" masquerade
    }
}
END
openvpn --config /etc/openvpn/server.conf --daemon openvpn --log /run/openvpn.log --writepid /run/openvpn.pid || {
    cat /run/openvpn.log; exit 1; }
echo "vpn: port $port, clients of $$pool reach $$network"
START
chmod 700 /etc/openvpn/verify /etc/openvpn/start
[ ! -d /var/lib/cloud/scripts/per-boot ] || ln -sf /etc/openvpn/start /var/lib/cloud/scripts/per-boot/vpn
exec /etc/openvpn/start
''')


def script(project_id: str, authority: str, certificate: str, key: str, revoked: Sequence[int]) -> str:
    """Build the script.

    :param authority, certificate, key: PEM
    :param revoked: serial numbers of revoked certificates
    """
    pieces = {'ca': authority, 'certificate': certificate, 'key': key}
    files = ''.join(f"cat >{path} <<'END'\n{pieces[name].strip()}\nEND\n" for name, path in PIECES.items())
    return _SCRIPT.substitute(project=project_id, files=files.strip(), port=PORT,
                              revoked='\n'.join(str(serial) for serial in revoked))
