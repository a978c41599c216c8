package paditui

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"kolu/cli"
	"kolu/cli/client"
	"kolu/cli/drive"
	"kolu/daemon/padi"
)

// hostRecord is a record of one of several hosts.
type hostRecord struct {
	Host string `json:"host"`
	// Names are all names of the host, where it was reached by several.
	Names []string `json:"names,omitempty"`
	remoteRecord
}

// remoteRecord is a record of another machine, with the way there.
type remoteRecord struct {
	padi.Record
	Link *client.Link `json:"link,omitempty"`
}

func remoteRecords(records []padi.Record, link *client.Link) []remoteRecord {
	rows := []remoteRecord{}
	for _, r := range records {
		rows = append(rows, remoteRecord{r, link})
	}
	return rows
}

// statusMany shows the terminals of several hosts. For people the rows come as the hosts answer; JSON is one array at the end, in
// the order of the hosts.
func (f *Face) statusMany(ctx context.Context, asJSON bool) error {
	hosts, err := f.flags.Hosts(f.env)
	if err != nil {
		return err
	}
	hosts.JSON = asJSON
	table := newHostTable(f.env.Stdout, hosts)
	var mu sync.Mutex
	got := map[int][]remoteRecord{}
	views := map[int]view{}
	outcomes := hosts.Ask(ctx, f.env, f.connect, func(ctx context.Context, c *client.PadiClient, t *client.Turn) error {
		v, err := f.viewOf(ctx, c)
		if err != nil {
			return err
		}
		records := v.records
		mu.Lock()
		defer mu.Unlock()
		views[t.Index()] = v
		got[t.Index()] = remoteRecords(records, v.link)
		if asJSON {
			return nil
		}
		return table.add(t.Index(), t.Host().Names(), records)
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for _, o := range outcomes {
		if !o.Same {
			f.notes(o.Host.Name, views[o.Asked])
		}
	}
	if asJSON {
		if err := drive.WriteJSON(f.env.Stdout, hostRecords(outcomes, got)); err != nil {
			return err
		}
	} else {
		f.noteNames(outcomes, table.named)
	}
	return client.Partial(outcomes)
}

func hostRecords(outcomes []client.Outcome, got map[int][]remoteRecord) []hostRecord {
	rows := []hostRecord{}
	for _, o := range outcomes {
		if o.Same {
			continue
		}
		names := o.Host.Names()
		if len(names) == 1 {
			names = nil
		}
		for _, r := range got[o.Asked] {
			rows = append(rows, hostRecord{o.Host.Name, names, r})
		}
	}
	return rows
}

// noteNames says which further names a host turned out to have after its rows were printed.
func (f *Face) noteNames(outcomes []client.Outcome, printed map[int]string) {
	for _, o := range outcomes {
		if cell, ok := printed[o.Asked]; ok && !o.Same && cell != nameCell(o.Host.Names()) {
			f.note("%s is one machine", strings.Join(o.Host.Names(), ", "))
		}
	}
}

// mostNames is how many names of one machine a row has room for.
const mostNames = 3

func nameCell(names []string) string {
	if len(names) > mostNames {
		return fmt.Sprintf("%s+%d", strings.Join(names[:mostNames], ","), len(names)-mostNames)
	}
	return strings.Join(names, ",")
}

// hostTable prints the rows of one host after another. Its columns only grow, since what comes is not known.
type hostTable struct {
	out    io.Writer
	head   []string
	widths []int
	named  map[int]string // what stands in the first column for the host at an index
}

func newHostTable(out io.Writer, hosts *client.Hosts) *hostTable {
	width := len("HOST")
	for _, h := range hosts.List {
		width = max(width, utf8.RuneCountInString(nameCell(h.Names())))
	}
	return &hostTable{out: out, widths: []int{width}, named: map[int]string{}}
}

func (t *hostTable) add(host int, names []string, records []padi.Record) error {
	cell := nameCell(names)
	t.named[host] = cell
	if len(records) == 0 {
		return t.print([][]string{{cell, "no terminals."}})
	}
	rows := statusRows(records)
	for i := range rows {
		rows[i] = slices.Insert(rows[i], 0, cell)
	}
	rows[0][0] = "HOST"
	if slices.Equal(rows[0], t.head) {
		rows = rows[1:]
	} else {
		t.head = slices.Clone(rows[0])
	}
	return t.print(rows)
}

func (t *hostTable) print(rows [][]string) error {
	for _, row := range rows {
		for c := range row {
			row[c] = cli.Clean(row[c])
			if c == len(t.widths) {
				t.widths = append(t.widths, 0)
			}
			if c+1 < len(row) { // the last one pushes nothing
				t.widths[c] = max(t.widths[c], utf8.RuneCountInString(row[c]))
			}
		}
	}
	var b strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for c, cell := range row {
			line.WriteString(cell)
			if c+1 < len(row) {
				line.WriteString(strings.Repeat(" ", max(0, t.widths[c]-utf8.RuneCountInString(cell))+2))
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(t.out, b.String())
	return err
}
