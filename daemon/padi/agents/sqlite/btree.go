package sqlite

import (
	"encoding/binary"
	"fmt"
)

// The kinds of pages.
const (
	indexInterior = 0x02
	tableInterior = 0x05
	indexLeaf     = 0x0a
	tableLeaf     = 0x0d
)

// maxDepth bounds a tree, which in a broken file could be a circle.
const maxDepth = 32

// node is one page of a tree.
type node struct {
	db    *DB
	data  []byte
	kind  byte
	cells []int  // offsets
	right uint32 // of an interior page
}

func (db *DB) node(n uint32) (node, error) {
	data, err := db.page(n)
	if err != nil {
		return node{}, fmt.Errorf("page %d: %w", n, err)
	}
	at := 0
	if n == 1 {
		at = headerSize
	}
	p := node{db: db, data: data, kind: data[at]}
	count, cells := int(binary.BigEndian.Uint16(data[at+3:])), at+8
	switch p.kind {
	case indexInterior, tableInterior:
		p.right, cells = binary.BigEndian.Uint32(data[at+8:]), at+12
	case indexLeaf, tableLeaf:
	default:
		return node{}, fmt.Errorf("%w: page %d is of kind %d", ErrFormat, n, p.kind)
	}
	if cells+2*count > len(data) {
		return node{}, fmt.Errorf("%w: page %d has %d cells", ErrFormat, n, count)
	}
	for i := range count {
		p.cells = append(p.cells, int(binary.BigEndian.Uint16(data[cells+2*i:])))
	}
	return p, nil
}

func (p node) leaf() bool { return p.kind == tableLeaf || p.kind == indexLeaf }

// child is the page below cell i; the one after the last cell is the rightmost.
func (p node) child(i int) uint32 {
	if i == len(p.cells) {
		return p.right
	}
	at := p.cells[i]
	if at+4 > len(p.data) {
		return 0
	}
	return binary.BigEndian.Uint32(p.data[at:])
}

// rowid is the key of cell i of a table's page, and where what follows it starts.
func (p node) rowid(i int) (id int64, payload int, at int, err error) {
	at = p.cells[i]
	if p.kind == tableInterior {
		v, n := varint(p.data, at+4)
		if n == 0 {
			return 0, 0, 0, errCell
		}
		return int64(v), 0, 0, nil
	}
	size, n := varint(p.data, at)
	v, m := varint(p.data, at+n)
	if n == 0 || m == 0 {
		return 0, 0, 0, errCell
	}
	return int64(v), int(size), at + n + m, nil
}

// key is the record of cell i of an index's page.
func (p node) key(i int) ([]Value, error) {
	at := p.cells[i]
	if p.kind == indexInterior {
		at += 4
	}
	size, n := varint(p.data, at)
	if n == 0 {
		return nil, errCell
	}
	body, err := p.payload(int(size), at+n, (p.db.usable-12)*64/255-23)
	if err != nil {
		return nil, err
	}
	return record(body)
}

var errCell = fmt.Errorf("%w: a cell out of its page", ErrFormat)

// maxPayload bounds one row.
const maxPayload = 256 << 20

// payload is size bytes from at on, of which those beyond most may be on pages of their own.
func (p node) payload(size, at, most int) ([]byte, error) {
	local := size
	if size > most {
		least := (p.db.usable-12)*32/255 - 23
		if local = least + (size-least)%(p.db.usable-4); local > most {
			local = least
		}
	}
	if size < 0 || size > maxPayload || at+local > len(p.data) {
		return nil, errCell
	}
	if local == size {
		return p.data[at : at+size], nil
	}
	if at+local+4 > len(p.data) {
		return nil, errCell
	}
	body := append(make([]byte, 0, size), p.data[at:at+local]...)
	next := binary.BigEndian.Uint32(p.data[at+local:])
	for len(body) < size {
		page, err := p.db.page(next)
		if err != nil {
			return nil, fmt.Errorf("overflow page %d: %w", next, err)
		}
		next = binary.BigEndian.Uint32(page)
		body = append(body, page[4:min(p.db.usable, 4+size-len(body))]...)
	}
	return body, nil
}

// newestFirst visits the rows of a table from the greatest rowid down, until visit says no.
func (db *DB) newestFirst(root uint32, depth int, visit func(rowid int64, body []byte) (bool, error)) (on bool, err error) {
	p, err := db.tableNode(root, depth)
	if err != nil {
		return false, err
	}
	if p.leaf() {
		return p.leafRows(visit)
	}
	for i := len(p.cells); i >= 0; i-- {
		if on, err := db.newestFirst(p.child(i), depth+1, visit); !on || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (db *DB) tableNode(n uint32, depth int) (node, error) {
	p, err := db.node(n)
	if err == nil && (depth > maxDepth || p.kind != tableInterior && p.kind != tableLeaf) {
		err = fmt.Errorf("%w: page %d is not of a table", ErrFormat, n)
	}
	return p, err
}

func (p node) leafRows(visit func(rowid int64, body []byte) (bool, error)) (on bool, err error) {
	for i := len(p.cells) - 1; i >= 0; i-- {
		id, size, at, err := p.rowid(i)
		if err != nil {
			return false, err
		}
		body, err := p.payload(size, at, p.db.usable-35)
		if err != nil {
			return false, err
		}
		if on, err := visit(id, body); !on || err != nil {
			return false, err
		}
	}
	return true, nil
}

// row gives the record of one rowid, or nil.
func (db *DB) row(root uint32, rowid int64) ([]byte, error) {
	for depth := 0; ; depth++ {
		p, err := db.tableNode(root, depth)
		if err != nil {
			return nil, err
		}
		i := 0
		for ; i < len(p.cells); i++ {
			id, size, at, err := p.rowid(i)
			if err != nil {
				return nil, err
			}
			if p.leaf() && id == rowid {
				return p.payload(size, at, db.usable-35)
			}
			if !p.leaf() && rowid <= id {
				break
			}
		}
		if p.leaf() {
			return nil, nil
		}
		root = p.child(i)
	}
}

// lastFirst visits the entries of an index whose first column is first, from the last one down, until visit says no.
func (db *DB) lastFirst(root uint32, first Value, depth int, visit func(key []Value) (bool, error)) (on bool, err error) {
	p, err := db.node(root)
	if err != nil {
		return false, err
	}
	if depth > maxDepth || p.kind != indexInterior && p.kind != indexLeaf {
		return false, fmt.Errorf("%w: page %d is not of an index", ErrFormat, root)
	}
	keys := make([][]Value, len(p.cells))
	for i := range p.cells {
		if keys[i], err = p.key(i); err != nil {
			return false, err
		}
	}
	below := func(i int) bool { return i > 0 && compare(keys[i-1][0], first) > 0 }
	above := func(i int) bool { return i < len(keys) && compare(keys[i][0], first) < 0 }
	for i := len(keys); i >= 0; i-- {
		if i < len(keys) && compare(keys[i][0], first) == 0 {
			if on, err := visit(keys[i]); !on || err != nil {
				return false, err
			}
		}
		if p.leaf() || below(i) || above(i) {
			continue
		}
		if on, err := db.lastFirst(p.child(i), first, depth+1, visit); !on || err != nil {
			return false, err
		}
	}
	return true, nil
}
