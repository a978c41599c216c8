package version

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// atExecFn is the key of the path of the program in what the kernel hands to a new process.
const atExecFn = 31

// startedAs is the path that the kernel was given, or "".
func startedAs() string {
	words, err := unix.Auxv()
	if err != nil {
		return ""
	}
	for _, w := range words {
		if w[0] == atExecFn && w[1] != 0 {
			return unix.BytePtrToString(*(**byte)(unsafe.Pointer(&w[1]))) // the kernel put it above the stack, where it stays
		}
	}
	return ""
}
