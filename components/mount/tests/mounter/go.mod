module mounter

go 1.25.0

require (
	golang.org/x/sys v0.46.0
	k8s.io/apimachinery v0.35.8
	k8s.io/klog/v2 v2.130.1
	k8s.io/mount-utils v0.35.8
	k8s.io/utils v0.0.0-20251002143259-bc988d571ff4
)

require (
	github.com/go-logr/logr v1.4.3 // indirect
	github.com/moby/sys/mountinfo v0.7.2 // indirect
)
