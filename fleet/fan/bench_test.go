package fan

import (
	"context"
	"runtime"
	"sync"
	"testing"
)

// BenchmarkThousandHosts asks a thousand hosts that all stay connected, and reports what each costs here, stacks included: the price
// of asking, without that of a link.
func BenchmarkThousandHosts(b *testing.B) {
	const n = 1000
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
		b.ReportMetric(float64(after-min(before, after))/n, "B/host")
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
