package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// bounds are how many plain logins at once the best is looked for among. OpenSSH's server begins to refuse some at ten that have
// not logged in yet.
var bounds = []int{4, 6, 8, 10}

// many times one verb on a host by so many names, as if they were hosts behind one server, over the best of plain ssh: a login
// by each name, so many at once as is quickest and refuses nobody. No name is known to be the same machine as another.
func (b *bench) many(ctx context.Context, host string, names int) error {
	u, err := b.newUser()
	if err != nil {
		return err
	}
	defer u.end()
	if _, err := u.time(ctx, nil, "padi-tui", "status", "--host", host); err != nil { // the build is there from here on
		return err
	}
	list, err := b.alias(ctx, host, names)
	if err != nil {
		return err
	}
	best, bound := time.Duration(0), 0
	for _, n := range bounds {
		took, err := b.middle(func() (time.Duration, error) { return u.logins(ctx, list, n) })
		if err != nil {
			fmt.Printf("%-10s %-44s %s\n", host, fmt.Sprintf("%d plain logins, %d at once", names, n), "refused")
			continue
		}
		fmt.Printf("%-10s %-44s %19.0f ms\n", host, fmt.Sprintf("%d plain logins, %d at once", names, n), took.Seconds()*1000)
		if best == 0 || took < best {
			best, bound = took, n
		}
	}
	if bound == 0 {
		return errors.New("the server refuses plain logins at each bound")
	}
	for _, transport := range []string{"native", "master"} {
		verb := func() (time.Duration, error) {
			fresh, err := b.newUser()
			if err != nil {
				return 0, err
			}
			defer fresh.end()
			return fresh.time(ctx, nil, "padi-tui", "status", "--host", strings.Join(list, ","), "--ssh", transport)
		}
		what := fmt.Sprintf("status of %d names, --ssh %s, over %d at once", names, transport, bound)
		if err := b.pair(host, what, verb, func() (time.Duration, error) { return u.logins(ctx, list, bound) }); err != nil {
			return err
		}
	}
	return nil
}

// middle is the median of the runs of one command.
func (b *bench) middle(command func() (time.Duration, error)) (time.Duration, error) {
	var took []time.Duration
	for range b.n {
		d, err := command()
		if err != nil {
			return 0, err
		}
		took = append(took, d)
	}
	return median(took), nil
}

// logins runs `ssh NAME true` for each name, at most so many at once.
func (u *user) logins(ctx context.Context, names []string, atOnce int) (time.Duration, error) {
	place := make(chan struct{}, atOnce)
	failed := make([]error, len(names))
	var all sync.WaitGroup
	start := time.Now()
	for i, name := range names {
		place <- struct{}{}
		all.Go(func() {
			_, failed[i] = u.time(ctx, nil, "ssh", name, "true")
			<-place
		})
	}
	all.Wait()
	return time.Since(start), errors.Join(failed...)
}

// alias gives the host so many names more, each behind a proxy that could lead it elsewhere, for the ssh that is used from here on.
func (b *bench) alias(ctx context.Context, host string, n int) (names []string, err error) {
	u, err := b.newUser()
	if err != nil {
		return nil, err
	}
	out, err := u.output(ctx, "ssh", "-G", host)
	if err != nil {
		return nil, err
	}
	var config strings.Builder
	for line := range strings.Lines(out) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch key {
		case "hostname", "hostkeyalias", "user", "identityfile", "userknownhostsfile", "port":
			fmt.Fprintf(&config, " %s %s\n", key, value)
		}
	}
	for i := range n {
		names = append(names, fmt.Sprintf("%s-name%d", host, i))
	}
	text := "Host " + strings.Join(names, " ") + "\n" + config.String() + " ProxyCommand nc -w 30 %h %p # %n\n"
	file := filepath.Join(b.dir, "names")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return names, os.WriteFile(b.ssh, []byte("#!/bin/sh\nexec "+b.program+" -F "+file+" \"$@\"\n"), 0o755)
}
