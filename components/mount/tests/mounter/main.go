// Uses the `mount`, `umount` and `losetup` of PATH through the kubelet's own mount library and its
// code for raw block volumes. It takes an empty folder to work in and a block device, and fails at
// the first unexpected result. The package `volumepathhandler` is the kubelet's: the test has the
// compiler read its files from that module.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mounter/volumepathhandler"

	mount "k8s.io/mount-utils"
	utilexec "k8s.io/utils/exec"
)

func main() {
	folder, device := os.Args[1], os.Args[2]
	steps := []struct {
		claim string
		check func(mount.Interface, string) error
	}{
		{"umount reports when nothing is mounted", unmountingIsSafe},
		{"an emptyDir in memory is mounted, found and cleaned up", emptyDir},
		{"a read-only local volume keeps the flags of its source", readOnlyBind},
		{"a subPath is bound from a file descriptor", subPath},
		{"an unknown file system type is reported", unknownType},
		{"a block device needs blkid", formatAndMount},
		{"a raw block volume is held by a loop device until it is released", rawBlock(device)},
	}
	mounter := mount.New("")
	for i, step := range steps {
		place := filepath.Join(folder, fmt.Sprint(i))
		err := os.MkdirAll(filepath.Join(place, "source"), 0o755)
		if err == nil {
			err = os.Mkdir(filepath.Join(place, "target"), 0o755)
		}
		if err == nil {
			err = step.check(mounter, place)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", step.claim, err)
			os.Exit(1)
		}
	}
}

func unmountingIsSafe(mounter mount.Interface, place string) error {
	if !mounter.CanSafelySkipMountPointCheck() {
		return fmt.Errorf("the library considers our umount unsafe")
	}
	return mounter.Unmount(filepath.Join(place, "target"))
}

func emptyDir(mounter mount.Interface, place string) error {
	target := filepath.Join(place, "target")
	err := mounter.MountSensitiveWithoutSystemd("tmpfs", target, "tmpfs", []string{"size=1048576", "noswap"}, nil)
	if err != nil {
		return err
	}
	if notMount, err := mounter.IsLikelyNotMountPoint(target); err != nil || notMount {
		return fmt.Errorf("it is not a mount point: %v, %v", notMount, err)
	}
	if err := has(mounter, target, "tmpfs", "size=1024k", "noswap"); err != nil {
		return err
	}
	if err := mount.CleanupMountPoint(target, mounter, false); err != nil {
		return err
	}
	if _, err := os.Stat(target); !os.IsNotExist(err) {
		return fmt.Errorf("the mount point still exists: %v", err)
	}
	return nil
}

func readOnlyBind(mounter mount.Interface, place string) error {
	source, target := filepath.Join(place, "source"), filepath.Join(place, "target")
	if err := mounter.Mount("tmpfs", source, "tmpfs", []string{"nosuid", "noexec", "noatime"}); err != nil {
		return err
	}
	if err := mounter.MountSensitiveWithoutSystemd(source, target, "", []string{"bind", "ro", "_netdev"}, nil); err != nil {
		return err
	}
	if err := has(mounter, target, "tmpfs", "ro", "nosuid", "noexec", "noatime"); err != nil {
		return err
	}
	if refs, err := mounter.GetMountRefs(source); err != nil || !slices.Equal(refs, []string{target}) {
		return fmt.Errorf("mounts of %s: %v, %v", source, refs, err)
	}
	if err := os.WriteFile(filepath.Join(source, "file"), nil, 0o644); err != nil {
		return fmt.Errorf("the source became read-only as well: %v", err)
	}
	forced := mounter.(mount.MounterForceUnmounter)
	if err := mount.CleanupMountWithForce(target, forced, true, time.Minute); err != nil {
		return err
	}
	return mounter.Unmount(source)
}

