package front

import "golang.org/x/sys/unix"

func hostIDs() (machine, boot string) {
	machine, _ = unix.Sysctl("kern.uuid")
	boot, _ = unix.Sysctl("kern.bootsessionuuid")
	return machine, boot
}
