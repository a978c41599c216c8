package daemon

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// fullRole starts a daemon whose runtime directory, the first argument, is on a full disk. It says how that went and what is left.
func fullRole() int {
	dir := os.Args[1]
	if err := syscall.Mount("full", dir, "tmpfs", 0, "size=64k,mode=0700"); err != nil {
		fmt.Println("mount:", err)
		return 1
	}
	home := HomeFor(Kaval, dir+"/state", func(k string) string { return map[string]string{RuntimeVar: dir}[k] })
	if err := OpenHome(home); err != nil {
		fmt.Println(err)
		return 1
	}
	filler := make([]byte, 128<<10)
	if err := os.WriteFile(dir+"/filler", filler, 0o600); err == nil {
		fmt.Println("there is room for more")
		return 1
	}
	_, err := Start(context.Background(), StartConfig{
		Home: home, Exe: "/proc/self/exe", Name: "kaval", Args: []string{dir}, Environ: []string{roleVar + "=serve"}, Log: slogTo(os.Stderr),
	})
	fmt.Println(err)
	_, err = claimGate(home)
	fmt.Println(err)
	left, _ := filepath.Glob(home.Dir + "/*.tmp.*")
	fmt.Println("left:", left)
	return 0
}

func TestStartOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], dir)
	cmd.Env = []string{roleVar + "=full"}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	lines := strings.Split(string(out), "\n")
	if len(lines) < 3 || !strings.Contains(lines[0], "start kaval: no space left on "+dir) || !strings.Contains(lines[1], "no space left") || lines[2] != "left: []" {
		t.Errorf("got %s", out)
	}
}
