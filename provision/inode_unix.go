//go:build unix

package provision

import (
	"fmt"
	"os"
	"syscall"
)

// inode tells two files with one name apart.
func inode(info os.FileInfo) string {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprintf("%d:%d", st.Dev, st.Ino)
	}
	return ""
}