func subPath(mounter mount.Interface, place string) error {
	source, target := filepath.Join(place, "source"), filepath.Join(place, "target")
	if err := os.WriteFile(filepath.Join(source, "file"), nil, 0o644); err != nil {
		return err
	}
	held, err := os.Open(source)
	if err != nil {
		return err
	}
	defer held.Close()
	link := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), held.Fd())
	flags := []string{"--no-canonicalize"}
	if err := mounter.MountSensitiveWithoutSystemdWithMountFlags(link, target, "", []string{"bind"}, nil, flags); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(target, "file")); err != nil {
		return err
	}
	if isMount, err := mounter.IsMountPoint(target); err != nil || !isMount {
		return fmt.Errorf("it is not a mount point: %v, %v", isMount, err)
	}
	return mount.CleanupMountPoint(target, mounter, true)
}

func unknownType(mounter mount.Interface, place string) error {
	target := filepath.Join(place, "target")
	err := mounter.MountSensitiveWithoutSystemd("server:/exports", target, "unheard-of", []string{"ro"}, nil)
	return contains(err, "exit status 32", "Output: mount: "+target+": unknown filesystem type 'unheard-of'.")
}

func formatAndMount(mounter mount.Interface, place string) error {
	disk := mount.NewSafeFormatAndMount(mounter, utilexec.New())
	err := disk.FormatAndMount("/dev/null", filepath.Join(place, "target"), "ext4", nil)
	return contains(err, "failed to get disk format of disk /dev/null: executable file not found in $PATH")
}

func rawBlock(device string) func(mount.Interface, string) error {
	return func(mounter mount.Interface, place string) error {
		handler := volumepathhandler.NewBlockVolumePathHandler()
		const uid, name = "7c5c4ba5-8c6b-4a4e-9d6a-0d2b7a3e6f10", "volume"
		global, pod := filepath.Join(place, "global"), filepath.Join(place, "pod")
		held := filepath.Join(global, uid)
		if err := handler.MapDevice(device, global, uid, true); err != nil {
			return err
		}
		if err := handler.MapDevice(device, pod, name, false); err != nil {
			return err
		}
		loop, err := handler.AttachFileDevice(held)
		if err != nil {
			return err
		}
		if again, err := handler.AttachFileDevice(held); err != nil || again != loop {
			return fmt.Errorf("a second attachment is %s, not %s: %v", again, loop, err)
		}
		if err := sameSize(device, loop); err != nil {
			return err
		}
		found, err := handler.FindGlobalMapPathUUIDFromPod(place, filepath.Join(pod, name), uid)
		if err != nil || found != held {
			return fmt.Errorf("the pod's device is at %q, not at %q: %v", found, held, err)
		}
		if err := mounter.Unmount(held); contains(err, "target is busy") != nil {
			return fmt.Errorf("the device is not held: %v", err)
		}
		if err := handler.DetachFileDevice(held); err != nil {
			return err
		}
		if loop, err := handler.GetLoopDevice(held); contains(err, volumepathhandler.ErrDeviceNotFound) != nil {
			return fmt.Errorf("%s is still attached: %v", loop, err)
		}
		if err := handler.UnmapDevice(pod, name, false); err != nil {
			return err
		}
		if err := handler.UnmapDevice(global, uid, true); err != nil {
			return err
		}
		// It fails if anything is still there.
		return os.Remove(global)
	}
}

func sameSize(paths ...string) error {
	var sizes []int64
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		size, err := file.Seek(0, io.SeekEnd)
		if err != nil {
			return err
		}
		sizes = append(sizes, size)
	}
	if sizes[0] != sizes[1] || sizes[0] == 0 {
		return fmt.Errorf("%v have the sizes %v", paths, sizes)
	}
	return nil
}

func has(mounter mount.Interface, target, kind string, options ...string) error {
	points, err := mounter.List()
	if err != nil {
		return err
	}
	for _, point := range points {
		if point.Path != target {
			continue
		}
		for _, option := range options {
			if !slices.Contains(point.Opts, option) {
				return fmt.Errorf("%s has %v, not %s", target, point.Opts, option)
			}
		}
		if point.Type != kind {
			return fmt.Errorf("%s is of type %s", target, point.Type)
		}
		return nil
	}
	return fmt.Errorf("%s is not mounted", target)
}

func contains(err error, parts ...string) error {
	if err == nil {
		return fmt.Errorf("no error")
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			return fmt.Errorf("%q does not contain %q", err, part)
		}
	}
	return nil
}
