# A network of three machines, each a network namespace: this one, a router, and a target behind a
# link of 1400 bytes. Programs that we did not write serve names, HTTP and TLS. $1 is a folder.
set -e
ip link set lo up
echo "0 0" >/proc/sys/net/ipv4/ping_group_range
unshare --net sleep 300 & router=$!
unshare --net sleep 300 & target=$!
for pid in $router $target; do
    until [ "$(readlink /proc/$pid/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do
        sleep 0.02
    done
done
echo $router >"$1/router"
on_router() { nsenter --net=/proc/$router/ns/net "$@"; }
on_target() { nsenter --net=/proc/$target/ns/net "$@"; }

# A router asks for its neighbours from its link-local address, which must not wait for the check
# for duplicates: until then it drops what it should forward.
for run in "" on_router on_target; do
    $run sh -c 'echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad'
done
ip link add near type veth peer name left netns $router
on_router ip link add right type veth peer name far netns $target
on_router ip link set right mtu 1400
on_target ip link set far mtu 1400
on_router sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
on_router sh -c 'echo 1 >/proc/sys/net/ipv6/conf/all/forwarding'
ip address add 10.9.1.1/24 dev near
ip address add fd09:1::1/64 dev near nodad
on_router ip address add 10.9.1.2/24 dev left
on_router ip address add fd09:1::2/64 dev left nodad
on_router ip address add 10.9.2.1/24 dev right
on_router ip address add fd09:2::1/64 dev right nodad
on_target ip address add 10.9.2.2/24 dev far
on_target ip address add fd09:2::2/64 dev far nodad
ip link set near up
on_router ip link set left up
on_router ip link set right up
on_target ip link set lo up
on_target ip link set far up
ip route add 10.9.0.0/16 via 10.9.1.2
ip route add fd09::/16 via fd09:1::2
on_target ip route add default via 10.9.2.1
on_target ip route add default via fd09:2::1
on_router ip route add unreachable 10.9.3.0/24
on_router ip route add blackhole 10.9.4.0/24

dnsmasq --no-daemon --conf-file=/dev/null --user=root --no-resolv --no-hosts --pid-file= \
    --listen-address=127.0.0.1 --bind-interfaces --local=/example.test/ \
    --host-record=target.example.test,10.9.2.2,fd09:2::2 \
    --cname=alias.example.test,target.example.test 2>/dev/null &
on_target python3 -m http.server --bind 10.9.2.2 --directory "$1/web" 80 >/dev/null 2>&1 &
openssl s_server -quiet -accept 443 -cert "$1/server.crt" -key "$1/server.key" -www \
    >/dev/null 2>&1 &
for address in 127.0.0.1/53 127.0.0.1/443 10.9.2.2/80; do
    until bash -c ": </dev/tcp/$address" 2>/dev/null; do sleep 0.02; done
done
touch "$1/ready"
exec "$OSD" inspect --socket "$1/socket" --logs "$1" --processes /proc --pod kube-system/osd \
    --resolver "$1/resolv.conf" --hosts "$1/hosts" --authorities "$1/missing.crt" --authorities "$1/ca.crt" \
    --share "$1" --kubelet "$1" --os-release "$1/os-release"
