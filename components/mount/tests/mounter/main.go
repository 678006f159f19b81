// Uses the `mount` and `umount` of PATH through the kubelet's own mount library, as its volume code
// does. It takes an empty folder to work in, and fails at the first unexpected result.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	mount "k8s.io/mount-utils"
	utilexec "k8s.io/utils/exec"
)

func main() {
	folder := os.Args[1]
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
