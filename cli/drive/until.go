package drive

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

// Until is what a wait is for. One of the three is set.
type Until struct {
	IdleMS  int64
	Match   string
	Buckets []padi.Bucket
}

// ParseUntil reads idle:<ms> and match:<regex>, and a list of agent states where buckets is true.
func ParseUntil(s string, buckets bool) (Until, error) {
	switch kind, rest, _ := strings.Cut(s, ":"); {
	case kind == "idle" && strings.HasPrefix(s, "idle:"):
		ms, err := Millis(rest)
		if err != nil {
			return Until{}, fmt.Errorf("--until idle:%s: %w", rest, err)
		}
		return Until{IdleMS: ms}, nil
	case kind == "match" && strings.HasPrefix(s, "match:"):
		return parseMatch(rest)
	}
	if !buckets {
		return Until{}, fmt.Errorf("--until %q: use idle:<ms> or match:<regex>", s)
	}
	list, err := ParseBuckets(s)
	return Until{Buckets: list}, err
}

func parseMatch(expr string) (Until, error) {
	if expr == "" {
		return Until{}, errors.New("--until match: needs a regular expression")
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return Until{}, fmt.Errorf("--until match:%s: %w", expr, err)
	}
	if re.MatchString("") {
		return Until{}, fmt.Errorf("--until match:%s matches the empty string, so it would be met at once", expr)
	}
	return Until{Match: expr}, nil
}

// ParseBuckets reads a list of agent states as users type it: commas, any case, blanks around.
func ParseBuckets(s string) ([]padi.Bucket, error) {
	var list []padi.Bucket
	for word := range strings.SplitSeq(s, ",") {
		b := padi.Bucket(strings.ToLower(strings.TrimSpace(word)))
		if !slices.Contains(AllBuckets(), b) {
			return nil, fmt.Errorf("--until %q: use a list of working, awaiting, waiting", s)
		}
		if !slices.Contains(list, b) {
			list = append(list, b)
		}
	}
	return list, nil
}

// AllBuckets are the states that a wait can be for.
func AllBuckets() []padi.Bucket {
	return []padi.Bucket{padi.BucketWorking, padi.BucketAwaiting, padi.BucketWaiting}
}

// Millis reads a duration of a wait: digits, from 1 to kaval.MaxWaitMS.
func Millis(s string) (int64, error) {
	ms, err := strconv.ParseInt(s, 10, 64)
	if err != nil || ms < 1 || ms > kaval.MaxWaitMS || strings.Trim(s, "0123456789") != "" {
		return 0, fmt.Errorf("want milliseconds from 1 to %d", int64(kaval.MaxWaitMS))
	}
	return ms, nil
}

// ParseTimeout reads --timeout; empty means no limit.
func ParseTimeout(s string, given bool) (int64, error) {
	if !given {
		return 0, nil
	}
	ms, err := Millis(s)
	if err != nil {
		return 0, fmt.Errorf("--timeout %q: %w", s, err)
	}
	return ms, nil
}
