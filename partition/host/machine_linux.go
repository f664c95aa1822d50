package host

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// ThisMachine returns the Machine that the process runs on.
func ThisMachine() Machine { return Machine{BootID: bootID, Mount: mountOf} }

// bootID is random for each boot of the kernel, and the same in all containers.
func bootID() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// mountOf names the mount by the kernel's number for it, which newer kernels
// never use again, together with the device.
func mountOf(dir string) string {
	var st unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, dir, 0, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID|unix.STATX_MNT_ID_UNIQUE, &st) != nil {
		return ""
	}
	if st.Mask&(unix.STATX_MNT_ID_UNIQUE|unix.STATX_MNT_ID) == 0 {
		return ""
	}
	return fmt.Sprintf("%d:%d/%d", st.Dev_major, st.Dev_minor, st.Mnt_id)
}
