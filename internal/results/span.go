package results

import (
	"fmt"
	"strconv"
	"strings"
)

// span is a range of lines or bytes, both ends included. Last counts from the end.
type span struct {
	from, to int // to is -1 for no end
	last     int // if not 0, the last ones
}

// parseSpan parses "5-9", "5-" (to the end), "-9" (the last nine) or "5" (only this one).
func parseSpan(name, text string) (span, error) {
	a, b, isRange := strings.Cut(text, "-")
	from, errFrom := parseCount(a)
	to, errTo := parseCount(b)
	switch {
	case !isRange && errFrom == nil:
		return span{from: from, to: from}, nil
	case isRange && a == "" && errTo == nil && to > 0:
		return span{last: to}, nil
	case isRange && b == "" && errFrom == nil:
		return span{from: from, to: -1}, nil
	case isRange && errFrom == nil && errTo == nil && from <= to:
		return span{from: from, to: to}, nil
	}
	return span{}, fmt.Errorf(`%s must be "from-to", "from-" for up to the end, or "-n" for the last n; it is %s`, name, quote(text))
}

// parseCount parses a number without sign that fits.
func parseCount(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 53)
	return int(n), err
}

// within returns the first and the last number that a span means among those from first to
// last, which are n.
func (s span) within(name string, first, n int) (from, to int, err error) {
	last := first + n - 1
	if s.last > 0 {
		return max(first, last-s.last+1), last, nil
	}
	from, to = max(s.from, first), s.to
	if to < 0 || to > last {
		to = last
	}
	if from > last || from > to {
		return 0, 0, fmt.Errorf("%s=%s: there are %d %s, numbered from %d", name, s, n, unitOf(name), first)
	}
	return from, to, nil
}

func unitOf(name string) string {
	if name == "lines" {
		return name
	}
	return "bytes"
}

// String returns the span as it is written in a query.
func (s span) String() string {
	switch {
	case s.last > 0:
		return "-" + strconv.Itoa(s.last)
	case s.to < 0:
		return strconv.Itoa(s.from) + "-"
	default:
		return strconv.Itoa(s.from) + "-" + strconv.Itoa(s.to)
	}
}
