module osbuild.example/talosctl

go 1.25.0

require (
	github.com/siderolabs/talos v1.11.5
	github.com/siderolabs/talos/pkg/machinery v1.11.5
)

// As in this version's own file: a module's replacements count only where it is the main module.
replace (
	cloud.google.com/go => cloud.google.com/go v0.100.2
	github.com/containerd/containerd/v2 => github.com/smira/containerd/v2 v2.0.0-20250806103510-dcf2fc86e156
	github.com/coredns/coredns => github.com/siderolabs/coredns v1.12.54
	github.com/insomniacslk/dhcp => github.com/smira/dhcp v0.0.0-20250407153013-99942baa5d59
	github.com/mdlayher/ethtool => github.com/siderolabs/ethtool v0.4.0-sidero
	github.com/mdlayher/kobject => github.com/smira/kobject v0.0.0-20240304111826-49c8d4613389
	golang.zx2c4.com/wireguard/wgctrl => github.com/siderolabs/wgctrl-go v0.0.0-20251029173431-c4fd5f6a4e72
	gopkg.in/yaml.v3 => github.com/unix4ever/yaml v0.0.0-20220527175918-f17b0f05cf2c
)
