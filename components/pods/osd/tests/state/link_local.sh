# Two machines on a link without a network: this one, with a client, and `far`, with the node. Each has
# the link-local address that the kernel gives it. $1 is a folder.
set -e
unshare --net sleep 300 & far=$!
until [ "$(readlink /proc/$far/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.02; done
on_far() { nsenter --net=/proc/$far/ns/net "$@"; }

# Nobody else is there who could have the same address.
for run in "" on_far; do
    $run sh -c 'echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad'
done
ip link add near type veth peer name far netns $far
ip link set near up
on_far ip link set far up
# A second link has addresses of the same prefix, so that an address without its link is none.
ip link add other type veth peer name back
ip link set other up
ip link set back up
has_address() { "$@" | grep -q 'inet6 fe80'; }
for try in $(seq 250); do
    has_address ip -6 address show dev near && has_address on_far ip -6 address show dev far && break
    sleep 0.02
done
on_far ip -6 -brief address show dev far | sed -n 's|.* \(fe80[^/ ]*\)/.*|\1|p' >"$1/address"
echo "$far" >"$1/far"
touch "$1/ready"
exec sleep 300
