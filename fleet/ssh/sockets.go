package ssh

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// wayTo is a word that stands for a target, its jump hosts where its own configuration does not say them, and the state of the
// configuration, so that a host that means another machine now does not get the old one's connection.
func (o *Options) wayTo(t Target, before ...string) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q", t.User, t.Host, t.Port)
	if len(before) > 0 {
		fmt.Fprintf(h, " %q", before)
	}
	for _, f := range o.configFiles() {
		if info, err := os.Stat(f); err == nil {
			fmt.Fprintf(h, " %q %d %d", f, info.Size(), info.ModTime().UnixNano())
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

// socketBase is the path of the control sockets for a target, less a number.
func (o *Options) socketBase(t Target, before ...string) (string, error) {
	name := o.wayTo(t, before...)
	var why error
	for _, dir := range []string{o.getenv("XDG_RUNTIME_DIR"), "/tmp"} {
		if dir == "" || !filepath.IsAbs(dir) || strings.ContainsAny(dir, " \t%\"'") {
			continue
		}
		dir = filepath.Join(dir, "kolu-ssh")
		if dir == "/tmp/kolu-ssh" {
			dir += fmt.Sprintf("-%d", os.Getuid())
		}
		if len(dir)+1+len(name)+2 > maxSocket {
			why = fmt.Errorf("%s is too long for a socket", dir)
			continue
		}
		if why = ownDir(dir); why == nil {
			return filepath.Join(dir, name), nil
		}
	}
	return "", fmt.Errorf("%w: %w", errLocal, why)
}

// ownDir makes dir, or checks that it is a real directory of ours that nobody else may enter.
func ownDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("make directory of control sockets: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("check directory of control sockets: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(st.Uid) != os.Getuid() || info.Mode().Perm() != 0o700 {
		return fmt.Errorf("check directory of control sockets: %s is not a directory of ours with mode 0700", dir)
	}
	return nil
}

// tryLock takes a lock that ends with this process, whatever happens to it; EWOULDBLOCK when somebody has it.
func tryLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errLocal, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("%w: lock %s: %w", errLocal, path, err)
	}
	return f, nil
}

// lock is tryLock that waits, and calls waiting once when it has to. The unlock may be called twice.
func lock(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
	var once sync.Once
	for {
		f, err := tryLock(path)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, err
		}
		once.Do(waiting)
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
