package sqlite

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
)

// Value is one value of a row: nil, int64, float64, string or []byte.
type Value any

// varint reads a number at an offset and gives how many bytes it has; 0 where there is none.
func varint(b []byte, at int) (v uint64, n int) {
	for n = 1; n <= 9; n++ {
		if at < 0 || at+n > len(b) {
			return 0, 0
		}
		c := b[at+n-1]
		if n == 9 {
			return v<<8 | uint64(c), 9
		}
		v = v<<7 | uint64(c&0x7f)
		if c < 0x80 {
			return v, n
		}
	}
	return v, n
}

// record decodes a row or a key, which has at least one value.
func record(b []byte) ([]Value, error) {
	head, n := varint(b, 0)
	if n == 0 || head > uint64(len(b)) {
		return nil, errRecord
	}
	at := int(head)
	var values []Value
	for n < int(head) {
		kind, m := varint(b[:head], n)
		if m == 0 {
			return nil, errRecord
		}
		n += m
		v, size, ok := value(b, at, kind)
		if !ok {
			return nil, errRecord
		}
		at += size
		values = append(values, v)
	}
	if len(values) == 0 {
		return nil, errRecord
	}
	return values, nil
}

var errRecord = fmt.Errorf("%w: a broken record", ErrFormat)

var intSizes = [...]int{1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}

func value(b []byte, at int, kind uint64) (v Value, size int, ok bool) {
	switch {
	case kind == 0:
		return nil, 0, true
	case kind <= 6:
		size = intSizes[kind]
		if at+size > len(b) {
			return nil, 0, false
		}
		return integer(b[at : at+size]), size, true
	case kind == 7:
		if at+8 > len(b) {
			return nil, 0, false
		}
		return math.Float64frombits(binary.BigEndian.Uint64(b[at:])), 8, true
	case kind == 8 || kind == 9:
		return int64(kind - 8), 0, true
	case kind < 12 || kind > 2*maxPayload:
		return nil, 0, false
	}
	size = int(kind-12) / 2
	if at+size > len(b) {
		return nil, 0, false
	}
	if kind%2 == 0 {
		return append([]byte(nil), b[at:at+size]...), size, true
	}
	return string(b[at : at+size]), size, true
}

func integer(b []byte) int64 {
	v := int64(int8(b[0]))
	for _, c := range b[1:] {
		v = v<<8 | int64(c)
	}
	return v
}

// compare orders values as an index without a collation of its own does.
func compare(a, b Value) int {
	if c := cmp.Compare(rank(a), rank(b)); c != 0 {
		return c
	}
	switch a := a.(type) {
	case string:
		return cmp.Compare(a, b.(string))
	case []byte:
		return cmp.Compare(string(a), string(b.([]byte)))
	case nil:
		return 0
	}
	return cmp.Compare(number(a), number(b))
}

func rank(v Value) int {
	switch v.(type) {
	case nil:
		return 0
	case string:
		return 2
	case []byte:
		return 3
	}
	return 1
}

func number(v Value) float64 {
	switch v := v.(type) {
	case int64:
		return float64(v)
	case float64:
		return v
	}
	return 0
}
