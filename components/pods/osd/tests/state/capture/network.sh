# A network of two machines: this one, and one behind the link `near`. $1 is a folder.
set -e
ip link set lo up
echo "0 0" >/proc/sys/net/ipv4/ping_group_range
unshare --net sleep 300 & far=$!
until [ "$(readlink /proc/$far/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.02; done
on_far() { nsenter --net=/proc/$far/ns/net "$@"; }

# Packets that nobody has sent on purpose would be in the counts of the tests.
for run in "" on_far; do
    $run sh -c 'echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6'
done
ip link add near type veth peer name far netns $far
ip address add 10.9.1.1/24 dev near
on_far ip address add 10.9.1.2/24 dev far
ip link set near up
on_far ip link set far up
# What is sent on `back` is received on `front`.
ip link add front type veth peer name back
ip link set front up
ip link set back up
touch "$1/ready"
exec "$OSD" inspect --socket "$1/socket" --logs "$1" --processes /proc --pod kube-system/osd \
    --resolver "$1/resolv.conf" --hosts "$1/hosts" --authorities "$1/ca.crt" \
    --share "$1" --kubelet "$1" --os-release "$1/os-release"
