package call

import (
	"net/url"
	"strconv"
)

// Query is the parameters of a question; what has no value is left out.
type Query url.Values

// Text sets a text, unless it is empty.
func (q Query) Text(key, value string) {
	if value != "" {
		url.Values(q).Set(key, value)
	}
}

// Number sets a number, unless it is 0.
func (q Query) Number(key string, n int64) {
	if n != 0 {
		q.Optional(key, &n)
	}
}

// Optional sets a number, unless there is none.
func (q Query) Optional(key string, n *int64) {
	if n != nil {
		url.Values(q).Set(key, strconv.FormatInt(*n, 10))
	}
}

// Flag sets a flag that is on.
func (q Query) Flag(key string, on bool) {
	if on {
		url.Values(q).Set(key, "true")
	}
}

func withQuery(path string, q url.Values) string {
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}
