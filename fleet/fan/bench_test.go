package fan

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"testing"
)

// BenchmarkHosts asks many hosts that all stay connected, and reports what each costs here, stacks included: the price of asking, without
// that of a link. It is the same for each, however many there are.
func BenchmarkHosts(b *testing.B) {
	for _, n := range []int{100, 1000, 4000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) { benchHosts(b, n) })
	}
}

func benchHosts(b *testing.B, n int) {
	hosts := numbered(n)
	for b.Loop() {
		before := inUse()
		release := make(chan struct{})
		var reached sync.WaitGroup
		reached.Add(n)
		var all sync.WaitGroup
		all.Go(func() {
			Each(b.Context(), hosts, Options{}, func(ctx context.Context, t *Turn) error {
				t.Reached(t.Host().Name)
				t.Streaming()
				reached.Done()
				<-release
				return nil
			})
		})
		reached.Wait()
		after := inUse()
		b.ReportMetric(float64(after-min(before, after))/float64(n), "B/host")
		close(release)
		all.Wait()
	}
}

func inUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}
