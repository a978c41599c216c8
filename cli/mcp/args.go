package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

// decode reads the arguments of a call. Arguments that a tool does not know are left alone.
func decode(raw json.RawMessage, into any) error {
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	err := json.Unmarshal(raw, into)
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if e.Field == "" {
			return errors.New("arguments: want an object")
		}
		return fmt.Errorf("%s: want %s, got %s", e.Field, wanted(e.Type.String()), e.Value)
	}
	if err != nil {
		return fmt.Errorf("arguments: %w", err)
	}
	return nil
}

func wanted(goType string) string {
	switch {
	case strings.Contains(goType, "[]"):
		return "an array of strings"
	case strings.Contains(goType, "int"):
		return "a whole number"
	case strings.Contains(goType, "string"), strings.Contains(goType, "Bucket"), strings.Contains(goType, "TerminalID"):
		return "a string"
	case strings.Contains(goType, "bool"):
		return "true or false"
	}
	return "an object"
}

// checkID takes full ids only: a prefix that names one terminal now may name another one later.
func checkID(field string, id padi.TerminalID) error {
	if len(id) != 36 || uuid.Validate(string(id)) != nil {
		return fmt.Errorf("%s: want the full id of a terminal (a UUID), got %q", field, id)
	}
	return nil
}

// checkMS bounds a duration that must be given.
func checkMS(field string, ms *int64) (int64, error) {
	if ms == nil {
		return 0, fmt.Errorf("%s: is missing", field)
	}
	return checkOptionalMS(field, ms, 0)
}

func checkOptionalMS(field string, ms *int64, absent int64) (int64, error) {
	if ms == nil {
		return absent, nil
	}
	if *ms < 1 || *ms > kaval.MaxWaitMS {
		return 0, fmt.Errorf("%s: want a whole number from 1 to %d, got %d", field, int64(kaval.MaxWaitMS), *ms)
	}
	return *ms, nil
}

func checkCount(field string, n *int, max int) (int, error) {
	if n == nil {
		return 0, nil
	}
	if *n < 1 || *n > max {
		return 0, fmt.Errorf("%s: want a whole number from 1 to %d, got %d", field, max, *n)
	}
	return *n, nil
}
